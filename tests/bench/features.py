"""Owns what each feature costs: the gateway's CPU a call with it and without it, by turns.

It must not judge: no goal hangs on these figures. They say where a microsecond goes, and what to leave off.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import load, targets
from .goals import ratios
from .load import Phase, Sample
from .running import Running, say
from .wire import NUMBER, BenchError, Client, start_call

IN_FLIGHT = 8
#: Enough for the echo servers' working tools.
TOOLS = 8
#: The tools that `--more` adds to them.
MORE = 6
#: Long enough that the ratio of two neighbours moves by a tenth, short enough that all of them take less than a minute.
SHARE = 0.22
ECHO: dict[str, Any] = {"text": "x" * 100}
LONG: dict[str, Any] = {"text": "x" * 20_000}
#: What `link` links to, as long as the text of ECHO.
LINKED: dict[str, Any] = {"uri": "file:///" + "x" * 92}
PROGRESS: dict[str, Any] = {"progressToken": 1}
#: One trace: the same span of it in all calls, and a span for each.
TRACE: dict[str, Any] = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
SPANS: dict[str, Any] = {"traceparent": f"00-{'a' * 32}-{NUMBER}-01"}
#: How agents attach. Those of one daemon are attached to it at once; only one calls at a time. UNLUCKY attaches for
#: each of its turns, after which a call fails. The last three have daemons of their own, each with one server.
SOCKET, CONNECT, HTTP, SOCKET_MODERN, HTTP_MODERN, VIEW, UNLUCKY, SMALL, TRACED, GUARDED = (
    "the agent socket",
    "`mcphub connect`",
    "HTTP",
    "the agent socket, modern",
    "HTTP, modern",
    "HTTP, one server's view",
    "the agent socket, after a failed call",
    "the agent socket of a small daemon",
    "the same, where mcphub begins traces",
    "the same, where a call of another agent got no answer",
)


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of call: how the agent is attached, the server, the tool (or method), arguments and `_meta`."""

    via: str = SOCKET
    server: str = "legacy"
    tool: str = "echo"
    arguments: Mapping[str, Any] = field(default_factory=lambda: ECHO)
    meta: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Feature:
    """What is compared: a call with the feature, and the same call without it."""

    name: str
    with_it: Case
    without: Case


PLAIN = Case()
READ = Case(tool="read")
LOOSE = Case(tool="loose")
SHAPED, UNSHAPED = Case(tool="shaped"), Case(tool="unshaped")
TASKS = Case(SOCKET_MODERN, "tasking")
LIST: Mapping[str, Any] = {}
FEATURES = (
    Feature("`mcphub connect` in place of the agent socket itself", Case(via=CONNECT), PLAIN),
    Feature("the HTTP endpoint in place of the agent socket", Case(via=HTTP), PLAIN),
    Feature("the same, modern agent and server", Case(HTTP_MODERN, "modern"), Case(SOCKET_MODERN, "modern")),
    Feature("a legacy agent's call to a modern server, of one to a legacy server", Case(server="modern"), PLAIN),
    Feature(
        "a modern agent's call to a legacy server, of one to a modern server",
        Case(SOCKET_MODERN),
        Case(SOCKET_MODERN, "modern"),
    ),
    Feature("the outcome journal: a call of a tool that may change something, of one that only reads", PLAIN, READ),
    Feature(
        "the outcome journal, modern agent and server",
        Case(SOCKET_MODERN, "modern"),
        Case(SOCKET_MODERN, "modern", "read"),
    ),
    Feature("an idempotency argument that mcphub fills in, whose call is kept", Case(server="keyed"), PLAIN),
    Feature("retry: a call of an idempotent tool, which is kept for it, of one that is not", Case(tool="again"), PLAIN),
    Feature("retry: the same, arguments of 20 KB", Case(tool="again", arguments=LONG), Case(arguments=LONG)),
    Feature("validation: a tool whose schema says what its arguments are, of one that says nothing", PLAIN, LOOSE),
    Feature("validation: the same, arguments of 20 KB", Case(arguments=LONG), Case(tool="loose", arguments=LONG)),
    Feature("validation of structured content: a tool with an outputSchema, of one without", SHAPED, UNSHAPED),
    Feature("circuit breaker: a call of another agent to this server got no answer", Case(GUARDED), Case(SMALL)),
    Feature("limits: one that is not reached (`limits.calls` 64), of none", Case(server="limited"), PLAIN),
    Feature("limits: half of the calls wait for it (`limits.calls` 4)", Case(server="narrow"), PLAIN),
    Feature("trace: a `traceparent` with a span of its own in each call, of no `_meta`", Case(meta=SPANS), PLAIN),
    Feature("trace: the same `traceparent` in all calls, of no `_meta`", Case(meta=TRACE), PLAIN),
    Feature("trace: mcphub begins one for each call (`[trace] begin`)", Case(TRACED), Case(SMALL)),
    Feature("tasks: a server that has the extension, of one that has not", TASKS, Case(SOCKET_MODERN, "modern")),
    Feature("repeated failures: a call of another tool of this agent failed lately", Case(UNLUCKY), PLAIN),
    Feature(
        "repeated failures: a call of this tool with other arguments failed lately",
        Case(UNLUCKY, tool="moody"),
        Case(tool="moody"),
    ),
    Feature("a progress token", Case(meta=PROGRESS), PLAIN),
    Feature("a progress token and one notification", Case(tool="progress", meta=PROGRESS), PLAIN),
    Feature("a result with a URI that is renamed", Case(tool="link", arguments=LINKED), PLAIN),
    Feature("an HTTP server in place of a stdio server", Case(server="json"), Case(server="modern")),
    Feature("an HTTP server that answers with events, not JSON", Case(server="events"), Case(server="json")),
    Feature(
        "tools/list of all servers, of one server's own view (HTTP)",
        Case(HTTP, "", "tools/list", LIST),
        Case(VIEW, "", "tools/list", LIST),
    ),
)


@dataclass(slots=True)
class Features:
    """The samples of both sides of each feature, by round, and what failed."""

    samples: dict[str, tuple[list[Sample], list[Sample]]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


def phase_of(case: Case) -> Phase:
    """The load of one side."""
    return Phase(case.tool, IN_FLIGHT, case.tool, dict(case.arguments), 40, server=case.server, meta=case.meta)


Agents = dict[str, tuple[Running, Client]]


def start(stack: ExitStack, folder: Path, program: Path) -> Agents:
    """One daemon with a server of each kind, the small ones, and an agent of each kind attached. Raises BenchError."""
    port = targets.free_port()
    remote = {
        name: stack.enter_context(Running(targets.echo_http(folder, sse=name == "events"))).target.url
        for name in ("json", "events")
    }
    argv = targets.echo_argv(TOOLS)
    legacy: dict[str, object] = {"command": argv[0], "args": [*argv[1:], "--legacy", "--more"]}
    entries: dict[str, dict[str, object]] = {
        "legacy": legacy,
        "modern": {"command": argv[0], "args": [*argv[1:], "--more"]},
        "tasking": {"command": argv[0], "args": [*argv[1:], "--more", "--makes-tasks"]},
        "keyed": legacy | {"tools": {"echo": {"idempotencyArgument": "key"}}},
        "limited": legacy | {"limits": {"calls": 64}},
        "narrow": legacy | {"limits": {"calls": IN_FLIGHT // 2}},
        **{name: {"type": "http", "url": url} for name, url in remote.items()},
    }
    made = targets.mcphub(folder / "features", program, servers=0, entries=entries, port=port)
    socket = replace(made, client=())
    endpoint = replace(made, url=targets.endpoint(port), token=targets.TOKEN)
    hub = stack.enter_context(Running(socket, want=6 * (TOOLS + MORE) + 2 * 5))
    ways = {
        CONNECT: made,
        HTTP: endpoint,
        SOCKET_MODERN: replace(socket, era="modern"),
        HTTP_MODERN: replace(endpoint, era="modern"),
        VIEW: replace(endpoint, url=endpoint.url + "/s/legacy"),
    }
    agents: Agents = {SOCKET: (hub, hub.client)} | {name: (hub, hub.attach(over)) for name, over in ways.items()}
    for number, way in enumerate((SMALL, TRACED, GUARDED)):
        settings = "[trace]\nbegin = true\n" if way == TRACED else ""
        one = targets.mcphub(
            folder / f"small{number}", program, servers=0, entries={"legacy": legacy}, settings=settings
        )
        small = stack.enter_context(Running(replace(one, client=()), want=TOOLS + MORE))
        agents[way] = small, small.client
    lose_an_answer(agents[GUARDED][0])
    return agents


def lose_an_answer(hub: Running) -> None:
    """Another agent's call ends the server, which is back when this returns. Raises BenchError."""
    other = hub.attach(name="another agent")
    start_call(other, hub.tool("leave"), {})
    other.poll(10.0)
    hub.detach(other)
    end = time.monotonic() + 20
    while "error" in (reply := hub.client.request("tools/call", {"name": hub.tool("echo"), "arguments": ECHO})) or (
        reply.get("isError")
    ):
        if time.monotonic() > end:
            raise BenchError(f"a server that ended was not started again: {str(reply)[:200]}")
        hub.client.poll(0.1)


@contextmanager
def agent_of(agents: Agents, case: Case) -> Iterator[tuple[Running, Client]]:
    """Who makes the calls of one side. Raises BenchError."""
    if case.via != UNLUCKY:
        yield agents[case.via]
        return
    hub, _ = agents[SOCKET]
    agent = hub.attach()
    try:
        for _ in range(2):  # from the second one on it is known with which arguments
            agent.request("tools/call", {"name": hub.tool("moody", case.server), "arguments": {"text": "fail"}})
        yield hub, agent
    finally:
        hub.detach(agent)


def run(folder: Path, program: Path, rounds: int, seconds: float) -> Features:
    """Each feature's two sides right after each other, ROUNDS times, after a turn that does not count."""
    result = Features()
    with ExitStack() as stack:
        agents = start(stack, folder, program)
        for turn in range(-1, rounds):
            length = min(0.05, seconds) if turn < 0 else seconds * SHARE
            for feature in FEATURES:
                if feature.name in result.errors:
                    continue
                sides = (0, 1) if turn % 2 else (1, 0)
                taken: dict[int, Sample] = {}
                try:
                    for side in sides:
                        case = feature.without if side else feature.with_it
                        with agent_of(agents, case) as (hub, agent):
                            taken[side] = load.measure(hub, phase_of(case), length, agent)
                except (BenchError, OSError) as error:
                    result.errors[feature.name] = str(error)[:300]
                    say(f"  {feature.name}: {error}")
                    continue
                if turn >= 0:
                    with_it, without = result.samples.setdefault(feature.name, ([], []))
                    with_it.append(taken[0])
                    without.append(taken[1])
        say("  features done")
    return result


def tables(result: Features) -> list[str]:
    """One Markdown table: CPU a call with and without, medians of the rounds, and the median of their ratios."""
    lines = [
        f"What a feature costs: CPU of the gateway, us a call with {IN_FLIGHT} in flight (echoes of 100 B):\n",
        "| feature | with it | without | ratio |",
        "| --- | ---: | ---: | ---: |",
    ]
    for feature in FEATURES:
        if feature.name in result.errors or feature.name not in result.samples:
            lines.append(f"| {feature.name} | failed | | |")
            continue
        with_it, without = ([one.gateway_cpu_us for one in side] for side in result.samples[feature.name])
        ratio = ratios(with_it, without)
        cells = [f"{statistics.median(column):,.1f}" for column in (with_it, without)]
        lines.append(f"| {feature.name} | {' | '.join(cells)} | {ratio.median:.2f} |")
    return ["\n".join(lines), *(f"{name}: {why}" for name, why in result.errors.items())]

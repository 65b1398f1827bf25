"""Owns what each feature costs: the gateway's CPU a call with it and without it, by turns, in one daemon.

It must not judge: no goal hangs on these figures. They say where a microsecond goes, and what to leave off.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import load, targets
from .goals import ratios
from .load import Phase, Sample
from .running import Running, say
from .wire import BenchError, Client

IN_FLIGHT = 8
#: Enough for the echo servers' working tools.
TOOLS = 7
#: Long enough that the ratio of two neighbours moves by a tenth, short enough that all of them take half a minute.
SHARE = 0.4
ECHO: dict[str, Any] = {"text": "x" * 100}
#: What `link` links to, as long as the text of ECHO.
LINKED: dict[str, Any] = {"uri": "file:///" + "x" * 92}
PROGRESS: dict[str, Any] = {"progressToken": 1}
#: How agents attach. All of them are attached to the same daemon at once; only one calls at a time.
SOCKET, CONNECT, HTTP, SOCKET_MODERN, HTTP_MODERN, VIEW = (
    "the agent socket",
    "`mcphub connect`",
    "HTTP",
    "the agent socket, modern",
    "HTTP, modern",
    "HTTP, one server's view",
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


def start(stack: ExitStack, folder: Path, program: Path) -> tuple[Running, dict[str, Client]]:
    """One daemon with a server of each kind, and an agent of each kind attached to it. Raises BenchError."""
    port = targets.free_port()
    remote = {
        name: stack.enter_context(Running(targets.echo_http(folder, sse=name == "events"))).target.url
        for name in ("json", "events")
    }
    argv = targets.echo_argv(TOOLS)
    entries: dict[str, dict[str, object]] = {
        "legacy": {"command": argv[0], "args": [*argv[1:], "--legacy"]},
        "modern": {"command": argv[0], "args": list(argv[1:])},
        **{name: {"type": "http", "url": url} for name, url in remote.items()},
    }
    made = targets.mcphub(folder / "features", program, servers=0, entries=entries, port=port)
    socket = replace(made, client=())
    endpoint = replace(made, url=targets.endpoint(port), token=targets.TOKEN)
    hub = stack.enter_context(Running(socket, want=2 * TOOLS + 2 * 5))
    ways = {
        CONNECT: made,
        HTTP: endpoint,
        SOCKET_MODERN: replace(socket, era="modern"),
        HTTP_MODERN: replace(endpoint, era="modern"),
        VIEW: replace(endpoint, url=endpoint.url + "/s/legacy"),
    }
    return hub, {SOCKET: hub.client} | {name: hub.attach(target) for name, target in ways.items()}


def run(folder: Path, program: Path, rounds: int, seconds: float) -> Features:
    """Each feature's two sides right after each other, ROUNDS times, after a turn that does not count."""
    result = Features()
    with ExitStack() as stack:
        hub, clients = start(stack, folder, program)
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
                        taken[side] = load.measure(hub, phase_of(case), length, clients[case.via])
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

"""What becomes of each message of an agent, with real workers and sessions whose channels the test speaks for."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from mcphub.connection.machine import Asked, Failed
from mcphub.control.routes import ROUTES
from mcphub.gateway import dispatch as module
from mcphub.protocol.http_answer import SESSION_GONE
from mcphub.protocol.versions import ALL, LEGACY
from mcphub.spec import Broken, InstanceKey, Off, Origin, Problem, Scope, ServerSpec, Want
from tests.gateway.bench import META, MODERN_META, Bench, Server, call

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]

CHANGED = "notifications/tools/list_changed"
CANCELLED = "notifications/cancelled"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


# --- the beginning ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", LEGACY)
async def test_each_handshake(bench: Bench, version: str) -> None:
    """An older version is answered with itself."""
    bench.agent().initialize(version)


@pytest.mark.parametrize("version", ["2026-07-28", "1900-01-01", "", "漢" * 1000])
async def test_a_handshake_for_a_version_without_one(bench: Bench, version: str) -> None:
    """It gets the newest that has a handshake."""
    answer = bench.agent().one("initialize", {"protocolVersion": version})
    assert answer["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("params", [None, {}, {"protocolVersion": 5}, {"protocolVersion": None}])
async def test_a_handshake_without_a_version(bench: Bench, params: Any) -> None:
    """The error names what there is, and the session can go on."""
    agent = bench.agent()
    error = agent.one("initialize", params)["error"]
    assert error["code"] == -32602
    assert error["data"]["supported"] == list(ALL)
    agent.initialize()


async def test_no_beginning(bench: Bench) -> None:
    """A request of no era is refused with both ways to begin; a ping is answered; then either way works."""
    agent = bench.agent()
    for method in ("tools/list", "tools/call", "logging/setLevel", "x"):
        code, message = agent.error(method, call())
        assert code == -32602 and "initialize" in message and "_meta" in message
    assert agent.one("ping")["result"] == {}
    agent.notify("notifications/initialized")
    assert agent.modern("server/discover")[0]["result"]["supportedVersions"] == list(ALL)
    agent.initialize()
    assert agent.tools() == []


async def test_discovery(bench: Bench) -> None:
    """It has all that the era requires of a result, and needs no clientInfo."""
    [answer] = bench.agent().modern("server/discover")
    result = answer["result"]
    assert result["supportedVersions"] == list(ALL)
    assert result["resultType"] == "complete"
    assert result["ttlMs"] >= 0 and result["cacheScope"] == "private"
    assert result["_meta"][META + "serverInfo"]["name"] == "mcphub"


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({META + "protocolVersion": "2026-07-28"}, -32602),
        ({META + "clientCapabilities": {}}, -32602),
        ({**MODERN_META, META + "protocolVersion": 5}, -32602),
        ({**MODERN_META, META + "clientCapabilities": []}, -32602),
        ({**MODERN_META, META + "logLevel": "loud"}, -32602),
        ({**MODERN_META, META + "clientInfo": "me"}, -32602),
        ({**MODERN_META, "progressToken": 1.5}, -32602),
        ({**MODERN_META, META + "protocolVersion": "1900-01-01"}, -32022),
        ({**MODERN_META, META + "protocolVersion": "2025-11-25"}, -32022),
        ("text", -32602),
        ([], -32602),
        (5, -32602),
    ],
)
@pytest.mark.parametrize("method", ["tools/list", "tools/call", "server/discover", "subscriptions/listen"])
async def test_an_envelope_that_is_wrong(bench: Bench, meta: Any, code: int, method: str) -> None:
    """The error says what; that of the version names both what was asked and what there is."""
    agent = bench.agent()
    for _ in range(2):  # equal bytes are read once: the second answer is the same
        error = agent.one(method, call(_meta=meta))["error"]
        assert error["code"] == code
        if code == -32022:
            requested = meta[META + "protocolVersion"]
            assert error["data"].pop("dev.mcphub/error")["kind"] == "unsupported_version"
            assert error["data"] == {"supported": list(ALL), "requested": requested}
    agent.initialize()


async def test_no_meta_is_written_as_null_by_some(bench: Bench) -> None:
    """It is no envelope of the modern era."""
    await bench.up(server := Server("s"))
    agent = bench.agent().initialize()
    assert agent.one("tools/list", {"_meta": None})["result"]["tools"]
    agent.ask("tools/call", call(_meta=None), id=7)
    server.text(await server.call(), "ok")
    assert agent.answers(7)[0]["result"]["content"][0]["text"] == "ok"


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "x" * 999])
async def test_what_does_not_exist_any_more(bench: Bench, method: str) -> None:
    """A modern request of an older method is unknown, or a handshake of its own."""
    [answer] = bench.agent().modern(method, {"level": "debug"})
    assert answer["error"]["code"] == (-32602 if method == "initialize" else -32601)


async def test_both_eras_on_one_socket(bench: Bench) -> None:
    """Each message gets the shape of its own era, before and after the other."""
    await bench.up(server := Server("s"))
    agent = bench.agent().initialize()
    modern = agent.modern("tools/list", id="m")[0]["result"]
    legacy = agent.one("tools/list", id="l")["result"]
    assert modern["resultType"] == "complete" and "ttlMs" in modern
    assert legacy.keys() == {"tools"}
    agent.ask("tools/call", call(), id=1)
    agent.modern("tools/call", call(), id=2)
    for number in (2, 1):
        server.text(await server.call(number), "x")
    assert "resultType" not in agent.answers(1)[0]["result"]
    assert agent.answers(2)[0]["result"]["resultType"] == "complete"
    assert agent.session.era == "legacy"


async def test_a_name_is_cut(bench: Bench) -> None:
    """What an agent calls itself is shown to people, and kept while it stays."""
    info = {"name": "x" * 500}
    old, new = bench.agent(), bench.agent()
    old.ask("initialize", {"protocolVersion": "", "clientInfo": info})
    new.modern("tools/list", meta={META + "clientInfo": {**info, "more": "y" * 5000}})
    for agent in (old, new):
        assert agent.session.client == "x" * 100
        assert len(agent.session.last_meta[0]) <= module.MAX_META


# --- ids --------------------------------------------------------------------------------------------------------------

IDS: list[Any] = [0, 1, "1", -1, 2**53, 2**63, "", "漢\n\"'", "null", "x" * 300]


async def test_every_id_gets_its_own_answer(bench: Bench) -> None:
    """C159: equal ids of two agents, and a number beside the text of it, are different calls."""
    await bench.up(server := Server("s"))
    agents = [bench.agent().initialize(), bench.agent().initialize()]
    for agent in agents:
        for mid in IDS:
            assert agent.ask("tools/call", call(), id=mid) == []
    count = 2 * len(IDS)
    assert len({json.dumps((await server.call(n + 1))["id"]) for n in range(count)}) == count
    for n in reversed(range(count)):
        server.text(await server.call(n + 1), f"{n // len(IDS)} {n % len(IDS)}")
    for a, agent in enumerate(agents):
        for n, mid in enumerate(IDS):
            [answer] = agent.answers(mid)
            assert answer["result"]["content"][0]["text"] == f"{a} {n}"


async def test_an_id_in_flight_is_taken(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a call, a subscription or a list that waits; when that has ended it is free again."""
    server, starting = Server("s"), Server("starting", hold=True)
    await bench.up(server)
    bench.want(server, starting)
    agent = bench.agent().initialize()
    assert agent.ask("tools/call", call(), id=1) == []
    assert agent.ask("tools/list", id=2) == []
    assert agent.modern("subscriptions/listen", id=3)[0]["method"] == "notifications/subscriptions/acknowledged"
    for mid in (1, 2, 3):
        for method in ("tools/call", "tools/list", "logging/setLevel"):
            assert agent.error(method, call(level="info"), id=mid) == (-32600, "this id is in flight already")
        assert agent.modern("subscriptions/listen", id=mid)[0]["error"]["code"] == -32600
    server.text(await server.call(), "x")
    agent.notify(CANCELLED, {"requestId": 3})
    starting.let_go()
    await bench.until(lambda: len(agent.answers(2)) == 5)
    for mid in (1, 2, 3):
        assert agent.ask("tools/call", call(), id=mid) == []


@pytest.mark.parametrize("mid", ["null", "1.5", "true", "[]", "{}", "1e999"])
async def test_an_id_that_is_none(bench: Bench, mid: str) -> None:
    """The answer cannot name it."""
    agent = bench.agent().initialize()
    agent.write(f'{{"jsonrpc":"2.0","id":{mid},"method":"ping"}}')
    assert agent.got[-1]["id"] is None
    assert agent.got[-1]["error"]["code"] in (-32600, -32700)


async def test_too_many_calls(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that never waits for an answer is told so."""
    monkeypatch.setattr(module, "MAX_CALLS", 3)
    await bench.up(Server("s"))
    agent = bench.agent().initialize()
    for mid in range(3):
        assert agent.ask("tools/call", call(), id=mid) == []
    [answer] = agent.ask("tools/call", call(), id=3)
    assert answer["result"]["isError"] and "was not sent" in answer["result"]["content"][0]["text"]
    assert answer["result"]["_meta"]["dev.mcphub/error"]["kind"] == "overloaded"
    assert agent.error("prompts/get", {"name": "x"}, id=4) == (-32600, "too many calls in flight")
    assert bench.agent().initialize().ask("tools/call", call(), id=3) == []


async def test_the_end_of_mcphub(bench: Bench) -> None:
    """What was sent may still be answered for a while; what comes is not sent; what is left is answered by what is
    known of it, but for agents that go on elsewhere. The server is told that nobody waits."""
    await bench.up(server := Server("s"))
    agent, spared = bench.agent().initialize(), bench.agent().initialize()
    assert await bench.gateway.drain(30) == 0  # nobody waits for nothing
    for one in (agent, spared):
        [answer] = one.ask("tools/call", call(), id=1)
        assert answer["result"]["isError"] and answer["result"]["_meta"]["dev.mcphub/error"]["kind"] == "stopping"
        assert "stopping" in one.error("prompts/get", {"name": "x"}, id=2)[1]
    assert agent.one("tools/list", id=2)["result"]["tools"]
    assert server.of("tools/call") == []


async def test_the_end_of_mcphub_with_calls_in_flight(bench: Bench) -> None:
    """One is answered in time, one is not, and one is of an agent that goes on in the next daemon."""
    await bench.up(server := Server("s"))
    agent, spared = bench.agent().initialize(), bench.agent().initialize()
    for mid in (1, 2):
        assert agent.ask("tools/call", call(), id=mid) == []
    assert spared.ask("tools/call", call(), id=1) == []
    server.text(await server.call(1), "in time")
    assert await bench.gateway.drain(0.05) == 2
    bench.gateway.end([spared.session])
    [answer] = agent.answers(1)
    assert answer["result"]["content"][0]["text"] == "in time"
    [answer] = agent.answers(2)
    assert answer["error"]["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown"
    assert "mcphub was stopped before the server s answered t" in answer["error"]["message"]
    assert spared.answers(1) == []
    await bench.until(lambda: len(server.of("notifications/cancelled")) == 1)


# --- calls ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("server_era", ["legacy", "modern"])
async def test_a_call(bench: Bench, server_era: str) -> None:
    """The server gets its own name of the tool, the arguments, and of the agent's `_meta` what may cross."""
    await bench.up(server := Server("s", era=server_era, tools=("t", "mcp__s__t")))
    agent = bench.agent().initialize()
    meta = {"progressToken": "p", "traceparent": PARENT, META + "secret": 1}
    agent.ask("tools/call", call("mcp__s__mcp__s__t", arguments={"a": [1, {"b": None}]}, _meta=meta), id=1)
    got = await server.call()
    params = got["params"]
    assert (params["name"], params["arguments"]) == ("mcp__s__t", {"a": [1, {"b": None}]})
    assert params["_meta"]["traceparent"] == PARENT
    assert params["_meta"]["progressToken"] == got["id"]
    assert ((META + "protocolVersion") in params["_meta"]) == (server_era == "modern")
    assert META + "secret" not in params["_meta"]
    server.notify("notifications/progress", {"progressToken": got["id"], "progress": 1})
    assert agent.of("notifications/progress")[0]["params"] == {"progressToken": "p", "progress": 1}


@pytest.mark.parametrize("arguments", ["absent", None, {}])
async def test_no_arguments(bench: Bench, arguments: Any) -> None:
    """A missing object is an empty one."""
    await bench.up(server := Server("s"))
    params = {"name": "mcp__s__t", **({} if arguments == "absent" else {"arguments": arguments})}
    bench.agent().initialize().ask("tools/call", params)
    assert (await server.call())["params"]["arguments"] == {}


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        "x",
        {},
        {"name": 5},
        {"name": None},
        call(arguments=[]),
        call(arguments="x"),
        call("unknown"),
        call("mcp__s__unknown"),
        call("mcp__other__t"),
        call("t"),
        call(""),
        call("x" * 5000),
    ],
)
async def test_a_call_that_makes_no_sense(bench: Bench, params: Any) -> None:
    """It is refused, never sent, and short."""
    await bench.up(server := Server("s"))
    code, message = bench.agent().initialize().error("tools/call", params)
    assert code == -32602
    assert len(message) < 300
    assert server.of("tools/call") == []


async def test_a_server_that_is_away(bench: Bench) -> None:
    """Its tools stay listed; a call is answered at once, as a result that a model can read."""
    await bench.up(server := Server("s"))
    agent = bench.agent().initialize()
    server.refuses = True
    server.lose("gone")
    await bench.until(lambda: isinstance(bench.worker(server).state, Failed))
    assert agent.tools() == ["mcp__s__t"]
    result = agent.one("tools/call", call())["result"]
    assert result["isError"] is True
    assert "s has failed" in result["content"][0]["text"]
    assert agent.modern("tools/call", call(), id=9)[0]["result"]["resultType"] == "complete"


async def test_a_server_that_never_came_up(bench: Bench) -> None:
    """Its tools have no names yet; a call to one says what is the matter, as soon as something is."""
    starting, sick = Server("starting", hold=True), Server("sick")
    sick.refuses = True
    bench.want(starting, sick)
    await bench.until(lambda: isinstance(bench.worker(sick).state, Failed))
    agent = bench.agent().initialize()
    assert agent.ask("tools/call", call("mcp__starting__t"), id=1) == []
    result = agent.one("tools/call", call("mcp__sick__t"), id=2)["result"]
    assert result["isError"] is True and "refused by the test" in result["content"][0]["text"]
    starting.lose("gone")
    await bench.until(lambda: bool(agent.answers(1)))
    [answer] = agent.answers(1)
    assert answer["result"]["isError"] is True and "starting has failed" in answer["result"]["content"][0]["text"]


@pytest.mark.parametrize("view", ["", "s"])
async def test_calls_of_a_server_in_its_first_attempt(bench: Bench, view: str) -> None:
    """They wait for it, whether their tools are known yet or not, under ids that are taken, and are sent once."""
    server, prefix = Server("s", hold=True), "" if view else "mcp__s__"
    bench.want(server)
    agent = bench.agent()
    agent.session.view = view
    agent.initialize()
    assert agent.ask("tools/call", call(f"{prefix}t"), id=1) == []
    assert agent.ask("tools/call", call(f"{prefix}new"), id=2) == []
    assert agent.error("tools/call", call(f"{prefix}t"), id=1) == (-32600, "this id is in flight already")
    assert agent.ask("tools/call", call(f"{prefix}t"), id=3) == []
    agent.notify(CANCELLED, {"requestId": 3})
    server.let_go()
    first = await server.call()
    assert agent.error("tools/call", call(f"{prefix}t"), id=1) == (-32600, "this id is in flight already")
    assert agent.answers(2)[0]["error"]["code"] == -32602
    server.text(first, "x")
    assert agent.answers(1)[-1]["result"]["content"][0]["text"] == "x"
    assert agent.answers(3) == [] and len(server.of("tools/call")) == 1


async def test_a_server_that_begins_anew(bench: Bench) -> None:
    """What is asked meanwhile waits; where it fails all are told so, by the one attempt that they waited for."""
    await bench.up(server := Server("s"))
    agent = bench.agent().initialize()
    server.hold_back()
    bench.worker(server).post(Asked())
    await server.got("initialize", 2)
    assert [agent.ask("tools/call", call(), id=mid) for mid in (1, 2)] == [[], []]
    assert server.of("tools/call") == []
    server.let_go()
    for number in (1, 2):
        server.text(await server.call(number), "x")
    assert all("isError" not in agent.answers(mid)[0]["result"] for mid in (1, 2))
    server.hold_back()
    bench.worker(server).post(Asked())
    await server.got("initialize", 3)
    assert [agent.ask("tools/call", call(), id=mid) for mid in (3, 4)] == [[], []]
    server.refuses = True
    server.lose("gone")
    await bench.until(lambda: bool(agent.answers(4)))
    assert isinstance(bench.worker(server).state, Failed)
    for mid in (3, 4):
        assert "s has failed" in agent.answers(mid)[0]["result"]["content"][0]["text"]


async def test_the_end_while_calls_wait(bench: Bench) -> None:
    """They are told that nothing was sent, and so is what comes now; those that are owed a word say the same."""
    server = Server("s", hold=True)
    bench.want(server)
    agent = bench.agent().initialize()
    assert agent.ask("tools/call", call(), id=1) == []
    [owed] = bench.gateway.standing(agent.session).owed
    assert (owed.mid, owed.server, owed.unsent, owed.tool) == ("1", "s", True, "mcp__s__t")
    assert await bench.gateway.drain(0) == 0
    for answer in (agent.answers(1)[0], agent.ask("tools/call", call(), id=2)[0]):
        assert answer["result"]["isError"] and "was not sent" in answer["result"]["content"][0]["text"]
        assert answer["result"]["_meta"]["dev.mcphub/error"]["kind"] == "stopping"


async def test_a_call_in_the_turn_in_which_its_server_connects(bench: Bench) -> None:
    """Between the connection and the snapshot that tells of it, its tools are known already."""
    loop, server, asked = asyncio.get_running_loop(), Server("s"), anyio.Event()
    agent = bench.agent().initialize()
    bench.want(server)

    def look() -> None:
        if not bench.worker(server).listed:
            loop.call_soon(look)
            return
        assert not bench.supervisor.snapshot.value.views[server.spec.key()].listed
        agent.ask("tools/call", call())
        asked.set()

    loop.call_soon(look)
    await asked.wait()
    server.text(await server.call(), "x")
    [answer] = agent.answers(1)
    assert answer["result"]["content"] == [{"type": "text", "text": "x"}]


class Own(Server):
    """A server of the first agent alone."""

    @property
    def spec(self) -> ServerSpec:
        return replace(super().spec, agent="1")


@pytest.mark.parametrize(("era", "told"), [("legacy", {"roots": {}}), ("modern", {"elicitation": {}}), ("", None)])
async def test_a_server_of_one_agent_that_comes_later(bench: Bench, era: str, told: Any) -> None:
    """It is told at once what its agent has said before, in whichever era; while that has said nothing it waits."""
    agent = bench.agent()
    if era == "legacy":
        agent.one("initialize", {"protocolVersion": "2025-11-25", "capabilities": {"roots": {"listChanged": True}}})
    elif era:
        agent.modern("server/discover", meta={META + "clientCapabilities": {"elicitation": {"form": {}}}})
    server = Own("s")
    bench.want(server)
    if told is None:
        await anyio.wait_all_tasks_blocked()
        assert server.messages == [] and bench.worker(server).awaits_agent
        return
    assert (await server.got("initialize"))["params"]["capabilities"] == told
    await bench.until(lambda: bench.worker(server).client is not None)
    agent.modern("server/discover", meta={META + "clientCapabilities": {"sampling": {}}}, id=9)
    await anyio.wait_all_tasks_blocked()
    assert len(server.of("initialize")) == 1, "what a later request declares is that request's"


async def test_a_server_that_does_not_run(bench: Bench) -> None:
    """The same for one that waits for approval and one that is configured wrongly."""
    off, origin = Server("off"), Origin(Scope.USER, "/mcp.json", "x")
    broken = InstanceKey("broken", "b")
    problem = Problem("broken", origin, "cannot read mcp.json")
    desired: dict[InstanceKey, Want | Off | Broken] = {
        off.spec.key(): Off(off.spec, "approval", "Run `mcphub approve off`"),
        broken: Broken(problem),
    }
    bench.supervisor.want(desired)
    agent = bench.agent().initialize()
    for name, said in (("off", "mcphub approve off"), ("broken", "cannot read mcp.json")):
        result = agent.one("tools/call", call(f"mcp__{name}__t"))["result"]
        assert result["isError"] is True and said in result["content"][0]["text"]


async def test_a_server_that_was_removed(bench: Bench) -> None:
    """Between its removal and the agent's next list."""
    await bench.up(server := Server("s"))
    agent = bench.agent().initialize()
    toolset = agent.session.toolset
    bench.want()
    agent.session.toolset = toolset
    assert "was removed" in agent.one("tools/call", call())["result"]["content"][0]["text"]
    assert server.of("tools/call") == []


async def test_a_server_that_does_not_read(bench: Bench) -> None:
    """It is not sent more than it takes."""
    await bench.up(server := Server("s"))
    agent = bench.agent().initialize()
    server.full = True
    result = agent.one("tools/call", call())["result"]
    assert result["isError"] is True and "overloaded" in result["content"][0]["text"]
    assert server.of("tools/call") == []


async def test_a_call_to_a_failed_server_wakes_it(bench: Bench) -> None:
    """One attempt; when that succeeds the next call goes through."""
    await bench.up(server := Server("s"))
    agent = bench.agent().initialize()
    server.refuses = True
    server.lose("gone")
    await bench.until(lambda: isinstance(bench.worker(server).state, Failed))
    server.refuses = False
    agent.ask("tools/call", call(), id=1)
    await bench.until(lambda: bench.worker(server).client is not None)
    assert agent.ask("tools/call", call(), id=2) == []


async def test_calls_at_the_moment_of_loss(bench: Bench) -> None:
    """C091: every one of them ends at once, with a word of what is known."""
    await bench.up(server := Server("s"))
    agent = bench.agent().initialize()
    for mid in range(5):
        agent.ask("tools/call", call(), id=mid)
    server.lose("broken pipe")
    for mid in range(5):
        [answer] = agent.answers(mid)
        assert answer["error"]["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown"
    assert agent.session.calls == {}


@pytest.mark.parametrize("after", ["removed", "refused"])
async def test_calls_that_a_session_gave_back(bench: Bench, after: str) -> None:
    """Where there is no other session to carry them on, they end as calls that were not acted on."""
    await bench.up(server := Server("s"))
    agent = bench.agent().initialize()
    agent.ask("tools/call", call(), id=1)
    server.give_back(await server.call())
    assert agent.answers(1) == []
    if after == "removed":
        bench.want()
    server.refuses = True
    server.lose(SESSION_GONE)
    with anyio.fail_after(5):
        while not agent.answers(1):
            await anyio.lowlevel.checkpoint()
    assert "outcome_unknown" not in str(agent.answers(1))
    assert agent.session.calls == {}


# --- cancellation -----------------------------------------------------------------------------------------------------


async def test_a_cancelled_call(bench: Bench) -> None:
    """C153, C154: the server is told once, with its own id; the agent gets no answer, whenever one comes."""
    await bench.up(server := Server("s"))
    agent = bench.agent().initialize()
    other = bench.agent().initialize()
    for one in (agent, other):
        one.ask("tools/call", call(), id="x")
    for _ in range(2):
        agent.notify(CANCELLED, {"requestId": "x", "reason": "y" * 1000})
    [told] = server.of(CANCELLED)
    assert told["params"]["requestId"] == (await server.call(1))["id"]
    assert len(told["params"]["reason"]) == 200
    for number in (1, 2):
        server.text(await server.call(number), "late")
    assert agent.answers("x") == []
    assert len(other.answers("x")) == 1
    assert agent.ask("tools/call", call(), id="x") == []


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        {},
        {"requestId": None},
        {"requestId": "1"},
        {"requestId": 1.0},
        {"requestId": True},
        {"requestId": [1]},
        {"requestId": {"a": 1}},
        {"requestId": 2},
        {"reason": 5},
    ],
)
async def test_a_cancellation_of_nothing(bench: Bench, params: Any) -> None:
    """It changes nothing, and is not answered."""
    await bench.up(server := Server("s"))
    agent = bench.agent().initialize()
    agent.ask("tools/call", call(), id=1)
    before = len(agent.got)
    agent.notify(CANCELLED, params)
    assert len(agent.got) == before
    assert server.of(CANCELLED) == []
    assert len(agent.session.calls) == 1


async def test_an_agent_that_leaves(bench: Bench) -> None:
    """C158: its calls are cancelled, its lists forgotten, and nothing is sent to it any more."""
    server, starting = Server("s"), Server("starting", hold=True)
    await bench.up(server)
    bench.want(server, starting)
    agent, other = bench.agent().initialize(), bench.agent().initialize()
    for one in (agent, other):
        for mid in (1, 2):
            one.ask("tools/call", call(), id=mid)
        one.ask("tools/list", id=3)
    agent.leave()
    agent.leave()
    assert [m["params"]["reason"] for m in server.of(CANCELLED)] == ["the agent left"] * 2
    before = len(agent.got)
    for number in range(1, 5):
        server.text(await server.call(number), "late")
    starting.let_go()
    await bench.until(lambda: len(other.answers(3)) == 1)
    assert len(agent.got) == before
    assert [len(other.answers(mid)) for mid in (1, 2)] == [1, 1]
    assert bench.gateway.agents == {other.session}


# --- subscriptions ----------------------------------------------------------------------------------------------------


async def test_too_many_subscriptions(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them costs a message at every change."""
    monkeypatch.setattr(module, "MAX_LISTENS", 2)
    agent = bench.agent()
    found = [agent.modern("subscriptions/listen", id=mid)[0] for mid in range(3)]
    assert ["error" in one for one in found] == [False, False, True]


async def test_the_end_of_the_daemon(bench: Bench) -> None:
    """Every subscription ends in order, with its result; agents without one hear nothing."""
    agent, other = bench.agent(), bench.agent().initialize()
    for mid in (1, "1"):
        agent.modern("subscriptions/listen", id=mid)
    before = len(other.got)
    bench.gateway.end()
    bench.gateway.end()
    for mid in (1, "1"):
        [answer] = agent.answers(mid)
        assert answer["result"]["resultType"] == "complete"
        assert answer["result"]["_meta"][META + "subscriptionId"] == mid
    assert len(other.got) == before


async def test_half_a_surrogate_pair(bench: Bench) -> None:
    """C058: it goes on as U+FFFD, and messages with one are counted; a whole pair is none."""
    await bench.up(server := Server("s"))
    agent = bench.agent().initialize()
    call = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"mcp__s__t","arguments":{"a":"%s"}}}'
    for number, text in enumerate(("\\ud83d", "\\ud83d\\ude00"), 1):
        agent.write((call % (number, text)).encode())
    found = [one["params"]["arguments"]["a"] for one in server.of("tools/call")]
    assert found == ["\ufffd", "\U0001f600"] and bench.gateway.counters["mended_surrogates"] == 1


# --- batches ----------------------------------------------------------------------------------------------------------


async def test_a_batch(bench: Bench) -> None:
    """B80: version 2025-03-26 has them: each message is handled by itself, bad ones too, and answered by one."""
    agent = bench.agent().initialize("2025-03-26")
    ping = {"jsonrpc": "2.0", "method": "ping"}
    before = len(agent.got)
    agent.write([{**ping, "id": 1}, {"jsonrpc": "2.0", "method": "notifications/x"}, 5, [ping], {**ping, "id": "2"}])
    found = [(m["id"], "result" in m) for m in agent.got[before:]]
    assert found == [(1, True), (None, False), (None, False), ("2", True)]


@pytest.mark.parametrize("version", ["", "2024-11-05", "2025-06-18", "2025-11-25"])
async def test_a_batch_in_another_version(bench: Bench, version: str) -> None:
    """One error for all of it, however much that is; the session goes on."""
    agent = bench.agent()
    if version:
        agent.initialize(version)
    for batch in (b"[]", b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', b"[" + b"0," * 100_000 + b"0]", b"[nonsense"):
        before = len(agent.got)
        agent.write(batch)
        [answer] = agent.got[before:]
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert agent.one("ping")["result"] == {}


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (b"[]", -32600),
        (b"[" * 50_000 + b"]" * 50_000, -32700),
        (b"[" + b"0," * 1000 + b"0]", -32600),
        (b"[" + b"0," * 1_000_000 + b"0]", -32600),
        (b"[1,", -32700),
    ],
)
async def test_a_batch_that_makes_no_sense(bench: Bench, batch: bytes, code: int) -> None:
    """One error for all of it, and nothing of it is done."""
    agent = bench.agent().initialize("2025-03-26")
    before = len(agent.got)
    agent.write(batch)
    [answer] = agent.got[before:]
    assert (answer["id"], answer["error"]["code"]) == (None, code)


# --- what nobody should send ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", ['{"level":"info",', '{"cursor":null,', '{"notifications":{},', '{"name":"x",', "{"])
@pytest.mark.parametrize(
    "value",
    [
        "1e999",
        "-1e999",
        '"\\ud800"',
        "9" * 400,
        "NaN",
        "tru",
        '"\\x"',
        "[" * 600 + "]" * 600,
        '{"a":' * 3000 + "1" + "}" * 3000,
    ],
)
async def test_values_that_cannot_be_read(bench: Bench, head: str, value: str) -> None:
    """C054, C165: whatever is in the params, the answer is an answer, and the session goes on."""
    agent = bench.agent().initialize()
    for method in ("initialize", "tools/list", "tools/call", "logging/setLevel", "ping", "x"):
        for tail in ("", f',"_meta":{json.dumps(MODERN_META)}'):
            before = len(agent.got)
            agent.write(f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{head}"x":{value}{tail}}}}}')
            assert len(agent.got) == before + 1
    for method in (CANCELLED, "notifications/x"):
        agent.write(f'{{"jsonrpc":"2.0","method":"{method}","params":{head}"requestId":{value}}}}}')
    agent.session.version = "2025-11-25"
    assert agent.one("ping", id=9)["result"] == {}


async def test_nesting_of_any_depth(bench: Bench) -> None:
    """There is no depth at which one reader gives up and another does not."""
    agent = bench.agent().initialize()
    for depth in [*range(1, 300, 13), *range(850, 1050)]:
        deep = "[" * depth + "]" * depth
        for method in ("subscriptions/listen", "logging/setLevel"):
            before = len(agent.got)
            meta = json.dumps(MODERN_META) if "/listen" in method else "{}"
            agent.write(f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"x":{deep},"_meta":{meta}}}}}')
            assert len(agent.got) == before + 1
        agent.notify(CANCELLED, {"requestId": 1})
        agent.write(f'{{"jsonrpc":"2.0","method":"{CANCELLED}","params":{{"requestId":{deep}}}}}')


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"garbage", -32700),
        (b"\xff\xfe", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"', -32700),
        (b"42", -32700),
        (b'{"id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
    ],
)
async def test_lines_that_are_no_message(bench: Bench, line: bytes, code: int) -> None:
    """C165: one error without an id, and the session goes on."""
    agent = bench.agent().initialize()
    before = len(agent.got)
    agent.write(line)
    [answer] = agent.got[before:]
    assert (answer["id"], answer["error"]["code"]) == (None, code)
    assert agent.one("ping")["result"] == {}


@pytest.mark.parametrize("params", ["[]", "null", "5", '"x"'])
async def test_params_that_are_no_object(bench: Bench, params: str) -> None:
    """They are named as what is wrong."""
    agent = bench.agent().initialize()
    agent.write(f'{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{params}}}')
    assert agent.answers(1)[0]["error"]["code"] == -32602


async def test_answers_to_nothing(bench: Bench) -> None:
    """mcphub has asked nothing; they are counted."""
    agent = bench.agent()
    agent.write({"jsonrpc": "2.0", "id": 1, "result": {}})
    agent.write({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}})
    assert agent.got == []
    assert bench.gateway.counters["stray_replies"] == 2


async def test_arguments_that_are_certainly_wrong(bench: Bench) -> None:
    """C151: they are answered at once, in both eras and though their server is down; nothing is sent, the id is free
    again, and the next call is made."""
    server = Server("s")
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    server.beside = {"tools": [{"name": "t", "inputSchema": schema}]}
    await bench.up(server)
    agent = bench.agent().initialize()
    [modern] = agent.modern("tools/call", call())
    for answer in (modern, agent.one("tools/call", call(arguments={"n": "5"}))):
        assert answer["result"]["isError"] is True
        assert answer["result"]["_meta"]["dev.mcphub/error"]["kind"] == "validation"
    assert server.of("tools/call") == []
    assert agent.ask("tools/call", call(arguments={"n": 5})) == []
    assert (await server.call())["params"]["arguments"] == {"n": 5}
    server.lose("gone")
    assert "n is missing" in agent.one("tools/call", call(), id=2)["result"]["content"][0]["text"]
    assert bench.gateway.counters["refused_arguments"] == 3


def told(answer: Any) -> Any:
    """What programs are told, wherever it stands."""
    found = answer["error"].get("data") if "error" in answer else answer["result"].get("_meta", {})
    return found.get("dev.mcphub/error") or found.get("dev.mcphub/warning")


async def test_the_same_call_that_fails_again_and_again(bench: Bench) -> None:
    """C151: an agent that repeats a failing call is told so, whoever says that it failed; the call is made all the
    same, nobody else is told, and what does well in between begins a new row."""
    await bench.up(server := Server("s"))
    agent, other = bench.agent().initialize(), bench.agent().initialize()
    sent = 0

    async def fails(agent: Any, how: str, **arguments: Any) -> Any:
        nonlocal sent
        sent += 1
        agent.ask("tools/call", call(arguments=arguments), id=sent)
        request = await server.call(sent)
        if how == "error":
            server.say({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32000, "message": "no"}})
        elif how:
            content = [{"type": "text", "text": "no"}]
            server.result(request["id"], {"content": content, "isError": True, **json.loads(how)})
        else:
            server.text(request, "x")
        [answer] = agent.answers(sent)
        return answer

    for first, how in (("error", "error"), ("{}", "{}"), ("{}", '{"a": 1}')):
        for one in (first, how):
            assert "3 times" not in json.dumps(await fails(agent, one, n=how))
        await fails(other, how, n=how)
        third, fourth = await fails(agent, how, n=how), await fails(agent, how, n=how)
        if how == "error":
            assert third["error"]["code"] == -32000 and third["error"]["message"] == "no"
            assert "3 times in a row" in told(third)["repeated"] and "4 times" in told(fourth)["repeated"]
        else:
            assert third["result"]["content"] == [{"type": "text", "text": "no"}] and third["result"]["isError"]
            assert told(third)["kind"] == "repeated_failure" and "3 times in a row" in told(third)["message"]
        await fails(agent, "", n=how)
        assert "in a row" not in json.dumps(await fails(agent, how, n=how))
        await fails(agent, "", n=how)
    for number in range(3):
        code, message = agent.error("tools/call", call("mcp__s__u"), id=f"u{number}")
        assert ("3 times in a row" in message) is (number == 2)
    agent.leave()
    other.leave()


async def test_errors_of_mcphub_are_told_from_the_servers(bench: Bench) -> None:
    """Each error has a kind and the layer that failed: a timeout of mcphub's own never looks like the server's word."""
    await bench.up(server := Server("s"))
    agent = bench.agent().initialize()
    agent.ask("tools/call", call(), id=1)
    request = await server.call()
    error = {"code": -32603, "message": "Internal error"}
    server.say({"jsonrpc": "2.0", "id": request["id"], "error": error})
    agent.ask("tools/call", call(), id=2)
    await server.call(2)
    client = bench.worker(server).client
    assert client is not None
    agent.session.calls[b"2"].unanswered("timeout", "no answer in time")
    said, silent = agent.answers(1)[0], agent.answers(2)[0]
    assert {key: said["error"][key] for key in error} == error
    assert (told(said)["kind"], told(said)["layer"], told(said)["root"]) == ("server_error", "server", "protocol")
    assert (told(silent)["kind"], told(silent)["layer"], told(silent)["root"]) == (
        "outcome_unknown",
        "connection",
        "transport",
    )
    for message in ('{"jsonrpc":"2.0"}', "[]", '{"jsonrpc":"2.0","id":null,"method":"ping"}'):
        agent.write(message)
        assert told(agent.got[-1])["kind"] == "invalid_request"
    assert told(agent.one("nothing"))["kind"] == "unknown_method"
    assert told(agent.one("prompts/get", {"name": "x"}))["kind"] == "unknown_prompt"
    assert told(agent.one("resources/read", {"uri": "x:1"}))["kind"] == "unknown_resource"
    assert told(agent.one("tools/list", {"cursor": "x"}))["kind"] == "invalid_params"


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_no_method_changes_what_runs(bench: Bench, era: str) -> None:
    """B88: whatever people can ask for, an agent cannot, under no name: no MCP method adds, changes or approves a
    server; nor does an argument of a method that there is."""
    await bench.up(server := Server("s"))
    wanted, agent = dict(bench.supervisor.snapshot.value.desired), bench.agent().initialize()
    entry = {"name": "evil", "command": "touch", "args": ["x"], "mcpServers": {"evil": {"command": "touch"}}}
    for number, route in enumerate(ROUTES):
        path = route.path.removeprefix("/v1/").partition("/{")[0]
        for shape, name in enumerate((path, f"/v1/{path}", f"mcphub/{path}", f"dev.mcphub/{path}", f"{path}/add")):
            ask = agent.ask if era == "legacy" else agent.modern
            [answer] = ask(name, entry, id=f"{number}.{shape}")
            assert answer["error"]["code"] == -32601, name
            agent.notify(name, entry)
    agent.notify("dev.mcphub/attach", {"client": "x", "workspace": "/", **entry})
    agent.ask("tools/list", entry, id="list")
    assert dict(bench.supervisor.snapshot.value.desired) == wanted and list(bench.supervisor.workers) == list(wanted)
    assert server.of("tools/call") == []


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_every_error_has_the_trace(bench: Bench, monkeypatch: pytest.MonkeyPatch, era: str) -> None:
    """Whoever turns a request down, and however: it can be found where its agent looks for it."""
    await bench.up(Server("s"))
    agent = bench.agent() if era == "modern" else bench.agent().initialize()
    trace, count = {"traceparent": PARENT}, 100

    def told(method: str, **params: Any) -> tuple[str, str]:
        nonlocal count
        count += 1
        if era == "modern":
            agent.modern(method, params, id=count, meta=trace)
        else:
            agent.ask(method, {**params, "_meta": trace}, id=count)
        [answer] = agent.answers(count)
        found = (answer["error"]["data"] if "error" in answer else answer["result"]["_meta"])["dev.mcphub/error"]
        return found["kind"], found["traceId"]

    id = PARENT.split("-")[1]
    for method, params, kind in (
        ("tools/call", {"name": "mcp__s__t", "arguments": 5}, "invalid_params"),
        ("tools/call", {"name": 5}, "invalid_params"),
        ("tools/call", {"name": "mcp__s__none", "arguments": {}}, "unknown_tool"),
        ("tools/list", {"cursor": "x"}, "invalid_params"),
        ("prompts/get", {"name": "x"}, "unknown_prompt"),
        ("prompts/get", {}, "invalid_params"),
        ("resources/read", {"uri": "x:9"}, "unknown_resource"),
        ("tools/frobnicate", {}, "unknown_method"),
    ):
        assert told(method, **params) == (kind, id)
    if era == "modern":
        assert told("tools/call", name="mcp__s__t", arguments={}, requestState="x") == ("bad_state", id)
    else:
        assert told("logging/setLevel", level="x") == ("invalid_params", id)
        assert told("resources/subscribe", uri="x:9") == ("not_subscribable", id)
    monkeypatch.setattr(module, "MAX_CALLS", 0)
    assert told("tools/call", name="mcp__s__t", arguments={}) == told("prompts/get", name="x") == ("overloaded", id)
    await bench.gateway.drain(0)
    assert told("tools/call", name="mcp__s__t", arguments={}) == told("prompts/get", name="x") == ("stopping", id)

"""What becomes of each message of an agent, with real workers and sessions whose channels the test speaks for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from mcphub.catalog.cache import Catalog
from mcphub.connection.backoff import Backoff
from mcphub.connection.machine import Failed, Pending
from mcphub.gateway import dispatch as module
from mcphub.protocol.http_answer import SESSION_GONE
from mcphub.protocol.versions import ALL, LEGACY
from mcphub.spec import Broken, InstanceKey, Off, Origin, Problem, Scope, Want
from tests.gateway.bench import META, MODERN_META, Bench, Server, gateway
from tests.transport.peers import clean

pytestmark = pytest.mark.anyio

CHANGED = "notifications/tools/list_changed"
CANCELLED = "notifications/cancelled"


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    async with clean():
        with anyio.fail_after(20):
            yield


@pytest.fixture
async def bench(nothing_is_left: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(module, "DEBOUNCE", 0.02)
    async with gateway(monkeypatch) as bench:
        yield bench


def call(name: str = "mcp__s__t", **more: Any) -> dict[str, Any]:
    return {"name": name, "arguments": {}, **more}


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
    assert agent.error("tools/call", call(), id=3) == (-32600, "too many calls in flight")
    assert bench.agent().initialize().ask("tools/call", call(), id=3) == []


# --- calls ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("server_era", ["legacy", "modern"])
async def test_a_call(bench: Bench, server_era: str) -> None:
    """The server gets its own name of the tool, the arguments, and of the agent's `_meta` what may cross."""
    await bench.up(server := Server("s", era=server_era, tools=("t", "mcp__s__t")))
    agent = bench.agent().initialize()
    meta = {"progressToken": "p", "traceparent": "00-1", META + "secret": 1}
    agent.ask("tools/call", call("mcp__s__mcp__s__t", arguments={"a": [1, {"b": None}]}, _meta=meta), id=1)
    got = await server.call()
    params = got["params"]
    assert (params["name"], params["arguments"]) == ("mcp__s__t", {"a": [1, {"b": None}]})
    assert params["_meta"]["traceparent"] == "00-1"
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
    """Its tools have no names yet; a call to one says what is the matter, in whatever state it is."""
    starting, sick = Server("starting", hold=True), Server("sick")
    sick.refuses = True
    bench.want(starting, sick)
    await bench.until(lambda: isinstance(bench.worker(sick).state, Failed))
    agent = bench.agent().initialize()
    for name, said in (("starting", "is starting"), ("sick", "refused by the test")):
        result = agent.one("tools/call", call(f"mcp__{name}__t"))["result"]
        assert result["isError"] is True and said in result["content"][0]["text"]


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


# --- lists ------------------------------------------------------------------------------------------------------------


async def test_a_list_waits_for_servers_that_start(bench: Bench) -> None:
    """It is answered when the last of them is there, or has failed; other requests are not held up."""
    ready, first, second = Server("a"), Server("b", hold=True), Server("c", hold=True)
    await bench.up(ready)
    bench.want(ready, first, second)
    agent = bench.agent().initialize()
    assert agent.ask("tools/list", id=1) == []
    assert agent.modern("tools/list", id=2) == []
    assert agent.one("ping", id=3)["result"] == {}
    first.let_go()
    await bench.until(lambda: bench.worker(first).client is not None)
    assert agent.answers(1) == []
    second.lose("gone")
    await bench.until(lambda: len(agent.answers(2)) == 1)
    for mid in (1, 2):
        [answer] = agent.answers(mid)
        assert [tool["name"] for tool in answer["result"]["tools"]] == ["mcp__a__t", "mcp__b__t"]


async def test_a_list_waits_no_longer_than_it_may(nothing_is_left: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it shows what is there."""
    async with gateway(monkeypatch, list_wait=0.05) as bench:
        await bench.up(ready := Server("a"))
        bench.want(ready, Server("b", hold=True))
        agent = bench.agent().initialize()
        assert agent.ask("tools/list", id=1) == []
        with anyio.fail_after(1):
            while not agent.answers(1):  # noqa: ASYNC110  (a timer's answer: there is no event to wait for)
                await anyio.sleep(0.005)
        assert len(agent.answers(1)[0]["result"]["tools"]) == 1


async def test_a_list_never_waits_for_a_sick_server(nothing_is_left: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was tried is sick, also while it is tried again; one that lost its connection keeps its tools."""
    async with gateway(monkeypatch, backoff=Backoff(attempts=3, first=30.0)) as bench:
        lost, sick = Server("lost"), Server("sick")
        sick.refuses = True
        await bench.up(lost)
        bench.want(lost, sick)
        await bench.until(lambda: isinstance(s := bench.worker(sick).state, Pending) and s.attempt == 1)
        lost.refuses = True
        lost.lose("gone")
        agent = bench.agent().initialize()
        assert agent.tools() == ["mcp__lost__t"]
        assert agent.modern("tools/list", id=2)[0]["result"]["ttlMs"] == 0


async def test_a_cancelled_list(bench: Bench) -> None:
    """A list that waits can be given up like any request."""
    starting = Server("s", hold=True)
    bench.want(starting)
    agent = bench.agent().initialize()
    for mid in (1, "1"):
        agent.ask("tools/list", id=mid)
    agent.notify(CANCELLED, {"requestId": 1})
    starting.let_go()
    await bench.until(lambda: len(agent.answers("1")) == 1)
    assert agent.answers(1) == []


async def test_too_many_lists_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound they get what is there; the others are answered later, each once."""
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    starting = Server("s", hold=True)
    bench.want(starting)
    agent = bench.agent().initialize()
    for mid in range(5):
        agent.ask("tools/list", id=mid)
    assert [len(agent.answers(mid)) for mid in range(5)] == [0, 0, 0, 1, 1]
    starting.let_go()
    await bench.until(lambda: len(agent.answers(0)) == 1)
    assert [len(agent.answers(mid)) for mid in range(5)] == [1] * 5


@pytest.mark.parametrize("cursor", ["", "x", 5, {}, False, "A" * 24])
@pytest.mark.parametrize("method", ["tools/list", "prompts/list", "resources/list", "resources/templates/list"])
async def test_a_cursor_that_is_none(bench: Bench, cursor: Any, method: str) -> None:
    """One that mcphub has not given out is refused, in words that say what to do; null is none at all."""
    agent = bench.agent().initialize()
    code, text = agent.error(method, {"cursor": cursor})
    assert code == -32602 and f"ask {method} again without a cursor" in text
    assert [*agent.one(method, {"cursor": None})["result"].values()] == [[]]


async def test_pages(nothing_is_left: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Obligation 60: a list of several pages is whole, in both eras and over several connections; each page is the same
    bytes every time; after a change, its cursors are nothing."""
    async with gateway(monkeypatch, catalog=Catalog(page_bytes=1024)) as bench:
        await bench.up(server := Server("s", tools=tuple(f"t{n:03}" for n in range(100))))
        old, new = bench.agent().initialize(), bench.agent()
        for ask in (lambda params: old.one("tools/list", params), lambda params: new.modern("tools/list", params)[0]):
            pages = [ask({})]
            while cursor := pages[-1]["result"].get("nextCursor"):
                params = {"cursor": cursor}
                pages.append(ask(params))
                assert ask(params)["result"]["tools"] == pages[-1]["result"]["tools"]
            assert len(pages) > 3
            assert "nextCursor" not in pages[-1]["result"]
            names = [tool["name"] for page in pages for tool in page["result"]["tools"]]
            assert names == [f"mcp__s__t{n:03}" for n in range(100)]
        assert bench.agent().initialize().one("tools/list", params)["result"]["tools"]
        assert old.error("prompts/list", params)[0] == -32602
        server.tools = ("other",)
        server.notify(CHANGED, {})
        await bench.until(lambda: len(bench.worker(server).tools) == 1)
        bench.gateway.refresh()
        assert old.error("tools/list", params)[0] == -32602
        assert old.tools() == ["mcp__s__other"]


async def test_how_long_a_list_may_be_kept(bench: Bench) -> None:
    """Obligation 57: the least of what the servers said, falling with time; what a workspace sees is never public."""

    def kept(workspace: str = "") -> tuple[int, str]:
        result = bench.agent(workspace).modern("tools/list")[0]["result"]
        return result["ttlMs"], result["cacheScope"]

    a, b = Server("a", era="modern"), Server("b", era="modern")
    a.beside = {"ttlMs": 5000, "cacheScope": "public"}
    b.beside = {"ttlMs": 90_000, "cacheScope": "public"}
    await bench.up(a, b)
    first = kept()
    assert 4000 < first[0] <= 5000 and first[1] == "public"
    assert kept("/w")[1] == "private"
    while kept()[0] >= first[0]:  # noqa: ASYNC110  (it falls with the clock)
        await anyio.sleep(0.001)
    a.beside = {"ttlMs": 70_000, "cacheScope": "private"}
    a.notify(CHANGED, {})
    await bench.until(lambda: bench.worker(a).fresh["tools/list"].public is False)
    await bench.until(lambda: kept()[0] > 5000)
    assert 50_000 < kept()[0] <= 60_000 and kept()[1] == "private"
    b.refuses = True
    b.lose("gone")
    await bench.until(lambda: kept()[0] == 0)


async def test_a_legacy_list_may_be_kept(bench: Bench) -> None:
    """A server of the older era that tells of changes has the hub's word, and is never public."""
    await bench.up(Server("s"))
    result = bench.agent().modern("tools/list")[0]["result"]
    assert (result["ttlMs"], result["cacheScope"]) == (60_000, "private")


# --- changes ----------------------------------------------------------------------------------------------------------


async def settle() -> None:
    """Longer than changes are collected before they are told."""
    await anyio.sleep(0.06)


async def test_many_changes_are_one_message(bench: Bench) -> None:
    """Ten servers that come up cause one list_changed for each agent that knows another list."""
    old, new, deaf = bench.agent().initialize(), bench.agent(), bench.agent()
    new.modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="l1")
    new.modern("subscriptions/listen", {"notifications": {"promptsListChanged": True}}, id="l2")
    deaf.modern("subscriptions/listen", {}, id="l3")
    await bench.up(*(Server(f"s{n}") for n in range(10)))
    await settle()
    assert len(old.of(CHANGED)) == 1 and "params" not in old.of(CHANGED)[0]
    [told] = new.of(CHANGED)
    assert told["params"]["_meta"] == {META + "subscriptionId": "l1"}
    assert deaf.of(CHANGED) == []


async def test_who_has_the_new_list_is_not_told(bench: Bench) -> None:
    """Neither an agent that listed meanwhile, nor anybody when the list is what it was."""
    await bench.up(server := Server("s"))
    agent, other = bench.agent().initialize(), bench.agent().initialize()
    server.tools = ("t", "u")
    server.notify(CHANGED, {})
    await bench.until(lambda: len(bench.worker(server).tools) == 2)
    assert len(agent.tools()) == 2
    await settle()
    assert (len(agent.of(CHANGED)), len(other.of(CHANGED))) == (0, 1)
    server.notify(CHANGED, {})
    await server.got("tools/list", 3)
    await settle()
    assert (len(agent.of(CHANGED)), len(other.of(CHANGED))) == (0, 1)


async def test_a_subscription_that_was_given_up(bench: Bench) -> None:
    """It is told nothing; the others of the same agent are."""
    agent = bench.agent()
    wanted = {"notifications": {"toolsListChanged": True}}
    for mid in (1, "1"):
        agent.modern("subscriptions/listen", wanted, id=mid)
    agent.notify(CANCELLED, {"requestId": 1})
    await bench.up(Server("s"))
    await settle()
    assert [m["params"]["_meta"][META + "subscriptionId"] for m in agent.of(CHANGED)] == ["1"]


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


async def test_workspaces(bench: Bench) -> None:
    """C162: each agent sees and is told of its own servers only."""
    a, b = Server("a"), Server("b")
    bench.visible = lambda workspace: {s.name: s.spec.key() for s in (a, b) if workspace in ("", f"/{s.name}")}
    both, only_a = bench.agent().initialize(), bench.agent("/a").initialize()
    await bench.up(a)
    await settle()
    await bench.up(a, b)
    await settle()
    assert both.tools() == ["mcp__a__t", "mcp__b__t"]
    assert only_a.tools() == ["mcp__a__t"]
    assert (len(both.of(CHANGED)), len(only_a.of(CHANGED))) == (2, 1)
    assert only_a.error("tools/call", call("mcp__b__t"))[0] == -32602


# --- batches ----------------------------------------------------------------------------------------------------------


async def test_a_batch(bench: Bench) -> None:
    """Version 2025-03-26 has them: each message is handled by itself, bad ones too."""
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


# --- log messages -----------------------------------------------------------------------------------------------------

MESSAGE = "notifications/message"


def levels(server: Server) -> list[str]:
    return [m["params"]["level"] for m in server.of("logging/setLevel")]


async def test_the_most_verbose_level_wins(bench: Bench) -> None:
    """A server is set to what anybody hears who sees it; each agent gets its own share, with the server's name."""
    await bench.up(server := Server("s", logging=True), mute := Server("mute"))
    quiet, usual, loud = (bench.agent().initialize() for _ in range(3))
    assert quiet.one("logging/setLevel", {"level": "error"})["result"] == {}
    assert levels(server) == ["warning"], "others hear warnings without having asked"
    loud.one("logging/setLevel", {"level": "debug"})
    assert levels(server) == ["warning", "debug"]
    for level in ("debug", "warning", "error"):
        server.notify(MESSAGE, {"level": level, "data": level, "logger": "x"})
    heard = [[m["params"]["data"] for m in agent.of(MESSAGE)] for agent in (quiet, usual, loud)]
    assert heard == [["error"], ["warning", "error"], ["debug", "warning", "error"]]
    assert loud.of(MESSAGE)[0]["params"]["logger"] == "s/x"
    loud.leave()
    assert levels(server) == ["warning", "debug", "warning"]
    assert mute.of("logging/setLevel") == []


async def test_a_server_that_comes_later_is_told_the_level(bench: Bench) -> None:
    """As is one that comes back."""
    agent = bench.agent().initialize()
    agent.one("logging/setLevel", {"level": "debug"})
    await bench.up(server := Server("s", logging=True))
    await server.got("logging/setLevel")
    server.lose("gone")
    await bench.until(lambda: isinstance(bench.worker(server).state, Failed))
    agent.ask("tools/call", call(), id=5)
    await server.got("logging/setLevel", 2)
    assert levels(server) == ["debug", "debug"]


@pytest.mark.parametrize("params", [None, {}, {"level": "loud"}, {"level": 5}, {"level": None}])
async def test_no_level(bench: Bench, params: Any) -> None:
    """It is refused and changes nothing."""
    agent = bench.agent().initialize()
    assert agent.error("logging/setLevel", params)[0] == -32602
    assert agent.session.log_level == ""


async def test_a_modern_agent_hears_of_its_own_call_only(bench: Bench) -> None:
    """And only where it asked to, and where nobody else's call can be meant."""
    await bench.up(server := Server("s"))
    agent, other = bench.agent(), bench.agent()
    opted = {META + "logLevel": "info"}
    agent.modern("tools/call", call(), id=1, meta=opted)
    server.notify(MESSAGE, {"level": "debug", "data": 0})
    server.notify(MESSAGE, {"level": "info", "data": 1})
    other.modern("tools/call", call(), id=1)
    server.notify(MESSAGE, {"level": "error", "data": 2})
    server.text(await server.call(1), "x")
    server.notify(MESSAGE, {"level": "error", "data": 3})
    assert [m["params"]["data"] for m in agent.of(MESSAGE)] == [1]
    assert other.of(MESSAGE) == []


@pytest.mark.parametrize("params", [{}, {"level": "loud"}, {"level": 5}, {"level": "info", "logger": 5}])
async def test_log_messages_that_are_none(bench: Bench, params: Any) -> None:
    """They are counted and reach nobody."""
    await bench.up(server := Server("s"))
    agent = bench.agent().initialize()
    agent.one("logging/setLevel", {"level": "debug"})
    server.notify(MESSAGE, params)
    server.notify("notifications/unknown", {})
    assert agent.of(MESSAGE) == []
    assert bench.gateway.counters["bad_log_messages"] == 1
    assert bench.gateway.counters["dropped_notifications"] == 1

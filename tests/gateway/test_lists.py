"""What agents get that ask for a list, and when."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import anyio
import pytest

from mcphub.catalog.cache import Catalog
from mcphub.connection.backoff import Backoff
from mcphub.connection.machine import Pending
from mcphub.gateway import lists as module
from tests.gateway.bench import Agent, Bench, Server, call, gateway

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]

CANCELLED = "notifications/cancelled"
CHANGED = "notifications/tools/list_changed"


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
    """B60: a list of several pages is whole, in both eras and over several connections; each page is the same
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
    """B57: the least of what the servers said, falling with time; what a workspace sees is never public."""

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
    await bench.until(lambda: bench.worker(a).view().fresh["tools/list"].public is False)
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


async def test_agents_of_older_versions(bench: Bench) -> None:
    """Their lists have no members that their versions lack; a modern agent's has them."""
    server = Server("a")
    tool = {"name": "t", "title": "T", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    server.beside = {"tools": [{**tool, "outputSchema": {"type": "object"}}]}
    await bench.up(server)
    lacks = {"2025-11-25": set(), "2025-03-26": {"title", "outputSchema"}}
    lacks["2024-11-05"] = lacks["2025-03-26"] | {"annotations"}
    for version, lacking in lacks.items():
        [found] = bench.agent().initialize(version).one("tools/list")["result"]["tools"]
        assert {"title", "outputSchema", "annotations"} - found.keys() == lacking
    [answer] = bench.agent().modern("tools/list")
    assert answer["result"]["tools"][0].keys() >= {"title", "outputSchema", "annotations"}


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_call_keeps_the_definition_that_it_began_with(bench: Bench, era: str) -> None:
    """Its result is compared with the schema that its agent saw, though the list has changed meanwhile; the next call
    with the new one."""

    def offers(kind: str) -> dict[str, Any]:
        schema = {"type": "object", "properties": {"n": {"type": kind}}, "required": ["n"]}
        return {"tools": [{"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}]}

    server = Server("s", era=era)
    server.beside = offers("integer")
    await bench.up(server)
    agent = bench.agent().initialize()
    before = bench.worker(server).tools
    agent.ask("tools/call", {"name": "mcp__s__t", "arguments": {}}, id=1)
    server.beside = offers("string")
    server.notify(CHANGED, {})
    await bench.until(lambda: bench.worker(server).tools != before)
    bench.gateway.refresh()
    agent.ask("tools/call", {"name": "mcp__s__t", "arguments": {}}, id=2)
    done = {"resultType": "complete"} if era == "modern" else {}
    for number in (1, 2):
        request = await server.call(number)
        server.result(request["id"], {**done, "content": [], "structuredContent": {"n": 5}})
    first, second = (agent.answers(number)[0]["result"] for number in (1, 2))
    assert "n must be" not in str(first) and "n must be string" in str(second)


async def test_a_list_that_has_changed_is_not_to_be_kept(
    nothing_is_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the word of its server on, until it was listed again: agents that waited in vain get the old one, and no
    time for it; while the server does not answer, the next one that asks does not wait at all."""
    async with gateway(monkeypatch, list_wait=0.1) as bench:
        server = Server("s", era="modern")
        server.beside = {"ttlMs": 30_000, "cacheScope": "public"}
        await bench.up(server)
        agent = bench.agent()
        assert agent.modern("tools/list")[0]["result"]["ttlMs"] > 0
        server.hold_back()
        server.tools = ("u",)
        server.notify(CHANGED, {})
        await server.got("tools/list", 2)
        assert agent.modern("tools/list", id=2) == []
        await until(lambda: agent.answers(2))
        for mid in (2, 3):
            result = (agent.answers(mid) or agent.modern("tools/list", id=mid))[0]["result"]
            assert ([tool["name"] for tool in result["tools"]], result["ttlMs"]) == (["mcp__s__t"], 0)
        server.let_go()
        await bench.until(lambda: not bench.supervisor.snapshot.value.views[server.spec.key()].doubted)
        bench.gateway.refresh()
        result = agent.modern("tools/list", id=4)[0]["result"]
        assert [tool["name"] for tool in result["tools"]] == ["mcp__s__u"] and result["ttlMs"] > 0


# --- what is on its way -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_list_that_has_just_changed(bench: Bench, era: str) -> None:
    """B69: an agent that asks right behind the word of the server gets what its server has now, after one listing for
    all; so does a list that is asked for while that is read; a cursor, and a known tool, wait for nothing."""
    server, other = Server("s", era=era), Server("o")
    await bench.up(server, other)
    await bench.until(lambda: bench.gateway.settled(""))
    agent = bench.agent().initialize()
    server.tools = ("t", "u")
    server.notify(CHANGED, {})
    assert agent.ask("tools/list", id=1) == agent.modern("tools/list", id=2) == []
    assert agent.ask("tools/list", {"cursor": "x"}, id=3) and agent.ask("prompts/list", id=4)
    server.hold_back()
    agent.ask("tools/call", call("mcp__s__t"), id=5)
    await server.call()
    await server.got("tools/list", 2)
    assert agent.ask("tools/list", id=6) == []
    server.let_go()
    await until(lambda: agent.answers(6))
    for mid in (1, 2, 6):
        [answer] = agent.answers(mid)
        assert [tool["name"] for tool in answer["result"]["tools"]] == ["mcp__o__t", "mcp__s__t", "mcp__s__u"]
    assert len(server.of("tools/list")) == 2 and len(other.of("tools/list")) == 1
    assert not bench.gateway._waiting


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_tool_that_has_just_come(bench: Bench, era: str) -> None:
    """B69: a call of it waits for the list and is sent, once; one of a name that is not in that list is refused then,
    one of another server's at once; what is called twice under one id is turned away."""
    server, other = Server("s", era=era), Server("o")
    await bench.up(server, other)
    await bench.until(lambda: bench.gateway.settled(""))
    agent = bench.agent().initialize()
    server.tools = ("t", "u")
    server.notify(CHANGED, {})
    assert agent.ask("tools/call", call("mcp__s__u"), id=1) == agent.ask("tools/call", call("mcp__s__no"), id=2) == []
    assert agent.error("tools/call", call("mcp__o__no"), id=3)[0] == agent.error("tools/call", call("no"), id=4)[0]
    assert "in flight" in agent.error("tools/call", call("mcp__s__no"), id=1)[1]
    agent.ask("tools/call", call("mcp__s__u"), id=5)
    agent.notify(CANCELLED, {"requestId": 5})
    request = await server.call()
    server.text(request, "done")
    assert [len(agent.answers(mid)) for mid in (1, 2, 5)] == [2, 1, 0]
    assert agent.answers(1)[1]["result"]["content"][0]["text"] == "done"
    assert agent.answers(2)[0]["error"]["data"]["dev.mcphub/error"]["kind"] == "unknown_tool"
    assert len(server.of("tools/call")) == 1 and len(server.of("tools/list")) == 2


async def test_a_server_whose_list_changes_all_the_time(bench: Bench) -> None:
    """Who waits gets what was read after it asked, whatever is said meanwhile, and has it soon."""
    server = Server("s")
    await bench.up(server)
    agent = bench.agent().initialize()
    began = anyio.current_time()
    for number in range(4):
        server.tools = (f"t{number}",)
        server.notify(CHANGED, {})
        assert agent.ask("tools/list", id=number) == []
        assert agent.ask("tools/call", call("mcp__s__no"), id=-1 - number) == []
        server.hold_back()
        await server.got("tools/list", 2 + number)
        server.notify(CHANGED, {})
        server.let_go()
        await until(partial(answered, agent, number, -1 - number))
        assert agent.answers(number)[0]["result"]["tools"][0]["name"] == f"mcp__s__t{number}"
    assert anyio.current_time() - began < 4


async def test_a_server_that_does_not_list_any_more(nothing_is_left: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call waits for it no longer than a list does, and soon the next ones not at all, nor do lists."""
    async with gateway(monkeypatch, list_wait=0.2) as bench:
        server = Server("s")
        await bench.up(server)
        agent = bench.agent().initialize()
        server.hold_back()
        server.notify(CHANGED, {})
        assert agent.ask("tools/call", call("mcp__s__u"), id=1) == []
        await until(lambda: agent.answers(1))
        await server.got("tools/list", 2)
        ids, at_once = count(2), list[Any]()
        with anyio.fail_after(5):
            while not at_once:
                at_once = agent.ask("tools/call", call("mcp__s__u"), id=next(ids))
                await anyio.sleep(0.005)
        for answer in (*agent.answers(1), at_once[-1]):
            assert answer["error"]["data"]["dev.mcphub/error"]["kind"] == "unknown_tool"
        assert agent.tools() == ["mcp__s__t"]


async def test_a_server_that_refuses_to_list(bench: Bench) -> None:
    """What waited for it is answered at once, with what was; so is what waits for one that is lost."""
    server = Server("s")
    await bench.up(server)
    agent = bench.agent().initialize()
    for mid, end in enumerate((refuse, Server.lose)):
        server.hold_back()
        before = len(server.of("tools/list"))
        server.notify(CHANGED, {})
        assert agent.ask("tools/list", id=mid) == agent.ask("tools/call", call("mcp__s__u"), id=-1 - mid) == []
        await server.got("tools/list", before + 1)
        server.refuses = True
        end(server, "no")
        await until(partial(answered, agent, mid, -1 - mid))
        assert [tool["name"] for tool in agent.answers(mid)[0]["result"]["tools"]] == ["mcp__s__t"]
        assert agent.answers(-1 - mid)[0]["error"]["code"] == -32602


async def test_a_prompt_that_has_just_come(bench: Bench) -> None:
    """B69: a request of a prompt that is not known waits for its server's list, and then goes or is refused; lists of
    resources wait as those of tools. What of a server's resources has its name in it needs no list."""
    server = Server("s")
    server._capabilities["prompts"] = server._capabilities["resources"] = {"listChanged": True}
    shelf: dict[str, dict[str, Any]] = {
        "prompts/list": {"prompts": []},
        "resources/list": {"resources": []},
        "resources/templates/list": {"resourceTemplates": []},
    }
    plain = server._answer

    def answer(message: dict[str, Any]) -> None:
        if (result := shelf.get(message["method"])) is not None:
            server.result(message["id"], result)
        else:
            plain(message)

    monkey = pytest.MonkeyPatch()
    monkey.setattr(server, "_answer", answer)
    await bench.up(server)
    agent = bench.agent().initialize()
    shelf["prompts/list"] = {"prompts": [{"name": "p"}]}
    shelf["resources/list"] = {"resources": [{"uri": "file:///r", "name": "r"}]}
    server.notify("notifications/prompts/list_changed", {})
    server.notify("notifications/resources/list_changed", {})
    assert agent.ask("prompts/list", id=1) == agent.ask("resources/list", id=2) == []
    assert agent.ask("prompts/get", {"name": "mcp__s__p"}, id=3) == []
    assert agent.ask("prompts/get", {"name": "mcp__s__no"}, id=4) == []
    assert agent.ask("resources/read", {"uri": "mcphub://s/file:///r"}, id=5) == []
    assert len(server.of("resources/read")) == 1 and not server.of("prompts/get")
    await server.got("prompts/get")
    await until(partial(answered, agent, 1, 2, 4))
    assert len(agent.answers(1)[0]["result"]["prompts"]) == len(agent.answers(2)[0]["result"]["resources"]) == 1
    assert agent.answers(4)[0]["error"]["code"] == -32602
    monkey.undo()


def answered(agent: Agent, *mids: int) -> bool:
    return all(agent.answers(mid) for mid in mids)


def refuse(server: Server, why: str) -> None:
    """Answer the last list with an error."""
    mid = server.of("tools/list")[-1]["id"]
    server._held.clear()
    server.say({"jsonrpc": "2.0", "id": mid, "error": {"code": -1, "message": why}})


async def until(condition: Callable[[], Any]) -> None:
    """Wait for an answer that a timer, or a server's task, brings."""
    with anyio.fail_after(5):
        while not condition():  # noqa: ASYNC110  (there is no event to wait for)
            await anyio.sleep(0.005)

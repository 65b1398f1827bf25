"""What agents get that ask for a list, and when."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcphub.catalog.cache import Catalog
from mcphub.connection.backoff import Backoff
from mcphub.connection.machine import Pending
from mcphub.gateway import lists as module
from tests.gateway.bench import Bench, Server, gateway

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


async def test_a_list_that_has_changed_is_not_to_be_kept(bench: Bench) -> None:
    """From the word of its server on, until it was listed again: agents get the old one, and no time for it."""
    server = Server("s", era="modern")
    server.beside = {"ttlMs": 30_000, "cacheScope": "public"}
    await bench.up(server)
    agent = bench.agent()
    assert agent.modern("tools/list")[0]["result"]["ttlMs"] > 0
    server._hold = True
    server.tools = ("u",)
    server.notify(CHANGED, {})
    await server.got("tools/list", 2)
    await bench.until(lambda: bool(bench.supervisor.snapshot.value.views[server.spec.key()].doubted))
    result = agent.modern("tools/list", id=2)[0]["result"]
    assert ([tool["name"] for tool in result["tools"]], result["ttlMs"]) == (["mcp__s__t"], 0)
    server.let_go()
    await bench.until(lambda: not bench.supervisor.snapshot.value.views[server.spec.key()].doubted)
    bench.gateway.refresh()
    result = agent.modern("tools/list", id=3)[0]["result"]
    assert [tool["name"] for tool in result["tools"]] == ["mcp__s__u"] and result["ttlMs"] > 0

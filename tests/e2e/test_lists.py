"""Merged lists over real processes: many pages on both sides, names and URIs that meet, lists that change."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.fakes.agent import META, Agent, Message, text
from tests.fakes.hub import MCPHUB, Fake, Hub, Place, row, running

pytestmark = pytest.mark.anyio

DRIVER = Path(__file__).parents[1] / "counterparts" / "python_client.py"
ERAS = ["legacy", "modern"]
CHANGED = "notifications/tools/list_changed"
OBJECT = {"type": "object"}
MANY = [f"t{number:03}" for number in range(300)]
MANY_PAGES = 7
GOOD = [f"good{number}" for number in range(10)]
#: By name, a schema and what becomes of it: None = the tool is dropped.
SCHEMAS: dict[str, tuple[Any, Any]] = {
    "null": (None, OBJECT),
    "true": (True, OBJECT),
    "empty": ({}, OBJECT),
    "any": ({"anyOf": [{"required": ["a"]}]}, {"type": "object", "anyOf": [{"required": ["a"]}]}),
    "string": ({"type": "string"}, None),
    "several": ({"type": ["object", "null"]}, None),
    "booleans": ({**OBJECT, "properties": {"p": True, "q": False}}, {**OBJECT, "properties": {"p": True, "q": False}}),
    "dialect": ({**OBJECT, "$schema": "http://json-schema.org/draft-07/schema#"},) * 2,
    "required": ({**OBJECT, "required": "a"}, OBJECT),
}
ODD = [
    *GOOD,
    *({"name": name, "inputSchema": schema} for name, (schema, _) in SCHEMAS.items()),
    {"name": "title", "inputSchema": OBJECT, "title": 5, "unknown": {"kept": [1]}},
]
RESOURCES: Message = {"resources": {}, "tools": {}}


def offers(who: str) -> Fake:
    """A server with a resource under a URI that others have too."""
    on = {
        "resources/list": [{"answer": {"resources": [{"uri": "file:///a", "name": who}], "nextCursor": None}}],
        "resources/templates/list": [{"answer": {"resourceTemplates": []}}],
        "resources/read": [{"answer": {"contents": [{"uri": "file:///a", "text": who}]}}],
    }
    return Fake({"capabilities": RESOURCES, "on": on})


def says(*names: str) -> list[Message]:
    return [{"name": name, "inputSchema": OBJECT, "actions": [{"text": name}]} for name in names]


#: A server's results that break the schema it has given for them, by tool.
TEXT = [{"type": "text", "text": "what counts"}]
RESULTS: dict[str, Message] = {
    "string": {"content": TEXT, "structuredContent": {"n": "5"}, "isError": False},
    "none": {"content": TEXT},
    "error": {"content": TEXT, "isError": True},
    "typeless": {"content": TEXT, "structuredContent": {"m": [1]}},
    "image": {
        "content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}],
        "structuredContent": {"n": None, "unknown": {}},
    },
}
NUMBER: Message = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
BREAKS: list[Message] = [
    {"name": name, "inputSchema": OBJECT, "outputSchema": NUMBER if name == "typeless" else {**OBJECT, **NUMBER}}
    for name in RESULTS
]

SERVERS = {
    "many": Fake({"tools": says(*MANY), "paging": {"size": -(-len(MANY) // MANY_PAGES)}}),
    "one": offers("of one"),
    "two": offers("of two"),
    "clash": Fake({"tools": says("x.y", "x_y", "x/y", "b__c")}),
    "clash__b": Fake({"tools": says("c")}),
    "odd": Fake({"tools": ODD}),
    "results": Fake({"tools": [{**tool, "actions": [{"answer": RESULTS[tool["name"]]}]} for tool in BREAKS]}),
}


@pytest.fixture(scope="module")
async def hub() -> AsyncIterator[Hub]:
    async with running(SERVERS, settings='[lists]\npageBytes = 4096\n[http]\nlisten = "127.0.0.1:0"\n') as hub:
        await hub.until_state(*SERVERS)
        yield hub


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    place = Place()
    yield place
    place.remove()


@pytest.fixture
async def agent(hub: Hub) -> AsyncIterator[Agent]:
    """An agent after the legacy handshake; on a byte stream it may use the modern era as well."""
    async with await hub.agent() as agent:
        await agent.initialize()
        yield agent


async def names(agent: Agent, server: str, era: str = "legacy") -> list[str]:
    """The exposed names of one server's tools, from every page."""
    start = f"mcp__{server}__"
    return [tool["name"] for tool in await agent.tools(era=era) if tool["name"].startswith(start)]


def listings(hub: Hub, server: str) -> list[Message]:
    return [m for m in hub.received(server) if isinstance(m, dict) and m.get("method") == "tools/list"]


# -- their pages, ours


@pytest.mark.parametrize("era", ERAS)
async def test_many_pages(hub: Hub, agent: Agent, era: str) -> None:
    """C146, H2: three hundred tools on seven pages of a server are all there, once and in order, and can be
    called."""
    assert len(listings(hub, "many")) == MANY_PAGES
    assert await names(agent, "many", era) == [f"mcp__many__{name}" for name in MANY]
    assert text(await agent.call("mcp__many__t299", era=era)) == "t299"


@pytest.mark.parametrize("era", ERAS)
async def test_a_list_that_changed_before_its_time(place: Place, era: str) -> None:
    """B69: lists come from what the server said as long as it said that they hold; when it tells of a change within
    that time it is asked again, and the next list of either era has what it says then."""
    lists = [[{"answer": {"tools": says(*names), "ttlMs": 3_600_000}}] for names in (["go"], ["go", "new"])]
    on = {"tools/list": lists, "tools/call": [{"notify": CHANGED}, {"text": "ok"}]}
    async with running({"s": Fake({"era": era, "on": on})}, place=place) as hub, await hub.agent() as one:
        await hub.until_state("s")
        await one.initialize()

        def asked() -> int:
            return sum(isinstance(m, dict) and m.get("method") == "tools/list" for m in hub.received("s"))

        for _ in range(3):
            assert await names(one, "s", "legacy") == await names(one, "s", "modern") == ["mcp__s__go"]
        assert asked() == 1
        assert text(await one.call("mcp__s__go")) == "ok"
        for _ in range(3):  # at once: nothing was told yet
            assert await names(one, "s", "legacy") == await names(one, "s", "modern") == ["mcp__s__go", "mcp__s__new"]
        assert asked() == 2


async def test_our_pages(hub: Hub, agent: Agent) -> None:
    """B60: a cursor works on another connection, in either era, for its list alone; none is ever `null`."""
    first = (await agent.modern("tools/list"))["result"]
    params = {"cursor": first["nextCursor"]}
    second = (await agent.modern("tools/list", params))["result"]
    async with await hub.agent() as other:
        await other.initialize()
        result = (await other.request("tools/list", params))["result"]
        assert result["tools"] == second["tools"] and result["nextCursor"] == second["nextCursor"]
        assert not result.keys() - {"tools", "nextCursor"}
        for method in ("prompts/list", "resources/list", "resources/templates/list"):
            assert (await other.request(method, params))["error"]["code"] == -32602
    for cursor in ("", "x", first["nextCursor"][:-1], first["nextCursor"][::-1]):
        assert (await agent.request("tools/list", {"cursor": cursor}))["error"]["code"] == -32602
    last = (await agent.request("resources/list"))["result"]
    assert last.keys() == {"resources"}


@pytest.mark.parametrize("way", ["connect", "http"])
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_an_official_client_walks_the_pages(hub: Hub, mode: str, way: str) -> None:
    """The official Python client gets every tool of every page, through `mcphub connect` and over HTTP, where each
    request of the modern era is a session of its own."""
    todo = [{"name": "mcp__many__t123", "arguments": {}}]
    where: Message = {"command": str(MCPHUB), "args": ["connect"], "env": hub.place.environment()}
    if way == "http":
        where = {"url": (await hub.control("GET", "/v1/url"))[1]["url"]}
    job = json.dumps({"mode": mode, "calls": todo, **where})
    with anyio.fail_after(50):
        done = await anyio.run_process([sys.executable, str(DRIVER), job], check=False, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    report = json.loads(done.stdout)
    assert report["pages"] > 3
    assert [name for name in report["tools"] if "__many__" in name] == [f"mcp__many__{name}" for name in MANY]
    assert len(report["tools"]) == len(set(report["tools"]))
    assert report["results"][0]["content"][0]["text"] == "t123"


REFUSED = {"error": {"code": -1, "message": "no"}}
PAGINGS: dict[str, tuple[Message, int, str]] = {
    "repeat": ({"paging": {"size": 2, "cursor": "repeat"}}, 2, "followed already"),
    "empty": ({"paging": {"size": 2, "cursor": "empty"}}, 3, ""),
    "endless": ({"paging": {"cursor": "endless"}}, 100, "more than 100 pages"),
    "fails": ({"paging": {"size": 2}, "on": {"tools/list": [[{"default": 1}], [REFUSED]]}}, 2, "page 2: no"),
}


async def test_pages_of_all_kinds(place: Place) -> None:
    """C146: what repeats, does not end or fails on its second page is cut short, with a word on its row; what has a
    cursor of no letters is whole. No server's pages cost another one's tools."""
    servers = {name: Fake({"tools": ["a", "b", "c"], **script}) for name, (script, _, _) in PAGINGS.items()}
    async with running(servers, place=place) as hub, await hub.agent() as agent:
        report = await hub.until_state(*servers)
        await agent.initialize()
        for name, (_, count, why) in PAGINGS.items():
            assert len(await names(agent, name)) == count
            warnings = " ".join(row(report, name)["warnings"])
            assert (why in warnings) if why else not warnings


# -- names and URIs that meet


async def test_one_uri_of_two_servers(agent: Agent) -> None:
    """B54: one URI of two servers is listed twice, and each read reaches its own; the bare one says so."""
    for era in ERAS:
        ask = agent.modern if era == "modern" else agent.request
        listed = (await ask("resources/list"))["result"]["resources"]
        assert [(one["uri"], one["name"]) for one in listed] == [
            ("mcphub://one/file:///a", "of one"),
            ("mcphub://two/file:///a", "of two"),
        ]
        for one in listed:
            assert one["_meta"]["dev.mcphub/uri"] == "file:///a"
            [content] = (await ask("resources/read", {"uri": one["uri"]}))["result"]["contents"]
            assert (content["uri"], content["text"]) == (one["uri"], one["name"])
        error = (await ask("resources/read", {"uri": "file:///a"}))["error"]
        assert error["code"] == -32602
        assert all(one["uri"] in error["message"] for one in listed)


@pytest.mark.parametrize("era", ERAS)
async def test_names_that_meet(agent: Agent, era: str) -> None:
    """B48, B49: names that fall on one another after cleaning, of one server or of two, are all there
    under names of their own, and each calls its own tool."""
    found = [*await names(agent, "clash", era)]
    assert len(set(found)) == len(found) == 5
    answers = {name: text(await agent.call(name, era=era)) for name in found}
    assert sorted(answers.values()) == ["b__c", "c", "x.y", "x/y", "x_y"]
    assert answers["mcp__clash__b__c"] == "c"


# -- what is odd


@pytest.mark.parametrize("era", ERAS)
async def test_one_bad_schema(hub: Hub, agent: Agent, era: str) -> None:
    """C148: ten good tools stay, whatever the others' schemas; what is valid passes as it is, and each decision can be
    seen."""
    tools = {tool["name"]: tool for tool in await agent.tools(era=era)}
    assert [name for name in GOOD if f"mcp__odd__{name}" not in tools] == []
    for name, (_, expected) in SCHEMAS.items():
        assert tools.get(f"mcp__odd__{name}", {}).get("inputSchema") == expected
    title = tools["mcp__odd__title"]
    assert "title" not in title and title["unknown"] == {"kept": [1]}
    said = " ".join((await hub.server("odd"))["warnings"])
    for name in ("null", "true", "empty", "any", "string", "several", "required", "title"):
        assert f"tool {name}: " in said
    assert not [name for name in ("booleans", "dialect", *GOOD) if f"tool {name}: " in said]


@pytest.mark.parametrize("era", ERAS)
async def test_results_that_break_their_own_schema(hub: Hub, agent: Agent, era: str) -> None:
    """C152: they come whole, nothing added and nothing taken away, and count against nobody."""
    for _ in range(2):
        for name, expected in RESULTS.items():
            result = (await agent.call(f"mcp__results__{name}", era=era))["result"]
            assert {key: value for key, value in result.items() if key not in ("resultType", "_meta")} == expected
    one = await hub.server("results")
    assert (one["state"], one["last_error"], one["warnings"]) == ("connected", None, [])
    assert len(hub.place.starts("results")) == 1


# -- how long


async def kept(hub: Hub, *servers: str) -> tuple[int, str]:
    """`ttlMs` and `cacheScope` once these servers are connected. An agent that comes makes changed files be read."""
    async with await hub.agent() as agent:
        await agent.modern("server/discover")
        await hub.until_state(*servers)
        result = (await agent.modern("tools/list"))["result"]
        assert result["_meta"].keys() == {META + "serverInfo"}
        return result["ttlMs"], result["cacheScope"]


async def test_how_long_lists_may_be_kept(place: Place) -> None:
    """B57, K2.3: what modern servers say of their lists falls with time and is the agent's; a legacy server makes
    it private, and one that is down makes it nothing."""
    tools = [{"name": "x", "inputSchema": OBJECT}]
    answer = {"tools": tools, "ttlMs": 30_000, "cacheScope": "public", "_meta": {"v": 1}}
    slow = Fake({"era": "modern", "on": {"tools/list": [{"answer": {**answer, "ttlMs": 3_600_000}}]}})
    fast = Fake({"era": "modern", "on": {"tools/list": [{"answer": answer}]}, "tools": ["x"]})
    async with running({"slow": slow}, place=place, settings="[lists]\nttl = 40\n") as hub:
        assert await kept(hub, "slow") == (40_000, "public")
        place.configure({"slow": slow, "fast": fast})
        first = await kept(hub, "slow", "fast")
        assert 10_000 < first[0] < 30_000 and first[1] == "public"
        assert (await kept(hub))[0] < first[0]
        place.configure({"slow": slow, "legacy": Fake()})
        assert await kept(hub, "slow", "legacy") == (40_000, "private")
        place.configure({"slow": slow, "dead": {"command": "no-such-command-anywhere"}})
        assert await kept(hub, "slow") == (0, "private")


# -- what changes


@pytest.mark.parametrize("era", ERAS)
async def test_a_list_that_changes_while_a_call_runs(place: Place, era: str) -> None:
    """The agent is told, and gets the new list, while the call goes on; a cursor of the old list is nothing; then the
    call ends as if nothing had been, though its tool is gone."""
    place.root.mkdir(exist_ok=True)
    go = place.root / "go"
    new = [f"new{number:03}" for number in range(100)]
    actions = [{"tools": [*new, "echo"]}, {"wait": str(go)}, {"text": "done"}]
    server = Fake({"era": era, "tools": [*says(*MANY), {"name": "change", "inputSchema": OBJECT, "actions": actions}]})
    settings = "[lists]\npageBytes = 4096\n"
    async with running({"s": server}, place=place, settings=settings) as hub, await hub.agent() as agent:
        await hub.until_state("s")
        await agent.initialize()
        first = (await agent.request("tools/list"))["result"]
        call = await agent.start("tools/call", {"name": "mcp__s__change"})
        await agent.notification(CHANGED)
        error = (await agent.request("tools/list", {"cursor": first["nextCursor"]}))["error"]
        assert error["code"] == -32602
        assert await names(agent, "s") == sorted(f"mcp__s__{name}" for name in [*new, "echo"])
        assert text(await agent.call("mcp__s__echo", {"text": "x"})) == "x"
        assert call not in agent.responses
        go.touch()
        assert text(await agent.response(call)) == "done"
        assert (await agent.call("mcp__s__change"))["error"]["code"] == -32602

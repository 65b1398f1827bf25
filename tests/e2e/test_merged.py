"""What the hub owes agents and servers of both eras at once, seen from the two outer ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from tests.fakes.agent import META, MODERN, Agent, Message, text
from tests.fakes.hub import Fake, Hub, Place, eventually, row, running

pytestmark = pytest.mark.anyio

LEGACY_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
LONG = "t" * 128
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"a": {"type": "string"}},
    "properties": {"x": {"$ref": "#/$defs/a"}, "y": {"oneOf": [{"type": "null"}, {"$ref": "https://127.0.0.1:1/s"}]}},
}
ODD_NAMES = Fake(
    {
        "tools": [
            {"name": "c__d", "actions": [{"text": "c__d of a__b"}]},
            {"name": "x.y", "actions": [{"text": "dot"}]},
            {"name": "x_y", "actions": [{"text": "underscore"}]},
            {"name": LONG, "actions": [{"text": "long"}]},
            {"name": "schema", "inputSchema": SCHEMA, "actions": [{"text": "schema"}]},
        ]
    }
)
CRASHES = Fake({"tools": ["echo", {"name": "die", "actions": [{"exit": 9}]}]})
SERVERS = {"old": Fake(), "new": Fake({"era": "modern"}), "a__b": ODD_NAMES}
ERAS = ["legacy", "modern"]


async def do(agent: Agent, server: str, *actions: Mapping[str, Any], era: str = "legacy") -> Message:
    return await agent.call(f"mcp__{server}__do", {"actions": list(actions)}, era=era)


async def barrier(agent: Agent) -> None:
    """Everything that the hub had sent to this agent before has arrived."""
    assert (await agent.request("ping"))["result"] == {}


def sent(hub: Hub, server: str, method: str) -> list[Message]:
    return [m for m in hub.received(server) if isinstance(m, dict) and m.get("method") == method]


# -- discovery and versions


async def test_discover_and_lists_wait_for_nobody(place: Place) -> None:
    """B1, B62, H1: while every server hangs, discover and initialize are answered within 200 ms, complete; a
    list comes within its bound with what there is."""
    silent = Fake({"on": {"server/discover": [], "initialize": []}})
    async with running({"hang": silent, "hang2": silent}, place=place) as hub, await hub.agent() as agent:
        with anyio.fail_after(0.2):
            result = (await agent.modern("server/discover"))["result"]
        assert sorted(result["supportedVersions"]) == [*LEGACY_VERSIONS, MODERN]
        assert result["resultType"] == "complete"
        assert result["ttlMs"] >= 0
        assert result["cacheScope"] in ("private", "public")
        assert "tools" in result["capabilities"]
        with anyio.fail_after(0.2):
            await agent.initialize()
        with anyio.fail_after(5):
            assert await agent.tools() == []


@pytest.mark.parametrize("missing", ["protocolVersion", "clientCapabilities"])
async def test_required_meta(agent: Agent, missing: str) -> None:
    """B2: a modern request without a required key is refused."""
    meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
    del meta[META + missing]
    response = await agent.request("tools/list", {"_meta": meta})
    assert response["error"]["code"] == -32602


async def test_client_info_is_optional(agent: Agent) -> None:
    """B2: a modern request without clientInfo is served."""
    meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
    assert (await agent.request("tools/list", {"_meta": meta}))["result"]["resultType"] == "complete"


@pytest.mark.parametrize("version", ["1900-01-01", "2025-11-25", "2099-01-01"])
async def test_versions_that_the_envelope_does_not_have(agent: Agent, version: str) -> None:
    """B3, B4, K1.2: an unknown date, or a legacy one in a modern envelope, names what is supported."""
    error = (await agent.modern("tools/list", meta={META + "protocolVersion": version}))["error"]
    assert error["code"] == -32022
    assert MODERN in error["data"]["supported"]
    assert error["data"]["requested"] == version


@pytest.mark.parametrize("asked", [*LEGACY_VERSIONS, MODERN, "2099-01-01"])
async def test_initialize_versions(hub: Hub, asked: str) -> None:
    """B5: each legacy version is answered with itself, any other with the newest legacy one."""
    async with await hub.agent() as agent:
        result = await agent.initialize(asked)
        assert result["protocolVersion"] == (asked if asked in LEGACY_VERSIONS else "2025-11-25")
        assert text(await agent.call("mcp__new__echo", {"text": asked})) == asked


async def test_both_eras_on_one_socket(hub: Hub) -> None:
    """B6, B9: interleaved, each request is answered in its own shape; `resultType`, `ttlMs` and
    `cacheScope` are in every modern answer that has them and in no legacy one."""
    async with await hub.agent() as agent:
        discover = await agent.start_modern("server/discover")
        await agent.initialize()
        legacy, modern = [], [await agent.response(discover)]
        for server in ("old", "new"):
            params = {"name": f"mcp__{server}__echo", "arguments": {"text": server}}
            ids = [await agent.start("tools/call", params), await agent.start_modern("tools/call", params)]
            ids += [await agent.start("tools/list"), await agent.start_modern("tools/list")]
            answers = [await agent.response(i) for i in ids]
            assert text(answers[0]) == text(answers[1]) == server
            legacy += answers[0::2]
            modern += answers[1::2]
        assert all(answer["result"]["resultType"] == "complete" for answer in modern)
        assert all(answer["result"]["_meta"][META + "serverInfo"]["name"] == "mcphub" for answer in modern)
        for answer in legacy:
            assert not answer["result"].keys() & {"resultType", "ttlMs", "cacheScope"}


async def test_no_start(hub: Hub) -> None:
    """B7: a request before any handshake and without `_meta` is refused; the connection stays usable."""
    async with await hub.agent() as agent:
        assert (await agent.request("tools/list"))["error"]["code"] == -32602
        assert (await agent.modern("tools/list"))["result"]["tools"]
        await agent.initialize()
        assert await agent.tools()


@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "resources/subscribe", "foo/bar"])
async def test_removed_methods(agent: Agent, method: str) -> None:
    """B8: what the modern era has no more is refused there."""
    assert (await agent.modern(method, {"level": "debug", "uri": "file:///a"}))["error"]["code"] == -32601


async def test_results_without_a_type(place: Place) -> None:
    """B10: a modern server's result without `resultType` counts as complete, one of an unknown kind is
    refused; both eras of agents see it so."""
    servers = {
        "none": Fake({"era": "modern", "result_type": None}),
        "weird": Fake({"era": "modern", "tools": [{"name": "odd", "actions": [WEIRD]}]}),
    }
    async with running(servers, place=place) as hub, await hub.agent() as agent:
        await hub.until_state(*servers)
        await agent.initialize()
        for era in ERAS:
            assert text(await agent.call("mcp__none__echo", {"text": "x"}, era=era)) == "x"
            assert (await agent.call("mcp__weird__odd", era=era))["error"]["code"] == -32603
        answer = await agent.call("mcp__none__echo", {"text": "x"}, era="modern")
        assert answer["result"]["resultType"] == "complete"


WEIRD = {"write": '{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"weird","content":[]}}\n'}


async def test_who_answers(agent: Agent) -> None:
    """B11: to agents the server is mcphub, whichever server did the work."""
    for method, params in (
        ("server/discover", {}),
        ("tools/list", {}),
        ("tools/call", {"name": "mcp__new__echo", "arguments": {"text": "x"}}),
        ("tools/call", {"name": "mcp__old__echo", "arguments": {"text": "x"}}),
    ):
        result = (await agent.modern(method, params))["result"]
        assert result["_meta"][META + "serverInfo"]["name"] == "mcphub"


# -- the probe


REFUSALS: dict[str, list[Message]] = {
    "not-found": [{"error": {"code": -32601, "message": "Method not found"}}],
    "params": [{"error": {"code": -32602, "message": "Invalid params"}}],
    "invalid": [{"error": {"code": -32600, "message": "Invalid Request"}}],
    "own-code": [{"error": {"code": -32000, "message": "Server not initialized"}}],
    "no-result": [{"answer": {"hello": 1}}],
    "garbage": [{"write": "Unknown command: server/discover\n"}],
    "flood": [{"stderr": "unknown method server/discover\n", "times": 50_000}],
    "exit": [{"exit": 1}],
    "silence": [],
}


async def test_the_probe_falls_back(place: Place) -> None:
    """B18, C068, K1.1: an unknown server is first asked to discover; on any refusal, silence, rubbish or its end,
    initialize follows."""
    servers = {name: Fake({"on": {"server/discover": actions}}) for name, actions in REFUSALS.items()}
    async with running(servers, place=place, settings="[connect]\nlocal = 9\n") as hub:
        report = await hub.until_state(*servers)
        for name in servers:
            methods = [m["method"] for m in hub.received(name) if isinstance(m, dict)]
            assert methods[:2] == ["server/discover", "initialize"]
            assert row(report, name)["era"] == "legacy"


async def test_the_probe_does_not_fall_back_too_soon(place: Place) -> None:
    """B19, K1.2: a version error that names a shared modern version leads to that version, never to initialize."""
    wrong = {"code": -32022, "message": "no", "data": {"supported": ["2025-11-25", MODERN], "requested": "x"}}
    fake = Fake({"era": "both", "on": {"server/discover": [[{"error": wrong}], [{"default": 1}]]}})
    async with running({"picky": fake}, place=place) as hub:
        assert row(await hub.until_state("picky"), "picky")["era"] == "modern"
        assert sent(hub, "picky", "initialize") == []
        assert len(sent(hub, "picky", "server/discover")) == 2


async def test_a_server_locked_by_a_refused_probe(place: Place) -> None:
    """A process that the refused probe itself locked out of initialize is started again in the other era."""
    refuse = [{"lock": "modern"}, {"error": {"code": -32603, "message": "cannot"}}]
    fake = Fake({"era": "locked", "on": {"server/discover": refuse}})
    async with running({"shy": fake}, place=place) as hub, await hub.agent() as agent:
        report = await hub.until_state("shy")
        assert row(report, "shy")["era"] == "legacy"
        assert len(place.starts("shy")) == 2
        await agent.initialize()
        assert text(await agent.call("mcp__shy__echo", {"text": "x"})) == "x"


@pytest.mark.parametrize("era", ["both", "modern", "locked"])
async def test_a_late_discover_answer(place: Place, era: str) -> None:
    """B22: an answer to discover that comes after initialize was sent neither crashes nor mixes the eras."""
    fake = Fake({"era": era, "on": {"server/discover": [{"pause": 3.5}, {"default": 1}]}})
    async with running({"late": fake}, place=place) as hub, await hub.agent() as agent:
        report = await hub.until_state("late")
        await agent.initialize()
        assert text(await agent.call("mcp__late__echo", {"text": "x"})) == "x"
        [call] = sent(hub, "late", "tools/call")
        spoken = "modern" if META + "protocolVersion" in call["params"].get("_meta", {}) else "legacy"
        assert row(report, "late")["era"] == spoken
        assert row(report, "late")["last_error"] is None


# -- ids, progress, metadata


@pytest.mark.parametrize("server", ["old", "new"])
async def test_one_id_of_two_agents(hub: Hub, place: Place, server: str) -> None:
    """B23, C159, H6: two agents use id 1 on one server at once, answered in reverse; each gets its own."""
    place.root.mkdir(exist_ok=True)
    go = str(place.root / "go")
    async with await hub.agent() as a, await hub.agent() as b:
        await a.initialize()
        await b.initialize()
        first = {"actions": [{"wait": go}, {"text": "for a"}]}
        second = {"actions": [{"text": "for b"}, {"touch": go}]}
        await a.start("tools/call", {"name": f"mcp__{server}__do", "arguments": first}, id=1)
        await b.start("tools/call", {"name": f"mcp__{server}__do", "arguments": second}, id=1)
        assert text(await b.response(1)) == "for b"
        assert text(await a.response(1)) == "for a"


async def test_ids_keep_their_type(agent: Agent) -> None:
    """B24, C159: `1` and `"1"` at the same time are two requests, each answered in its type."""
    await agent.start("tools/call", {"name": "mcp__old__echo", "arguments": {"text": "number"}}, id=1001)
    await agent.start("tools/call", {"name": "mcp__old__echo", "arguments": {"text": "string"}}, id="1001")
    assert text(await agent.response("1001")) == "string"
    assert text(await agent.response(1001)) == "number"


async def test_an_id_in_flight_twice(agent: Agent, place: Place) -> None:
    """C159: a second request under an id that is still in flight is an error of that agent; the first is answered."""
    go = place.root / "go"
    actions = [{"wait": str(go)}, {"text": "first"}]
    await agent.start("tools/call", {"name": "mcp__old__do", "arguments": {"actions": actions}}, id=2001)
    await agent.start("tools/call", {"name": "mcp__old__echo", "arguments": {"text": "second"}}, id=2001)
    assert "error" in await agent.response(2001)
    go.touch()
    assert text(await agent.response(2001)) == "first"


async def test_ids_never_repeat(place: Place) -> None:
    """B25: over ten thousand calls of two agents in both eras, no id repeats on one connection."""
    servers = {"old": Fake(), "new": Fake({"era": "modern"})}
    async with running(servers, place=place) as hub, await hub.agent() as a, await hub.agent() as b:
        await hub.until_state(*servers)
        await a.initialize()
        await b.initialize()
        for _ in range(25):
            ids = []
            for n in range(100):
                call = {"name": f"mcp__{'old' if n % 2 else 'new'}__echo", "arguments": {"text": "x"}}
                ids += [(a, await a.start("tools/call", call)), (b, await b.start_modern("tools/call", call))]
                ids += [(a, await a.start_modern("tools/call", call)), (b, await b.start("tools/call", call))]
            for agent, i in ids:
                assert text(await agent.response(i)) == "x"
        for name in servers:
            used = [m["id"] for m in hub.received(name) if isinstance(m, dict) and "id" in m]
            assert len(used) >= 5000
            assert len(set(used)) == len(used)


@pytest.mark.parametrize("server", ["old", "new"])
@pytest.mark.parametrize("era", ERAS)
async def test_progress_of_two_agents(hub: Hub, server: str, era: str) -> None:
    """B26, B28: two agents with one token each get their own progress, all of it before the answer, and
    none after."""
    async with await hub.agent() as a, await hub.agent() as b:
        for agent, first in ((a, 10), (b, 20)):
            await agent.initialize()
            steps = [{"progress": first + n} for n in range(3)]
            params = {"name": f"mcp__{server}__do", "arguments": {"actions": [*steps, {"text": "x"}, *steps]}}
            if era == "modern":
                await agent.start_modern("tools/call", params, meta={"progressToken": "same"}, id=1)
            else:
                await agent.start("tools/call", {**params, "_meta": {"progressToken": "same"}}, id=1)
        for agent, first in ((a, 10), (b, 20)):
            assert text(await agent.response(1)) == "x"
            await barrier(agent)
            progress = [n["params"] for n in agent.notifications if n["method"] == "notifications/progress"]
            assert [p["progress"] for p in progress] == [first, first + 1, first + 2]
            assert {p["progressToken"] for p in progress} == {"same"}


@pytest.mark.parametrize("server", ["old", "new"])
async def test_no_token_no_progress(hub: Hub, agent: Agent, server: str) -> None:
    """B28: without a token from the agent none goes to the server."""
    response = await do(agent, server, {"request": 1})
    assert "progressToken" not in json.loads(text(response))["params"].get("_meta", {})
    await barrier(agent)
    assert [n for n in agent.notifications if n["method"] == "notifications/progress"] == []


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("server", ["old", "new"])
async def test_metadata_of_each_hop(agent: Agent, server: str) -> None:
    """B29: the server sees mcphub's clientInfo and none of the agent's hop keys, an old one no modern keys at
    all; the agent's trace goes on."""
    arguments = {"actions": [{"request": 1}]}
    meta = {"traceparent": TRACE, META + "logLevel": "debug", "dev.example/mine": 1}
    response = await agent.modern("tools/call", {"name": f"mcp__{server}__do", "arguments": arguments}, meta=meta)
    seen = json.loads(text(response))["params"]["_meta"]
    assert seen["traceparent"].split("-")[1] == TRACE.split("-")[1]
    assert "fake-agent" not in json.dumps(seen)
    keys = {key for key in seen if key.startswith(META)}
    if server == "old":
        assert keys == set()
    else:
        assert seen[META + "clientInfo"]["name"] == "mcphub"
        assert seen[META + "protocolVersion"] == MODERN


async def test_arguments_and_results_are_not_touched(agent: Agent) -> None:
    """Numbers, escapes and order of a payload are the server's and the agent's business: they arrive as they were."""
    payload = {"big": 12345678901234567890123, "float": 1.10, "text": "\u2028é\x7f", "": [None, {}]}
    response = await agent.call("mcp__old__do", {"actions": [{"request": 1}], "payload": payload})
    assert json.loads(text(response))["params"]["arguments"]["payload"] == payload


# -- names and schemas


async def test_names_are_looked_up(hub: Hub, agent: Agent) -> None:
    """B48, C139: two underscores inside the server's and the tool's name still call exactly that tool."""
    assert text(await agent.call("mcp__a__b__c__d")) == "c__d of a__b"


async def test_names_that_are_too_long_or_fall_together(agent: Agent, place: Place) -> None:
    """B49, C141, C142: each tool has a name of its own within the limit, the same in every run, and works."""

    async def listed(agent: Agent) -> dict[str, str]:
        names = [tool["name"] for tool in await agent.tools() if tool["name"].startswith("mcp__a__b__")]
        assert all(len(name) <= 64 for name in names)
        return {text(await agent.call(name)): name for name in names}

    found = await listed(agent)
    assert set(found) == {"c__d of a__b", "dot", "underscore", "long", "schema"}
    async with running({"a__b": ODD_NAMES}, place=place) as other, await other.agent() as again:
        await other.until_state("a__b")
        await again.initialize()
        assert await listed(again) == found


@pytest.mark.parametrize("era", ERAS)
async def test_schemas_are_not_touched(agent: Agent, era: str) -> None:
    """B53: `$defs`, `$ref`, `oneOf` and `$schema` reach the agent as they are, and nothing is fetched."""
    [tool] = [t for t in await agent.tools(era=era) if t["name"] == "mcp__a__b__schema"]
    assert tool["inputSchema"] == SCHEMA


# -- lists


@pytest.mark.parametrize("era", ERAS)
async def test_a_list_is_stable(hub: Hub, era: str) -> None:
    """B61: two listings are equal byte for byte, also when calls lie between them."""
    async with await hub.agent() as agent:
        await agent.initialize()
        agent.keep_lines = True
        request = agent.modern if era == "modern" else agent.request
        lines = []
        for _ in range(3):
            await request("tools/list", id=7)
            lines.append(agent.lines[-1])
            await agent.call("mcp__old__echo", {"text": "x"}, era=era)
            await agent.call("mcp__new__nothing", era=era)
        assert lines[0] == lines[1] == lines[2]


async def test_one_dead_server(place: Place) -> None:
    """B62: a server that cannot start neither fails nor delays the merged list."""
    servers = {"dead": {"command": "no-such-command-anywhere"}, "fine": Fake()}
    async with running(servers, place=place) as hub, await hub.agent() as agent:
        await hub.until_state("fine")
        await hub.until_state("dead", state="failed")
        await agent.initialize()
        with anyio.fail_after(1):
            assert {t["name"] for t in await agent.tools()} >= {"mcp__fine__echo"}


# -- subscriptions


async def listen(agent: Agent, id: int | str, **notifications: Any) -> Message:
    """Opens a listen; the parameters of its acknowledgement."""
    await agent.start_modern("subscriptions/listen", {"notifications": notifications}, id=id)
    found = await agent.notification("notifications/subscriptions/acknowledged", lambda n: of(n) == id)
    params: Message = found["params"]
    return params


def of(notification: Message) -> Any:
    """The subscription that a notification belongs to."""
    return notification["params"]["_meta"].get(META + "subscriptionId")


@pytest.mark.parametrize("id", [77, "seventy-seven"])
async def test_the_acknowledgement_comes_first(hub: Hub, id: int | str) -> None:
    """B63: the first message of a listen is its acknowledgement, its own id, and what was asked."""
    async with await hub.agent() as agent:
        params = await listen(agent, id, toolsListChanged=True)
        assert params["_meta"][META + "subscriptionId"] == id
        assert type(params["_meta"][META + "subscriptionId"]) is type(id)
        assert params["notifications"] == {"toolsListChanged": True}
        assert agent.notifications == []


CHANGED = "notifications/tools/list_changed"


async def test_changes_are_told_once(place: Place) -> None:
    """B64, B65: a change is told once to each old agent and each listen that asked for it, to no other,
    and not at all when the merged list stays the same."""
    servers = {"old": Fake(), "new": Fake({"era": "modern"})}
    async with (
        running(servers, place=place) as hub,
        await hub.agent() as caller,
        await hub.agent() as old,
        await hub.agent() as new,
        await hub.agent() as prompts,
    ):
        await hub.until_state(*servers)
        for agent in (caller, old):
            await agent.initialize()
        await listen(new, "t", toolsListChanged=True)
        await listen(prompts, "p", promptsListChanged=True)
        assert await old.tools() and await new.tools(era="modern")
        tools = ["echo", "do", "look"]
        for turn, server in enumerate(("old", "new")):
            # Twice the same list, which is no change, then one that is.
            await do(caller, server, {"tools": tools}, {"tools": tools}, {"tools": [*tools, "more"]}, {"text": "x"})
            for agent in (old, new):
                found = await agent.notification(CHANGED)
                assert agent is old or of(found) == "t"
            names = {t["name"] for t in await old.tools()}
            assert f"mcp__{server}__more" in names
            assert turn == 0 or "mcp__old__more" in names
        for agent in (old, new):
            await agent.modern("tools/list")
            assert [n for n in agent.notifications if n["method"] == CHANGED] == []
        await prompts.modern("tools/list")
        assert prompts.notifications == []


async def test_a_listen_that_was_cancelled(place: Place) -> None:
    """B64: after its cancellation a listen gets nothing more; another of the same agent goes on."""
    async with running({"old": Fake()}, place=place) as hub, await hub.agent() as agent, await hub.agent() as caller:
        await hub.until_state("old")
        await caller.initialize()
        await listen(agent, "one", toolsListChanged=True)
        await listen(agent, "two", toolsListChanged=True)
        await agent.modern("tools/list")
        await agent.notify("notifications/cancelled", {"requestId": "one"})
        await agent.modern("tools/list")
        await do(caller, "old", {"tools": ["echo"]}, {"text": "x"})
        assert of(await agent.notification(CHANGED)) == "two"
        await agent.modern("tools/list")
        assert [n for n in agent.notifications if n["method"] == CHANGED] == []


async def test_listens_end_with_the_hub(place: Place) -> None:
    """B68: on shutdown each listen gets its final result with its id, then the connection ends."""
    async with running({"old": Fake()}, place=place) as hub, await hub.agent() as agent:
        await listen(agent, "one", toolsListChanged=True)
        await listen(agent, 2, promptsListChanged=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hub.stop)
            for id in ("one", 2):
                result = (await agent.response(id))["result"]
                assert result["resultType"] == "complete"
                assert result["_meta"][META + "subscriptionId"] == id
            await agent.end()


# -- cancellation, ping, loss


@pytest.mark.parametrize("server", ["old", "new"])
@pytest.mark.parametrize("era", ERAS)
async def test_cancellation(hub: Hub, place: Place, server: str, era: str) -> None:
    """B70, C153, C154: the server is told once, under its own id; the agent gets nothing more for that id."""
    here, go = place.root / "here", place.root / "go"
    async with await hub.agent() as agent:
        await agent.initialize()
        arguments = {"actions": [{"touch": str(here)}, {"wait": str(go)}, {"text": "late"}]}
        params = {"name": f"mcp__{server}__do", "arguments": arguments}
        start = agent.start_modern if era == "modern" else agent.start
        await start("tools/call", params, id="mine")
        await eventually(here.exists, timeout=10)
        [call] = [m for m in sent(hub, server, "tools/call") if str(here) in json.dumps(m)]
        for _ in range(2):
            await agent.notify("notifications/cancelled", {"requestId": "mine", "reason": "enough"})
        await agent.notify("notifications/cancelled", {"requestId": "never sent"})
        await agent.notify("notifications/cancelled", {})

        def cancelled() -> list[Message]:
            found = sent(hub, server, "notifications/cancelled")
            return [m for m in found if m["params"]["requestId"] == call["id"]]

        await eventually(cancelled, timeout=10)
        go.touch()
        assert text(await agent.call(f"mcp__{server}__echo", {"text": "next"}, era=era)) == "next"
        assert "mine" not in agent.responses
        assert len(cancelled()) == 1


@pytest.mark.parametrize("server", ["old", "new"])
async def test_an_agent_that_leaves(hub: Hub, place: Place, server: str) -> None:
    """C158: an agent that goes takes its calls with it: the server is told."""
    here = place.root / "here"
    async with await hub.agent() as agent:
        arguments = {"actions": [{"touch": str(here)}, {"hang": 1}]}
        await agent.start_modern("tools/call", {"name": f"mcp__{server}__do", "arguments": arguments})
        await eventually(here.exists, timeout=10)
    [call] = [m for m in sent(hub, server, "tools/call") if str(here) in json.dumps(m)]

    def told() -> bool:
        return any(m["params"]["requestId"] == call["id"] for m in sent(hub, server, "notifications/cancelled"))

    await eventually(told, timeout=10)


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_whose_server_dies(place: Place, era: str) -> None:
    """B72, B91: a call that may have done something is sent once and ends as unknown within a second, with
    the server's name; the server comes back by itself, and what it is subscribed to is asked for again."""
    crash = Fake({"era": era, **CRASHES.script})
    async with running({"crash": crash}, place=place) as hub, await hub.agent() as agent:
        await hub.until_state("crash")
        await agent.initialize()
        with anyio.fail_after(1):
            error = (await agent.call("mcp__crash__die"))["error"]
        assert error["code"] == -32603
        assert error["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown"
        assert "crash" in error["message"]
        await hub.until_restarted("crash", 2)
        assert text(await agent.call("mcp__crash__echo", {"text": "back"})) == "back"
        assert len([m for m in sent(hub, "crash", "tools/call") if m["params"]["name"] == "die"]) == 1
        if era == "modern":
            await eventually(lambda: len(sent(hub, "crash", "subscriptions/listen")) >= 2, timeout=10)


async def test_pings_end_at_the_hub(hub: Hub, agent: Agent) -> None:
    """B75: a ping from either side is answered by the hub; the other side sees nothing."""
    before = len(sent(hub, "old", "ping"))
    assert (await agent.request("ping"))["result"] == {}
    assert json.loads(text(await do(agent, "old", {"ask": "ping"}, {"reply": 1})))["result"] == {}
    assert len(sent(hub, "old", "ping")) == before
    assert agent.asked == []


async def test_newlines_and_rubbish(hub: Hub, agent: Agent) -> None:
    """B89: a result with line ends inside is one line; rubbish between messages stops nothing."""
    agent.keep_lines = True
    said = "one\ntwo\r\nthree\u2028four"
    assert text(await do(agent, "old", {"write": "rubbish\n"}, {"text": said})) == said
    assert len(agent.lines) == 1


@pytest.mark.parametrize("era", ERAS)
async def test_a_pretty_printed_payload(hub: Hub, era: str) -> None:
    """B89: what an agent writes with blanks inside its message reaches the server as one line."""
    async with await hub.agent() as agent:
        await agent.initialize()
        await agent.send_line(
            b' { "jsonrpc" : "2.0" , "id" : 5 , "method" : "tools/call" ,\r "params" : '
            b'{ "name" : "mcp__old__echo" , "arguments" : { "text" :\t"x" } } } '
        )
        assert text(await agent.response(5)) == "x"


@pytest.mark.parametrize("era", ERAS)
async def test_unknown_and_down(place: Place, era: str) -> None:
    """B92, C165, H3: an unknown name is an error of the caller; a server that is known and down answers as a tool
    that failed, with its name, its state and the next step, and both at once."""
    servers = {"down": Fake({"before": [{"stderr": "no key\n"}, {"exit": 1}]}), "fine": Fake()}
    async with running(servers, place=place, settings="[connect]\nattempts = 1\n") as hub, await hub.agent() as agent:
        await hub.until_state("fine")
        await hub.until_state("down", state="failed")
        await agent.initialize()
        with anyio.fail_after(2):
            for name in ("mcp__nobody__x", "mcp__fine__nothing", "fine", ""):
                assert (await agent.call(name, era=era))["error"]["code"] == -32602
            answer = await agent.call("mcp__down__anything", era=era)
        assert answer["result"]["isError"] is True
        said = text(answer)
        assert "down" in said and "failed" in said and "mcphub" in said


async def test_a_list_does_not_wait_for_a_server_that_failed(place: Place) -> None:
    """C165: a call starts a failed server again; the lists of everybody else do not wait for how that goes."""
    mute = Fake({"on": {"server/discover": [], "initialize": []}}, {"startupTimeout": 1000})
    servers = {"mute": mute, "fine": Fake()}
    settings = "[connect]\nattempts = 1\n[lists]\nwait = 20\n"
    async with running(servers, place=place, settings=settings) as hub, await hub.agent() as agent:
        await hub.until_state("fine")
        await hub.until_state("mute", state="failed")
        await agent.initialize()
        assert (await agent.call("mcp__mute__anything"))["result"]["isError"] is True
        await hub.until_state("mute", state="pending")
        with anyio.fail_after(5):
            assert {tool["name"] for tool in await agent.tools()} >= {"mcp__fine__echo"}


async def test_garbage_from_an_agent(hub: Hub, agent: Agent) -> None:
    """C165: what one agent breaks is answered or ends that agent alone."""
    async with await hub.agent() as broken:
        await broken.send_line(b"not json")
        await broken.send_line(b"\xff\xfe")
        await broken.send_line(b'{"jsonrpc":"2.0","id":{},"method":"ping"}')
        await broken.send_line(b'{"jsonrpc":"2.0","id":"s1","result":{}}')
        await broken.send_line(b"[" * 100_000)
        await broken.stream.send(b'{"jsonrpc":"2.0","id":1,"method":"tools/')
    assert text(await agent.call("mcp__old__echo", {"text": "calm"})) == "calm"
    assert row(await hub.status(), "old")["state"] == "connected"

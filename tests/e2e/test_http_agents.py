"""Agents over Streamable HTTP, both eras, seen from outside the daemon."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.fakes.agent import META, MODERN, Message, modern_meta
from tests.fakes.http_agent import HttpAgent, Reply, encoded, modern
from tests.fakes.hub import MCPHUB, Fake, Hub, Place, eventually, running

pytestmark = pytest.mark.anyio

SETTINGS = '[http]\nlisten = "127.0.0.1:0"\n'
CHANGES = Fake({"tools": ["echo", {"name": "grow", "actions": [{"tools": ["echo", "grow", "new"]}, {"text": "ok"}]}]})
SERVERS = {"old": Fake(), "new": Fake({"era": "modern"})}
ERAS = ["legacy", "modern"]
LISTEN = {"notifications": {"toolsListChanged": True}}


@pytest.fixture
async def agent(hub: Hub) -> HttpAgent:
    """An agent with a legacy session; over HTTP each of its requests may be modern as well."""
    agent = HttpAgent(await print_url(hub))
    await agent.initialize()
    return agent


async def print_url(hub: Hub, *arguments: str) -> str:
    command = [str(MCPHUB), "connect", "--print-url", *arguments]
    done = await anyio.run_process(command, env=hub.place.environment())
    assert done.stderr == b""
    return done.stdout.decode().strip()


async def call(agent: HttpAgent, era: str, tool: str, *actions: Message, **more: Any) -> Reply:
    params = {"name": tool, "arguments": {"actions": list(actions)}}
    if era == "modern":
        return await agent.modern("tools/call", params, **more)
    meta = {"_meta": more.pop("meta")} if "meta" in more else {}
    return await agent.request("tools/call", {**params, **meta}, **more)


def text(reply: Reply) -> str:
    [block] = reply.response["result"]["content"]
    found: str = block["text"]
    return found


def code(reply: Reply) -> tuple[int, int]:
    """HTTP status and JSON-RPC error code."""
    return reply.status, reply.document["error"]["code"]


def calls(hub: Hub, server: str) -> list[Message]:
    return [m for m in hub.received(server) if isinstance(m, dict) and m.get("method") == "tools/call"]


def cancelled(hub: Hub, server: str) -> list[Any]:
    return [
        m["params"]["requestId"]
        for m in hub.received(server)
        if isinstance(m, dict) and m.get("method") == "notifications/cancelled"
    ]


# -- who may come in


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}, {"Host": None}]
)
async def test_foreign_pages(hub: Hub, agent: HttpAgent, headers: Mapping[str, str | None]) -> None:
    """B14, C180: a foreign Origin or Host gets 403 and reaches no handler, token or not."""
    before = len(calls(hub, "old"))
    params = {"name": "mcp__old__echo", "arguments": {"text": "x"}}
    head, body = modern("tools/call", params)
    reply = await agent.ask("POST", {**head, **headers}, body)
    assert reply.status == 403
    assert "access-control-allow-origin" not in reply.headers
    legacy = encoded("tools/call", params, 1)
    assert (await agent.ask("POST", {**agent.legacy_headers, **headers}, legacy)).status == 403
    assert (await agent.ask("GET", {**agent.legacy_headers, **headers})).status == 403
    assert len(calls(hub, "old")) == before
    assert (await agent.modern("server/discover", headers={"Origin": "http://localhost:3000"})).status == 200


async def test_the_token(hub: Hub, agent: HttpAgent) -> None:
    """B15: without the token 401, whatever else is right; it never shows in status, log or answers."""
    token = agent.path.split("/")[2]
    for path, headers in (
        ("/mcp", {}),
        ("/t/wrong/mcp", {}),
        ("/mcp", {"Authorization": "Bearer wrong"}),
        ("/mcp", {"Authorization": f"Bearer {token[:-1]}"}),
    ):
        for method in ("POST", "GET", "DELETE"):
            reply = await agent.ask(method, {**agent.legacy_headers, **headers}, path=path)
            assert reply.status == 401
            assert reply.headers["www-authenticate"].startswith("Bearer")
    head, body = modern("server/discover")
    found = await agent.ask("POST", {**head, "Authorization": f"Bearer {token}"}, body, path="/mcp")
    assert found.status == 200
    assert token not in json.dumps(await hub.status())
    assert token not in hub.stderr()


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_without_a_session(agent: HttpAgent, method: str) -> None:
    """B16: GET and DELETE exist for legacy sessions only."""
    assert (await agent.ask(method)).status == 405
    assert (await agent.ask(method, {"Mcp-Session-Id": "unknown"})).status == 404


async def test_a_session_header_means_nothing_to_the_modern_era(agent: HttpAgent) -> None:
    """B16, H12: a modern POST with a session id, known or not, is served, and the reply has none."""
    for session in (agent.session, "unknown"):
        reply = await agent.modern("tools/list", headers={"Mcp-Session-Id": session, "Last-Event-ID": "1"})
        assert reply.status == 200
        assert "mcp-session-id" not in reply.headers


# -- the modern era


@pytest.mark.parametrize(
    "headers",
    [
        {"MCP-Protocol-Version": None},
        {"MCP-Protocol-Version": "2025-11-25"},
        {"Mcp-Method": None},
        {"Mcp-Method": "tools/list"},
        {"Mcp-Method": "TOOLS/CALL"},
        {"Mcp-Name": None},
        {"Mcp-Name": "mcp__new__echo"},
        {"Mcp-Name": "=?base64?bad?="},
    ],
)
async def test_headers_that_differ(hub: Hub, agent: HttpAgent, headers: Mapping[str, str | None]) -> None:
    """B12, B13: 400 and -32020, with the request's id, and nothing is called."""
    before = len(calls(hub, "old"))
    reply = await agent.modern("tools/call", {"name": "mcp__old__echo", "arguments": {}}, headers=headers, id="h")
    assert code(reply) == (400, -32020)
    assert reply.document["id"] == "h"
    assert len(calls(hub, "old")) == before


async def test_headers_that_agree(agent: HttpAgent) -> None:
    """B13: a wrapped name is the name; names of headers are what they are in any case."""
    params: Message = {"name": "mcp__old__echo", "arguments": {"text": "x"}}
    wrapped = {"Mcp-Name": "=?base64?bWNwX19vbGRfX2VjaG8=?="}
    lower = {"Mcp-Method": None, "mcp-method": "tools/call", "Mcp-Name": None, "mcp-name": params["name"]}
    upper = {"Mcp-Method": None, "MCP-METHOD": "tools/call", "Mcp-Name": None, "MCP-NAME": params["name"]}
    every: list[dict[str, str | None]] = [{**wrapped}, {**lower}, {**upper}]
    for headers in every:
        assert text(await agent.modern("tools/call", params, headers=headers)) == "x"


async def test_arguments_that_stand_in_headers(place: Place) -> None:
    """B12, B50: what a tool wants mirrored is compared too, in its own and in the merged view; legacy
    agents, which mirror nothing, call it as ever."""
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    annotated = Fake({"tools": [{"name": "t", "inputSchema": schema, "actions": [{"text": "ok"}]}]})
    async with running({"a": annotated}, settings=SETTINGS, place=place) as hub:
        await hub.until_state("a")
        for arguments, name in (((), "mcp__a__t"), (("--server", "a"), "t")):
            agent = HttpAgent(await print_url(hub, *arguments))
            params = {"name": name, "arguments": {"region": "\u6f22"}}
            assert code(await agent.modern("tools/call", params)) == (400, -32020)
            headers = {"Mcp-Param-Region": "=?base64?5ryi?="}
            assert text(await agent.modern("tools/call", params, headers=headers)) == "ok"
            await agent.initialize()
            assert text(await agent.request("tools/call", params)) == "ok"


@pytest.mark.parametrize("missing", ["protocolVersion", "clientCapabilities"])
async def test_required_meta(agent: HttpAgent, missing: str) -> None:
    """B2: -32602 and 400; without clientInfo it is served."""
    meta = modern_meta()
    del meta[META + missing]
    head, _ = modern("tools/list")
    reply = await agent.ask("POST", head, encoded("tools/list", {"_meta": meta}, 1))
    assert code(reply) == (400, -32602)
    meta = modern_meta()
    del meta[META + "clientInfo"]
    assert (await agent.ask("POST", head, encoded("tools/list", {"_meta": meta}, 1))).status == 200


@pytest.mark.parametrize("version", ["1900-01-01", "2025-11-25"])
async def test_versions_that_the_envelope_does_not_have(agent: HttpAgent, version: str) -> None:
    """B3, B4: -32022 and 400, with what is supported."""
    headers = {"MCP-Protocol-Version": version}
    reply = await agent.modern("tools/list", meta={META + "protocolVersion": version}, headers=headers)
    assert code(reply) == (400, -32022)
    data = reply.document["error"]["data"]
    assert (data["requested"], MODERN in data["supported"]) == (version, True)


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "nothing/here"])
async def test_removed_methods(agent: HttpAgent, method: str) -> None:
    """B8: -32601 and 404."""
    assert code(await agent.modern(method, {"protocolVersion": "2025-11-25"})) == (404, -32601)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", (400, -32700)),
        (b"{", (400, -32700)),
        (b"\xff", (400, -32700)),
        (b'{"jsonrpc":"2.0",\n"id":1,"method":"x","params":{"a":"b\nc"}}', (400, -32700)),
        (b'{"jsonrpc":"2.0","id":{},"method":"x"}', (400, -32600)),
        (b'{"jsonrpc":"2.0","id":1}', (400, -32600)),
        (b"[]", (400, -32600)),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', (400, -32600)),
    ],
)
async def test_bodies_that_are_no_request(agent: HttpAgent, body: bytes, expected: tuple[int, int]) -> None:
    """Each gets one JSON-RPC error; the endpoint stays usable."""
    assert code(await agent.ask("POST", {"MCP-Protocol-Version": MODERN}, body)) == expected
    assert (await agent.modern("server/discover")).status == 200


async def test_a_modern_notification(agent: HttpAgent) -> None:
    """It is taken and nothing is done: no cancelling by id over HTTP."""
    body = encoded("notifications/cancelled", {"requestId": 1, "_meta": modern_meta()}, None)
    reply = await agent.ask("POST", {"MCP-Protocol-Version": MODERN}, body)
    assert (reply.status, reply.body) == (202, b"")


@pytest.mark.parametrize("form", ["application/json", "text/event-stream", "text/html"])
async def test_both_forms_must_be_accepted(agent: HttpAgent, form: str) -> None:
    """406 for a client that could not read the other form."""
    assert (await agent.modern("tools/list", headers={"Accept": form})).status == 406


@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD", "OPTIONS"])
async def test_other_methods(agent: HttpAgent, method: str) -> None:
    """405, also for the question that a browser asks before it sends what it may not."""
    with anyio.fail_after(5):
        async with agent.open(method) as exchange:
            assert exchange.reply.status == 405
            assert exchange.reply.headers["allow"] == "POST, GET, DELETE"


async def test_unknown_tools_and_servers(hub: Hub, agent: HttpAgent) -> None:
    """A tool that does not exist is an error in the answer; a path that does not exist is 404."""
    params = {"name": "mcp__old__none", "arguments": {}}
    assert code(await agent.modern("tools/call", params)) == (200, -32602)
    assert (await agent.request("tools/call", params)).document["error"]["code"] == -32602
    token = agent.path.split("/")[2]
    for path in ("/mcp/s/none", "/mcp/w/000000000000", "/mcp/x", "/"):
        head, body = modern("server/discover")
        assert (await agent.ask("POST", head, body, path=f"/t/{token}{path}")).status == 404
    initialize = encoded("initialize", {"protocolVersion": "2025-11-25"}, 1)
    assert (await agent.ask("POST", {}, initialize, path=f"/t/{token}/mcp/s/none")).status == 404
    assert [s for s in (await hub.status())["sessions"] if not s["client"]] == []


# -- legacy sessions


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_a_session(hub: Hub, version: str) -> None:
    """B17: initialize gives an id, which every later request needs; after DELETE it is unknown."""
    agent = HttpAgent(await print_url(hub))
    reply = await agent.initialize(version)
    assert reply.document["result"]["protocolVersion"] == version
    assert len(agent.session) >= 32 and len(set(agent.session)) > 8
    other = HttpAgent(await print_url(hub))
    await other.initialize(version)
    assert other.session != agent.session
    assert (await other.ask("DELETE", other.legacy_headers)).status == 204
    assert len((await agent.request("tools/list")).document["result"]["tools"]) == 6
    session = agent.session
    agent.session = ""
    assert (await agent.request("tools/list")).status == 400
    assert (await agent.notify("notifications/initialized")).status == 400
    agent.session = "unknown"
    assert (await agent.request("tools/list")).status == 404
    agent.session = session
    assert (await agent.ask("DELETE", agent.legacy_headers)).status == 204
    for reply in (
        await agent.request("tools/list"),
        await agent.notify("notifications/initialized"),
        await agent.ask("GET", agent.legacy_headers),
        await agent.ask("DELETE", agent.legacy_headers),
    ):
        assert reply.status == 404


async def test_the_version_header_of_a_session(agent: HttpAgent) -> None:
    """One that is absent is forgiven, an unknown one is 400."""
    for version, expected in ((None, 200), ("2025-03-26", 200), ("2025-11-25", 200), ("1900-01-01", 400), ("x", 400)):
        headers = {**agent.legacy_headers, "MCP-Protocol-Version": version}
        assert (await agent.ask("POST", headers, encoded("tools/list", None, 1))).status == expected


async def test_a_failed_handshake_makes_no_session(hub: Hub, agent: HttpAgent) -> None:
    """Nothing is kept of it, and nobody gets an id for it."""
    before = len((await hub.status())["sessions"])
    reply = await agent.ask("POST", {}, encoded("initialize", {}, 1))
    assert reply.document["error"]["code"] == -32602
    assert "mcp-session-id" not in reply.headers
    assert len((await hub.status())["sessions"]) == before


async def test_notifications_and_responses(agent: HttpAgent) -> None:
    """They are taken with 202 and no body."""
    assert (await agent.notify("notifications/roots/list_changed")).status == 202
    response = b'{"jsonrpc":"2.0","id":99,"result":{}}'
    reply = await agent.ask("POST", agent.legacy_headers, response)
    assert (reply.status, reply.body) == (202, b"")


async def test_batches(hub: Hub) -> None:
    """B80: a batch of 2025-03-26 is answered as a whole, by one array; in a newer session it is -32600."""
    agent = HttpAgent(await print_url(hub))
    await agent.initialize("2025-03-26")
    echo = {"name": "mcp__old__echo", "arguments": {"text": "x"}}
    parts = [encoded("tools/call", echo, 1), encoded("notifications/x", None, None), encoded("ping", None, "2"), b"5"]
    reply = await agent.ask("POST", agent.legacy_headers, b"[" + b",".join(parts) + b"]")
    assert isinstance(reply.document, list) and len(reply.document) == 3
    found = {m["id"]: m for m in reply.document}
    assert found.keys() == {1, "2", None}
    assert found[1]["result"]["content"][0]["text"] == "x"
    reply = await agent.ask("POST", agent.legacy_headers, b"[" + parts[1] + b"]")
    assert (reply.status, reply.body) == (202, b"")
    assert code(await agent.ask("POST", agent.legacy_headers, b"[]")) == (400, -32600)
    await agent.initialize("2025-06-18")
    assert code(await agent.ask("POST", agent.legacy_headers, b"[" + parts[0] + b"]")) == (400, -32600)


async def test_it_is_a_session_like_any_other(hub: Hub, agent: HttpAgent) -> None:
    """`mcphub status` shows who is attached over HTTP."""
    [row] = [s for s in (await hub.status())["sessions"] if s["client"] == "fake-http-agent"][-1:]
    assert (row["era"], row["workspace"], row["pid"], row["calls_in_flight"]) == ("legacy", "", None, 0)


# -- streams


@pytest.mark.parametrize("server", list(SERVERS))
@pytest.mark.parametrize("era", ERAS)
async def test_progress_comes_on_the_call_s_own_stream(agent: HttpAgent, era: str, server: str) -> None:
    """B37, as far as notifications go: three calls at once on one session, with one token, each get their own
    progress before their own answer, which is the last event."""
    replies: dict[int, Reply] = {}

    async def one(number: int) -> None:
        steps = [{"progress": number * 10 + n} for n in range(3)]
        actions: list[Message] = [*steps, {"text": f"call {number}"}, *steps]
        meta = {"progressToken": "same"}
        replies[number] = await call(agent, era, f"mcp__{server}__do", *actions, meta=meta, id=number)

    async with anyio.create_task_group() as tasks:
        for number in (1, 2, 3):
            tasks.start_soon(one, number)
    for number, reply in replies.items():
        assert reply.headers["content-type"] == "text/event-stream"
        assert reply.headers["x-accel-buffering"] == "no"
        *progress, answer = reply.messages
        assert [p["params"]["progress"] for p in progress] == [number * 10 + n for n in range(3)]
        assert {p["params"]["progressToken"] for p in progress} == {"same"}
        assert answer["id"] == number
        assert text(reply) == f"call {number}"


@pytest.mark.parametrize("era", ERAS)
async def test_a_large_result(agent: HttpAgent, era: str) -> None:
    """Five megabytes come whole, as a document and as an event."""
    size = 5_000_000
    assert len(text(await call(agent, era, "mcp__old__do", {"big": size}))) == size
    meta = {"progressToken": 1}
    reply = await call(agent, era, "mcp__old__do", {"progress": 1}, {"big": size}, meta=meta)
    assert reply.headers["content-type"] == "text/event-stream"
    assert len(text(reply)) == size


@pytest.mark.parametrize("mid", [7, "seven"])
async def test_the_acknowledgement_comes_first(place: Place, mid: int | str) -> None:
    """B63, B64: a listen is a stream whose first event is its acknowledgement with its own id; then only
    what was asked for."""
    async with running({"a": CHANGES}, settings=SETTINGS, place=place) as hub:
        await hub.until_state("a")
        agent = HttpAgent(await print_url(hub))
        tools = modern("subscriptions/listen", LISTEN, id=mid)
        prompts = modern("subscriptions/listen", {"notifications": {"promptsListChanged": True}}, id="p")
        with anyio.fail_after(20):
            async with agent.open("POST", *tools) as one, agent.open("POST", *prompts) as other:
                for exchange, wanted, filter_ in ((one, mid, LISTEN["notifications"]), (other, "p", None)):
                    ack = await exchange.event()
                    assert ack is not None
                    assert ack["method"] == "notifications/subscriptions/acknowledged"
                    assert ack["params"]["_meta"][META + "subscriptionId"] == wanted
                    assert filter_ is None or ack["params"]["notifications"] == filter_
                assert (await agent.modern("tools/call", {"name": "mcp__a__grow", "arguments": {}})).status == 200
                changed = await one.event()
                assert changed is not None
                assert changed["method"] == "notifications/tools/list_changed"
                assert changed["params"]["_meta"][META + "subscriptionId"] == mid
                await hub.stop()
                last = await one.event()
                assert last is not None
                assert last["result"]["_meta"][META + "subscriptionId"] == mid
                assert await one.event() is None
                await other.whole()
        assert [m.get("method") for m in other.reply.messages] == ["notifications/subscriptions/acknowledged", None]


async def test_changes_go_to_the_stream_of_a_session(place: Place) -> None:
    """B65, as far as HTTP goes: a change waits, once, until the stream opens; then changes come on it, and on
    no other stream; a second GET at a time is refused."""
    grow = {"name": "mcp__a__grow", "arguments": {}}
    async with running({"a": CHANGES}, settings=SETTINGS, place=place) as hub:
        await hub.until_state("a")
        agent, watcher = HttpAgent(await print_url(hub)), HttpAgent(await print_url(hub))
        await agent.initialize()
        with anyio.fail_after(20):
            async with watcher.open("POST", *modern("subscriptions/listen", LISTEN)) as listen:
                await listen.event()
                reply = await agent.request("tools/call", grow)
                assert "result" in reply.document
                await listen.event()  # who listens is told in the same moment in which it begins to wait
                async with agent.open("GET", {**agent.legacy_headers, "Accept": "text/event-stream"}) as stream:
                    first = await stream.event()
                    assert first == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
                    assert (await agent.ask("GET", agent.legacy_headers)).status == 409
                    await hub.reconnect("a")  # it is back to two tools
                    assert (await stream.event()) == first
                    names = [t["name"] for t in (await agent.request("tools/list")).document["result"]["tools"]]
                    assert "mcp__a__new" not in names
                    assert (await agent.ask("DELETE", agent.legacy_headers)).status == 204
                    assert await stream.event() is None
            await agent.initialize()
            async with agent.open("GET", agent.legacy_headers) as stream:
                assert stream.reply.status == 200


# -- cancelling


@pytest.mark.parametrize("server", list(SERVERS))
async def test_a_modern_agent_cancels_by_hanging_up(hub: Hub, agent: HttpAgent, server: str, place: Place) -> None:
    """B70: the server is told, with the id that it knows."""
    before, known = len(calls(hub, server)), len(cancelled(hub, server))
    gate = {"wait": str(place.root / "never")}
    head, body = modern("tools/call", {"name": f"mcp__{server}__do", "arguments": {"actions": [gate]}})
    async with agent.open_now("POST", head, body):
        await eventually(lambda: len(calls(hub, server)) > before, timeout=10)
        up_id = calls(hub, server)[-1]["id"]
    await eventually(lambda: cancelled(hub, server)[known:] == [up_id], timeout=10)


async def test_a_legacy_agent_that_hangs_up_does_not_cancel(hub: Hub, agent: HttpAgent, place: Place) -> None:
    """B70: the call runs on to its end, and its id is free then."""
    before, known = len(calls(hub, "old")), len(cancelled(hub, "old"))
    go, done = place.root / "go", place.root / "done"
    arguments = {"actions": [{"wait": str(go)}, {"touch": str(done)}, {"text": "x"}]}
    body = encoded("tools/call", {"name": "mcp__old__do", "arguments": arguments}, 5)
    async with agent.open_now("POST", agent.legacy_headers, body):
        await eventually(lambda: len(calls(hub, "old")) > before, timeout=10)
    assert (await agent.request("ping", id=6)).status == 200
    go.touch()
    await eventually(done.exists, timeout=10)
    assert cancelled(hub, "old")[known:] == []
    with anyio.fail_after(10):
        while any(s["calls_in_flight"] for s in (await hub.status())["sessions"]):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    assert (await agent.request("tools/call", {"name": "mcp__old__echo", "arguments": {}}, id=5)).status == 200


@pytest.mark.parametrize("server", list(SERVERS))
async def test_a_legacy_agent_cancels_by_a_message(hub: Hub, agent: HttpAgent, server: str, place: Place) -> None:
    """B70: the id is mapped, and the call's own POST ends without a message."""
    before, known = len(calls(hub, server)), len(cancelled(hub, server))
    gate = {"wait": str(place.root / "never")}
    body = encoded("tools/call", {"name": f"mcp__{server}__do", "arguments": {"actions": [gate]}}, "c")
    replies: list[Reply] = []

    async def post() -> None:
        replies.append(await agent.ask("POST", agent.legacy_headers, body))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(post)
        await eventually(lambda: len(calls(hub, server)) > before, timeout=10)
        up_id = calls(hub, server)[-1]["id"]
        assert (await agent.notify("notifications/cancelled", {"requestId": "c", "reason": "why not"})).status == 202
    await eventually(lambda: cancelled(hub, server)[known:] == [up_id], timeout=10)
    [reply] = replies
    assert (reply.status, reply.headers["content-type"], reply.messages) == (200, "text/event-stream", [])


async def test_the_end_of_a_session_cancels_its_calls(hub: Hub, agent: HttpAgent, place: Place) -> None:
    """Whoever still waits in it is told; the server too."""
    before, known = len(calls(hub, "old")), len(cancelled(hub, "old"))
    gate = {"wait": str(place.root / "never")}
    replies: list[Reply] = []

    async def post() -> None:
        replies.append(await call(agent, "legacy", "mcp__old__do", gate, id=8))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(post)
        await eventually(lambda: len(calls(hub, "old")) > before, timeout=10)
        assert (await agent.ask("DELETE", agent.legacy_headers)).status == 204
    assert "the session has ended" in replies[0].document["error"]["message"]
    await eventually(lambda: len(cancelled(hub, "old")) == known + 1, timeout=10)


# -- views


@pytest.mark.parametrize("era", ERAS)
async def test_one_server_under_its_own_names(hub: Hub, era: str) -> None:
    """A path of one server shows its tools as the server names them, and nothing of the others."""
    agent = HttpAgent(await print_url(hub, "--server", "old"))
    assert agent.path.endswith("/mcp/s/old")
    await agent.initialize()
    ask = agent.modern if era == "modern" else agent.request
    names = [t["name"] for t in (await ask("tools/list")).document["result"]["tools"]]
    assert names == ["do", "echo", "look"]
    echo = {"name": "echo", "arguments": {"text": "own name"}}
    assert text(await ask("tools/call", echo)) == "own name"
    assert (await ask("tools/call", {**echo, "name": "mcp__old__echo"})).document["error"]["code"] == -32602
    assert calls(hub, "old")[-1]["params"]["name"] == "echo"


async def test_changes_of_one_server_only(place: Place) -> None:
    """An agent of one server is told of changes of this one."""
    servers = {"a": CHANGES, "b": CHANGES}
    async with running(servers, settings=SETTINGS, place=place) as hub:
        await hub.until_state(*servers)
        agent, other = HttpAgent(await print_url(hub, "--server", "a")), HttpAgent(await print_url(hub, "--server=b"))
        with anyio.fail_after(20):
            async with agent.open("POST", *modern("subscriptions/listen", LISTEN)) as listen:
                await listen.event()
                await other.modern("tools/call", {"name": "grow", "arguments": {}})
                await hub.until(lambda r: {s["name"]: s["tools"] for s in r["servers"]} == {"a": 2, "b": 3})
                await agent.modern("tools/call", {"name": "grow", "arguments": {}})
                changed = await listen.event()
                assert changed is not None
                assert changed["method"] == "notifications/tools/list_changed"
                names = [t["name"] for t in (await agent.modern("tools/list")).document["result"]["tools"]]
                assert names == ["echo", "grow", "new"]
                await hub.stop()
                assert len((await listen.whole()).messages) == 3


async def test_a_server_that_is_down(place: Place) -> None:
    """Its tool answers what is wrong and what to do, in its own view as in the merged one."""
    dead = {"command": "mcphub-no-such-command"}
    async with running({"dead": dead}, settings=SETTINGS, place=place) as hub:
        await hub.first_error("dead")
        agent = HttpAgent(await print_url(hub, "--server", "dead"))
        reply = await agent.modern("tools/call", {"name": "anything", "arguments": {}})
        assert reply.document["result"]["isError"]
        assert "The server dead" in text(reply)
        assert (await agent.modern("tools/list")).document["result"]["tools"] == []


async def test_a_workspace_by_its_id(place: Place, tmp_path: Path) -> None:
    """The id in the URL brings a project's servers, and means the same directory after a restart of the daemon."""
    (tmp_path / ".git").mkdir()
    async with running(SERVERS, settings=SETTINGS, place=place) as hub:
        entry = place.entry("mine", Fake())
        (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"mine": entry}}), "utf-8")
        items = (await hub.control("GET", "/v1/approvals", query={"workspace": str(tmp_path)}))[1]["items"]
        body = {"workspace": str(tmp_path), "name": "mine", "digest": items[0]["digest"]}
        assert (await hub.control("POST", "/v1/approve", body=body))[0] == 200
        url = await print_url(hub, "--workspace", str(tmp_path))
        agent = HttpAgent(url)
        await agent.initialize()
        names = {t["name"] for t in (await agent.request("tools/list")).document["result"]["tools"]}
        assert {"mcp__mine__echo", "mcp__old__echo"} <= names
        assert str(tmp_path) in [s["workspace"] for s in (await hub.status())["sessions"]]
        assert "mcp__mine__echo" not in (await HttpAgent(await print_url(hub)).modern("tools/list")).body.decode()
    async with running(SERVERS, settings=SETTINGS, place=place) as hub:
        again = await print_url(hub, "--workspace", str(tmp_path))
        assert again.partition("/t/")[2] == url.partition("/t/")[2]  # only the port is another
        mine = HttpAgent(again + "/s/mine")
        tools = (await mine.modern("tools/list")).document["result"]["tools"]
        assert [t["name"] for t in tools] == ["do", "echo", "look"]
        assert await print_url(hub, "--workspace", str(tmp_path), "--server", "mine") == mine.url


# -- the command


async def test_print_url_of_what_is_not_there(hub: Hub) -> None:
    """An unknown server is an error with the next step; options that do not go together are told."""
    env = hub.place.environment()
    done = await anyio.run_process([MCPHUB, "connect", "--print-url", "--server", "none"], env=env, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"no server is named none" in done.stderr
    done = await anyio.run_process([MCPHUB, "connect", "--server", "old"], env=env, check=False)
    assert done.returncode == 2
    assert b"unknown argument '--server'" in done.stderr


async def test_print_url_without_tcp(place: Place) -> None:
    """It starts a daemon where none runs; while nothing is served over TCP it prints where the Unix socket is, for
    hosts that take that, and how to change it."""
    place.configure(SERVERS)
    env = place.environment()
    done = await anyio.run_process([MCPHUB, "connect", "--print-url", "--no-start"], env=env, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    done = await anyio.run_process([MCPHUB, "connect", "--print-url", "--server=old"], env=env)
    hub = Hub(place, None)
    try:
        path = place.agent_socket.with_name("http.sock")
        assert done.stdout.decode() == f"unix://{path}#/mcp/s/old\n"
        assert b"listen" in done.stderr
        await hub.until_state("old")
        agent = HttpAgent(done.stdout.decode().strip())
        await agent.initialize()
        assert text(await agent.request("tools/call", {"name": "echo", "arguments": {"text": "x"}})) == "x"
        [session] = (await hub.status())["sessions"]
        assert session["pid"] is not None
    finally:
        await hub.end_daemon()


@pytest.mark.counterparts
@pytest.mark.parametrize("number", [0, 1])
async def test_the_examples_of_the_documentation(hub: Hub, number: int) -> None:
    """What docs/protocol.md says to type lists the tools."""
    text = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text("utf-8")
    example = text.split("```sh\n")[1 + number].partition("```")[0]
    env = hub.place.environment()
    env["PATH"] = f"{MCPHUB.parent}:{env['PATH']}"
    with anyio.fail_after(20):
        done = await anyio.run_process(["sh", "-euc", example], env=env)
    assert done.stderr == b""
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    assert {"mcp__old__echo", "mcp__new__echo"} <= {tool["name"] for tool in answers[-1]["result"]["tools"]}

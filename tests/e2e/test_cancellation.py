"""Whoever no longer wants an answer: each way an agent says so, at each kind of server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Protocol

import anyio
import pytest
from websockets.asyncio.server import ServerConnection

from tests.e2e.test_http_agents import print_url
from tests.e2e.test_websocket import McpSocket
from tests.fakes.agent import Agent, text
from tests.fakes.http_agent import HttpAgent, encoded, modern
from tests.fakes.hub import Fake, Hub, Place, eventually, running
from tests.fakes.ordinary_mcp import ECHO, OrdinaryMcp
from tests.fakes.rude_http import NEVER, Reply, Request, RudeHttp, body, event, stream
from tests.fakes.rude_websocket import RudeWebSocket
from tests.fakes.scripted import dumped

pytestmark = pytest.mark.anyio

HANG = {**ECHO, "name": "hang"}
CANCELLED = "notifications/cancelled"
ANSWER = {"content": [{"type": "text", "text": "late"}]}
#: Where only the end of the stream may say it.
BY_CLOSING = ("http-new",)
SERVERS = ("old", "new", "http-old", "http-new", "sse", "ws-old", "ws-new")
WAYS = ("socket-legacy", "socket-modern", "http-legacy", "http-modern")


class Upstream(Protocol):
    """A server whose tool `hang` answers only when it is told to."""

    def calls(self) -> list[int]:
        """The ids of the calls to `hang` so far."""

    def cancelled(self) -> list[int]:
        """The ids that it was told of."""

    def closed(self) -> list[int]:
        """The ids whose stream the client has closed."""

    async def answer_late(self, id: int) -> bool:
        """Answer it, whoever may still want that; False where there is no way any more."""


class Stdio:
    def __init__(self, place: Place, name: str) -> None:
        self.place, self.name = place, name

    def _of(self, method: str) -> list[dict[str, Any]]:
        found = [one for one in self.place.received(self.name) if isinstance(one, dict)]
        return [one for one in found if one.get("method") == method]

    def calls(self) -> list[int]:
        return [one["id"] for one in self._of("tools/call") if one["params"]["name"] == "hang"]

    def cancelled(self) -> list[int]:
        return [one["params"]["requestId"] for one in self._of(CANCELLED)]

    def closed(self) -> list[int]:
        return []

    async def answer_late(self, id: int) -> bool:
        gate(self.place).touch()
        return True


class Remote:
    """Over HTTP, in any of the three ways."""

    def __init__(self, era: str) -> None:
        self.mcp = OrdinaryMcp(era=era, tools=[ECHO, HANG])
        self.server = RudeHttp(self.answer)

    def answer(self, request: Request) -> Reply:
        if request.key == "tools/call" and request.params["name"] == "hang":
            return body(b"Accepted", "text/plain", status=202) if self.mcp.era == "sse" else stream(NEVER)
        return self.mcp(request)

    def _hanging(self) -> list[Request]:
        return [one for one in self.server.sent("tools/call") if one.params["name"] == "hang"]

    def calls(self) -> list[int]:
        return [one.message["id"] for one in self._hanging()]

    def cancelled(self) -> list[int]:
        return [one.params["requestId"] for one in self.server.sent(CANCELLED)]

    def closed(self) -> list[int]:
        return [one.message["id"] for one in self._hanging() if one.left]

    async def answer_late(self, id: int) -> bool:
        if self.mcp.era == "sse":
            [request] = [one for one in self._hanging() if one.message["id"] == id]
            self.mcp.feeds[-1].send(event(request.result(ANSWER), name="message"))
        return self.mcp.era == "sse"


class Socket(McpSocket):
    def __init__(self, era: str) -> None:
        super().__init__(era)
        self.server = RudeWebSocket(self.answer)
        self.connection: ServerConnection | None = None

    def result(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        found = super().result(method, params)
        return {**found, "tools": [ECHO, HANG]} if method == "tools/list" and found is not None else found

    async def answer(self, connection: ServerConnection, said: str) -> None:
        self.connection = connection
        message = json.loads(said)
        if message.get("method") != "tools/call" or message["params"]["name"] != "hang":
            await super().answer(connection, said)

    def _of(self, method: str) -> list[dict[str, Any]]:
        return [one for one in map(json.loads, self.server.messages) if one.get("method") == method]

    def calls(self) -> list[int]:
        return [one["id"] for one in self._of("tools/call") if one["params"]["name"] == "hang"]

    def cancelled(self) -> list[int]:
        return [one["params"]["requestId"] for one in self._of(CANCELLED)]

    def closed(self) -> list[int]:
        return []

    async def answer_late(self, id: int) -> bool:
        assert self.connection is not None
        complete = {"resultType": "complete"} if self.era == "modern" else {}
        await self.connection.send(dumped({"jsonrpc": "2.0", "id": id, "result": {**ANSWER, **complete}}), text=True)
        return True


class World:
    def __init__(self, hub: Hub, url: str, upstreams: dict[str, Upstream]) -> None:
        self.hub, self.url, self.upstreams = hub, url, upstreams


def gate(place: Place) -> Any:
    return place.root / "go"


@pytest.fixture(scope="module")
async def world() -> AsyncIterator[World]:
    place = Place()
    form = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
    asks = {"name": "asks", "actions": [{"ask": "elicitation/create", "params": form}, {"text": "answered"}]}
    questions = {"k": {"method": "elicitation/create", "params": form}}
    rounds = {"name": "asks", "actions": [{"answer": {"resultType": "input_required", "inputRequests": questions}}]}
    hang = {"name": "hang", "actions": [{"wait": str(gate(place))}, {"text": "late"}]}
    remote = {"http-old": Remote("legacy"), "http-new": Remote("modern"), "sse": Remote("sse")}
    sockets = {"ws-old": Socket("legacy"), "ws-new": Socket("modern")}
    async with AsyncExitStack() as stack:
        stack.callback(place.remove)
        for far in remote.values():
            await stack.enter_async_context(far.server)
        for near in sockets.values():
            await stack.enter_async_context(near.server)
        servers: dict[str, Any] = {
            "old": Fake({"tools": ["echo", hang, asks]}),
            "new": Fake({"tools": ["echo", hang, rounds], "era": "modern"}),
            **{n: {"type": "sse" if n == "sse" else "http", "url": one.server.url} for n, one in remote.items()},
            **{name: {"type": "ws", "url": one.server.url} for name, one in sockets.items()},
        }
        hub = await stack.enter_async_context(
            running(servers, settings='[http]\nlisten = "127.0.0.1:0"\n', place=place)
        )
        await hub.until_state(*servers)
        stdio = {name: Stdio(place, name) for name in ("old", "new")}
        yield World(hub, await print_url(hub), {**stdio, **remote, **sockets})


async def one_call(world: World, server: str, way: str, during: Callable[[], Awaitable[None]]) -> None:
    """An agent calls `hang` and, once `during` is over, wants its answer no more; it got nothing for it, and can go
    on."""
    params, echo = {"name": f"mcp__{server}__hang", "arguments": {}}, f"mcp__{server}__echo"
    if way.startswith("socket"):
        async with await world.hub.agent() as agent:
            await agent.initialize()
            start = agent.start if way == "socket-legacy" else agent.start_modern
            await start("tools/call", params, id="mine")
            await during()
            await agent.notify(CANCELLED, {"requestId": "mine", "reason": "enough"})
            assert text(await agent.call(echo, {"text": "next"}, era=way.removeprefix("socket-"))) == "next"
            assert "mine" not in agent.responses and agent.notifications == []
        return
    agent_ = HttpAgent(world.url)
    await agent_.initialize()
    if way == "http-modern":
        async with agent_.open_now("POST", *modern("tools/call", params)):
            await during()
    else:
        replies = []

        async def post() -> None:
            replies.append(await agent_.ask("POST", agent_.legacy_headers, encoded("tools/call", params, "mine")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post)
            await during()
            assert (await agent_.notify(CANCELLED, {"requestId": "mine"})).status == 202
        assert [(one.status, one.body) for one in replies] == [(200, b"")]
    reply = await agent_.request("tools/call", {"name": echo, "arguments": {"text": "next"}}, id="mine")
    assert reply.response["result"]["content"][0]["text"] == "next"


@pytest.mark.parametrize("server", ["old", "new"])
async def test_while_its_person_is_asked(world: World, server: str) -> None:
    """B70, K3.3: the question is taken back from the agent, the server gets no answer of a person and no retry, and
    hears of the end where it waits at all."""
    params, echo = {"name": f"mcp__{server}__asks", "arguments": {}}, f"mcp__{server}__echo"
    place = world.hub.place
    known = len(place.received(server))
    agent = HttpAgent(world.url)
    info = {"name": "a", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": info}
    agent.session = (await agent.ask("POST", {}, encoded("initialize", hello, 0))).headers["mcp-session-id"]
    agent.version = "2025-11-25"
    with anyio.fail_after(20):
        async with agent.open("POST", agent.legacy_headers, encoded("tools/call", params, "mine")) as exchange:
            asked = await exchange.event()
            assert asked is not None and asked["method"] == "elicitation/create"
            assert (await agent.notify(CANCELLED, {"requestId": "mine"})).status == 202
            taken = await exchange.event()
            assert taken is not None and taken["params"]["requestId"] == asked["id"]
            assert await exchange.event() is None
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {}}}
    assert (await agent.ask("POST", agent.legacy_headers, json.dumps(answer).encode())).status == 202
    reply = await agent.request("tools/call", {"name": echo, "arguments": {"text": "next"}}, id="mine")
    assert reply.response["result"]["content"][0]["text"] == "next"
    news = [one for one in place.received(server)[known:] if isinstance(one, dict)]
    calls = [one["id"] for one in news if one.get("method") == "tools/call" and one["params"]["name"] == "asks"]
    assert len(calls) == 1
    told = [one["params"]["requestId"] for one in news if one.get("method") == CANCELLED]
    answers = [one["result"] for one in news if "method" not in one]
    assert (told, answers) == ((calls, [{"action": "cancel"}]) if server == "old" else ([], []))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("server", SERVERS)
async def test_each_agent_at_each_server(world: World, server: str, way: str) -> None:
    """B70, C065, H8, K3.1, K3.2: the waiting ends at once; the server is told once, by its own id, or by the end of the
    stream and by nothing else; the agent gets nothing for its id, and what the server still answers is dropped."""
    upstream = world.upstreams[server]
    before, told = len(upstream.calls()), len(upstream.cancelled())
    gate(world.hub.place).unlink(missing_ok=True)

    async def arrived() -> None:
        await eventually(lambda: len(upstream.calls()) > before, timeout=10)

    with anyio.fail_after(20):
        await one_call(world, server, way, arrived)
    [up_id] = upstream.calls()[before:]
    if server in BY_CLOSING:
        await eventually(lambda: up_id in upstream.closed(), timeout=10)
        assert upstream.cancelled() == []
        return
    await eventually(lambda: upstream.cancelled()[told:] == [up_id], timeout=10)

    async def counted() -> int:
        found: int = (await world.hub.server(server))["counters"].get("unknown_replies", 0)
        return found

    late = await counted()
    if await upstream.answer_late(up_id):
        with anyio.fail_after(10):
            while await counted() != late + 1:  # noqa: ASYNC110
                await anyio.sleep(0.01)
    assert (await world.hub.server(server))["calls_in_flight"] == 0
    assert upstream.cancelled()[told:] == [up_id]


@pytest.mark.parametrize("server", SERVERS)
async def test_an_agent_whose_connection_closes(world: World, server: str) -> None:
    """B70: a socket that closes takes its calls along, whatever their server is."""
    upstream = world.upstreams[server]
    before, told = len(upstream.calls()), len(upstream.cancelled())
    gate(world.hub.place).unlink(missing_ok=True)
    agent: Agent
    async with await world.hub.agent() as agent:
        await agent.start_modern("tools/call", {"name": f"mcp__{server}__hang", "arguments": {}})
        await eventually(lambda: len(upstream.calls()) > before, timeout=10)
    [up_id] = upstream.calls()[before:]
    if server in BY_CLOSING:
        await eventually(lambda: up_id in upstream.closed(), timeout=10)
        assert upstream.cancelled() == []
    else:
        await eventually(lambda: upstream.cancelled()[told:] == [up_id], timeout=10)


@pytest.mark.parametrize("server", ["http-old", "http-new", "ws-old"])
async def test_a_legacy_agent_that_hangs_up(world: World, server: str) -> None:
    """B70: over HTTP the end of its request is no cancellation: nothing reaches the server."""
    upstream = world.upstreams[server]
    before, told = len(upstream.calls()), len(upstream.cancelled())
    agent = HttpAgent(world.url)
    await agent.initialize()
    params = {"name": f"mcp__{server}__hang", "arguments": {}}
    async with agent.open_now("POST", agent.legacy_headers, encoded("tools/call", params, 5)):
        await eventually(lambda: len(upstream.calls()) > before, timeout=10)
    assert (await agent.request("ping", id=6)).status == 200
    [up_id] = upstream.calls()[before:]
    assert upstream.cancelled()[told:] == [] and up_id not in upstream.closed()
    assert (await agent.ask("DELETE", agent.legacy_headers)).status == 204
    if server in BY_CLOSING:
        await eventually(lambda: up_id in upstream.closed(), timeout=10)
    else:
        await eventually(lambda: upstream.cancelled()[told:] == [up_id], timeout=10)

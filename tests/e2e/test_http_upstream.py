"""Remote servers of the official SDK, in both eras, from an agent's end: listed, called, cancelled, lost and found."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.fakes.agent import Agent, text
from tests.fakes.hub import Hub, row, running
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import RudeHttp, empty

pytestmark = pytest.mark.anyio

SCRIPT = Path(__file__).parents[1] / "fakes" / "sdk_http_server.py"
CHANGED = "notifications/tools/list_changed"
#: Each way in which such a server is run, with the era it is spoken to in.
WAYS = [("modern", []), ("modern", ["--json"]), ("legacy", []), ("legacy", ["--json"]), ("legacy", ["--stateless"])]
IDS = ["modern", "modern-json", "legacy-sse", "legacy-json", "legacy-stateless"]


class Far:
    """A remote server in a process of its own, and the lines it prints."""

    def __init__(self, process: Process, url: str, lines: BufferedByteReceiveStream) -> None:
        self.process = process
        self.url = url
        self._lines = lines

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1].split("/")[0])

    async def says(self, word: str) -> None:
        """Waits for its next line, which is this word."""
        with anyio.fail_after(10):
            assert await self._lines.receive_until(b"\n", 1000) == word.encode()

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def far(*args: str) -> AsyncIterator[Far]:
    async with await anyio.open_process([sys.executable, str(SCRIPT), *args], stderr=None) as process:
        assert process.stdout is not None
        lines = BufferedByteReceiveStream(process.stdout)
        try:
            with anyio.fail_after(20):
                url = (await lines.receive_until(b"\n", 1000)).decode()
            yield Far(process, url, lines)
        finally:
            if process.returncode is None:
                process.kill()


def entry(url: str, era: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "http", "url": url, **({"era": era} if era else {}), **more}


@asynccontextmanager
async def attached(hub: Hub) -> AsyncIterator[Agent]:
    async with await hub.agent() as agent:
        await agent.initialize()
        yield agent


@dataclass(frozen=True)
class Way:
    """One way of being run, with the daemon that the server is behind."""

    era: str
    args: Sequence[str]
    server: Far
    hub: Hub


@pytest.fixture(scope="module", params=WAYS, ids=IDS)
async def way(request: pytest.FixtureRequest) -> AsyncIterator[Way]:
    """A server and a daemon for all tests of one way: starting the SDK costs more than what they ask of it."""
    era, args = request.param
    async with far(*args) as server, running({"far": entry(server.url, era)}) as hub:
        yield Way(era, args, server, hub)


@pytest.mark.parametrize("agents", ["legacy", "modern"])
async def test_list_call_and_progress(way: Way, agents: str) -> None:
    """A remote server's tools are listed and called by agents of either era, in whatever era it speaks; its progress
    comes where it can send any; its row says where it is, and that it has no process."""
    era, args, server, hub = way.era, way.args, way.server, way.hub
    async with attached(hub) as agent:
        report = await hub.until_state("far")
        found = row(report, "far")
        assert (found["transport"], found["command"], found["pid"]) == ("http", [server.url], None)
        assert (found["era"], found["tools"]) == (era, 3)
        tools = await agent.tools(era=agents)
        assert [tool["name"] for tool in tools] == ["mcp__far__count", "mcp__far__echo", "mcp__far__slow"]
        assert tools[1]["inputSchema"]["properties"]["text"]["x-mcp-header"] == "Text"
        for said in ("漢🙂", "", " x ", "=?base64?eA==?="):
            assert text(await agent.call("mcp__far__echo", {"text": said}, era=agents)) == said
        params = {"name": "mcp__far__slow", "arguments": {"seconds": 0}}
        token = {"progressToken": "p1"}
        if agents == "modern":
            done = await agent.modern("tools/call", params, meta=token)
        else:
            done = await agent.request("tools/call", {**params, "_meta": token})
        assert text(done) == "slow"
        for word in ("begun", "done"):
            await server.says(word)
        progress = [n["params"] for n in agent.notifications if n["method"] == "notifications/progress"]
        wanted = [] if "--json" in args else [1, 2, 3]
        assert [(one["progressToken"], one["progress"]) for one in progress] == [("p1", n) for n in wanted]


# That server does not look for a disconnect while it makes a plain JSON answer to a modern request.
@pytest.mark.parametrize("way", [WAYS[0], *WAYS[2:4]], ids=[IDS[0], *IDS[2:4]], indirect=True)
async def test_cancel(way: Way) -> None:
    """A call that an agent cancels is cancelled at the server in the way of its era, and the next one is answered."""
    server, hub = way.server, way.hub
    async with attached(hub) as agent:
        await hub.until_state("far")
        mid = await agent.start("tools/call", {"name": "mcp__far__slow", "arguments": {}})
        await server.says("begun")
        await agent.notify("notifications/cancelled", {"requestId": mid, "reason": "enough"})
        await server.says("cancelled")
        assert text(await agent.call("mcp__far__echo", {"text": "next"})) == "next"
        assert mid not in agent.responses


async def test_an_agent_that_leaves() -> None:
    """Its calls are cancelled at a remote server too."""
    async with far() as server, running({"far": entry(server.url)}) as hub:
        await hub.until_state("far")
        async with attached(hub) as agent:
            await agent.start("tools/call", {"name": "mcp__far__slow", "arguments": {}})
            await server.says("begun")
        await server.says("cancelled")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_that_is_killed_and_comes_back(era: str) -> None:
    """C089, C091: a call in flight ends at once with an unknown outcome and is not sent again; while the server is
    away a call says that nothing listens there; when it is back, the next call is answered and changed tools told."""
    async with far() as first, running({"far": entry(first.url, era)}) as hub, attached(hub) as agent:
        await hub.until_state("far")
        mid = await agent.start("tools/call", {"name": "mcp__far__slow", "arguments": {}})
        await first.says("begun")
        await first.kill()
        with anyio.fail_after(2):
            lost = await agent.response(mid)
        assert lost["error"]["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown"
        answer = await agent.call("mcp__far__echo", {"text": "x"})
        assert answer["result"]["isError"] is True
        assert "far" in text(answer)
        async with far("--port", str(first.port), "--tools", "added") as second:
            while text(response := await agent.call("mcp__far__count", {"text": "back"})) != "back":
                assert response["result"]["isError"] is True
                await agent.request("ping")
            await second.says("count")
            await hub.until(lambda report: row(report, "far")["tools"] == 4)
            await agent.notification(CHANGED)
            assert "mcp__far__added" in [tool["name"] for tool in await agent.tools()]


PROPERTIES = {
    "region": {"type": "string", "x-mcp-header": "Region"},
    "dry": {"type": "boolean", "x-mcp-header": "Dry"},
    "count": {"type": "integer", "x-mcp-header": "Count"},
    "plain": {"type": "string"},
}
#: The arguments of a call, and what of them stands in headers.
MIRRORED: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"region": "eu", "plain": "x"}, {"region": "eu"}),
    ({"region": "\u6f22"}, {"region": "=?base64?5ryi?="}),
    ({"region": " eu "}, {"region": "=?base64?IGV1IA==?="}),
    ({"region": "a\nb"}, {"region": "=?base64?YQpi?="}),
    ({"region": "=?base64?x?="}, {"region": "=?base64?PT9iYXNlNjQ/eD89?="}),
    ({"dry": True, "count": 7}, {"dry": "true", "count": "7"}),
    ({"dry": False, "region": None, "count": None}, {"dry": "false"}),
    ({}, {}),
]


async def test_what_stands_in_headers() -> None:
    """B50: a call to a modern server has the server's own name in `Mcp-Name`, and in `Mcp-Param-*` what its tool wants
    there: as it is, or wrapped where a header could not hold it; null is left out. So for agents of both eras."""
    tool = {"name": "go", "inputSchema": {"type": "object", "properties": PROPERTIES}}
    async with (
        RudeHttp(OrdinaryMcp(era="modern", tools=[tool])) as server,
        running({"far": entry(server.url, "modern")}) as hub,
        attached(hub) as agent,
    ):
        await hub.until_state("far")
        for era in ("legacy", "modern"):
            for arguments, headers in MIRRORED:
                assert "result" in await agent.call("mcp__far__go", arguments, era=era)
                request = server.sent("tools/call")[-1]
                assert request.header("Mcp-Name") == request.params["name"] == "go"
                assert request.header("Mcp-Method") == "tools/call"
                found = {name: request.header(f"Mcp-Param-{name}") for name in PROPERTIES}
                assert {name: value for name, value in found.items() if value is not None} == headers, arguments
                assert request.params["arguments"] == arguments


async def test_a_session_that_a_restart_ended() -> None:
    """C065, B73: a call to a restarted server of the legacy era is refused for its old session, and answered all the
    same: the hub begins another and sends it once more."""
    async with far() as first, running({"far": entry(first.url, "legacy")}) as hub, attached(hub) as agent:
        await hub.until_state("far")
        assert text(await agent.call("mcp__far__echo", {"text": "1"})) == "1"
        await first.kill()
        async with far("--port", str(first.port)) as second:
            assert text(await agent.call("mcp__far__count", {"text": "2"})) == "2"
            await second.says("count")
            await hub.until_state("far")


async def test_a_server_that_is_not_there_yet() -> None:
    """C085: refused connections mean pending with the reason; when it comes it is found; no other server waits."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    async with far() as near:
        servers = {"far": entry(f"http://127.0.0.1:{port}/mcp"), "near": entry(near.url)}
        async with running(servers) as hub, attached(hub) as agent:
            await hub.until_state("near")
            report = await hub.until(lambda r: row(r, "far")["state_text"].startswith("pending 1/"))
            assert row(report, "far")["reason"] == f"nothing listens at 127.0.0.1:{port}"
            assert row(report, "far")["last_error"]["kind"] == "unreachable"
            assert text(await agent.call("mcp__near__echo", {"text": "here"})) == "here"
            async with far("--port", str(port)):
                await hub.until_state("far")
                await agent.notification(CHANGED)
                assert text(await agent.call("mcp__far__echo", {"text": "now"})) == "now"


async def test_a_sign_in_is_needed() -> None:
    """A server that wants a sign-in is a row that says so and what to do; its secrets are nowhere."""
    async with RudeHttp(lambda request: empty(401, ("WWW-Authenticate", "Bearer"))) as server:
        url = server.url.replace("//", "//user:s3cret-pw@") + "?key=s3cret-key"
        async with running({"far": entry(url, headers={"X-Api-Key": "s3cret-header"})}) as hub, attached(hub):
            report = await hub.until_state("far", state="needs-auth")
            found = row(report, "far")
            assert found["command"] == [server.url.replace("//", "//***@") + "?***"]
            assert "headers" in found["reason"]
            assert found["last_error"]["remedy"]
            assert "s3cret" not in repr(report)
            assert "s3cret" not in hub.stderr()


async def test_headers_of_an_entry() -> None:
    """C020, C025: an entry's headers reach the server with their variables replaced; one that is missing fails that
    entry by name, and nothing is sent."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server:
        servers = {
            "far": entry(server.url, headers={"Authorization": "Bearer ${FAR_TOKEN}"}),
            "bad": entry(server.url + "/bad", headers={"Authorization": "Bearer ${NO_SUCH_TOKEN}"}),
        }
        async with running(servers, env={"FAR_TOKEN": "s3cret-token"}) as hub:
            await hub.until_state("far")
            report = await hub.until_state("bad", state="failed")
            assert "NO_SUCH_TOKEN" in row(report, "bad")["reason"]
            assert {request.header("Authorization") for request in server.requests} == {"Bearer s3cret-token"}
            assert {request.path for request in server.requests} == {"/mcp"}
            assert "s3cret" not in repr(report) + hub.stderr()


async def test_many_remote_servers_at_once() -> None:
    """Twenty open at a time: one that never answers holds up nobody."""
    async with RudeHttp(OrdinaryMcp(era="both")) as server, far() as silent:
        servers = {f"s{n:02}": entry(server.url) for n in range(30)}
        async with running({"a": entry(silent.url.replace("/mcp", "/nothing")), **servers}) as hub:
            await hub.until_state(*servers, timeout=10)

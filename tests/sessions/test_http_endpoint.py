"""What the HTTP endpoint does over time: silence, idle sessions, workspaces in use, and the end of everything."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import anyio
import pytest

from mcphub.gateway import signs
from mcphub.sessions import http_answer, http_endpoint, workspaces
from tests.fakes.agent import MODERN, modern_meta
from tests.fakes.http_agent import HttpAgent, Reply, encoded, modern
from tests.fakes.hub import Fake, eventually
from tests.fakes.inside import HTTP_WITHOUT_DRAIN, Inside, inside

pytestmark = pytest.mark.anyio

DO = "mcp__a__do"


def waiting_call(gate: Path) -> dict[str, object]:
    """A call that answers once this file is there."""
    return {"name": DO, "arguments": {"actions": [{"wait": str(gate)}, {"text": "done"}]}}


async def in_flight(hub: Inside, count: int) -> None:
    """Wait until the fake has got so many calls."""
    await eventually(
        lambda: len([m for m in hub.received("a") if isinstance(m, dict) and m.get("method") == "tools/call"]) == count,
        timeout=10,
    )


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_silent_call_shows_that_it_lives(monkeypatch: pytest.MonkeyPatch, era: str, tmp_path: Path) -> None:
    """B90: a call that says nothing for long gets comments, as many as it takes, and still its answer."""
    monkeypatch.setattr(http_answer, "KEEP_ALIVE", 0.02)
    async with inside(monkeypatch, {"a": Fake()}) as hub:
        await hub.until_state("a")
        agent = await hub.http_agent()
        await agent.initialize()
        call = waiting_call(tmp_path / "go")
        head, body = modern("tools/call", call)
        if era == "legacy":
            head, body = agent.legacy_headers, encoded("tools/call", call, 1)
        with anyio.fail_after(20):
            async with agent.open("POST", head, body) as exchange:
                assert exchange.reply.headers["content-type"] == "text/event-stream"
                for _ in range(3):
                    assert (await exchange.comment()).startswith(":")
                (tmp_path / "go").touch()
                reply = await exchange.whole()
        [message] = reply.messages
        assert message["result"]["content"][0]["text"] == "done"


async def test_an_idle_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """B17: after a time without a request it is unknown; an open stream keeps it."""
    monkeypatch.setattr(http_endpoint, "IDLE", 0.2)
    async with inside(monkeypatch, {}) as hub:
        agent = await hub.http_agent()
        await agent.initialize()
        assert [s["client"] for s in (await hub.status())["sessions"]] == ["fake-http-agent"]
        async with agent.open("GET", agent.legacy_headers):
            other = await hub.http_agent()
            await other.initialize()
            await hub_forgets(hub, 1)
            assert (await other.request("ping")).status == 404
            assert (await agent.request("ping")).document["result"] == {}
        await hub_forgets(hub, 0)
        assert (await agent.request("ping")).status == 404


async def hub_forgets(hub: Inside, left: int) -> None:
    """Wait until so many sessions are left, of which the status tells."""
    await hub.until(lambda report: len(report["sessions"]) == left, timeout=10)


async def test_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that never end their sessions do not fill the memory: the one idle for longest goes."""
    monkeypatch.setattr(http_endpoint, "MAX_SESSIONS", 2)
    async with inside(monkeypatch, {}) as hub:
        agents = [await hub.http_agent() for _ in range(3)]
        await agents[0].initialize()
        await agents[1].initialize()
        assert (await agents[0].request("ping")).status == 200
        await agents[2].initialize()
        assert [(await agent.request("ping")).status for agent in agents] == [200, 404, 200]


async def test_a_workspace_stays_in_use_between_modern_requests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An agent that has no connection does not lose its project's servers while it thinks, but some time later."""
    monkeypatch.setattr(workspaces, "LINGER", 0.0)
    monkeypatch.setattr(http_endpoint, "WORKSPACE_IDLE", 0.5)
    (tmp_path / ".git").mkdir()
    async with inside(monkeypatch, {}) as hub:
        entry = hub.place.entry("p", Fake({"era": "modern"}))
        (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"p": entry}}), "utf-8")
        item = (await hub.control("GET", "/v1/approvals", query={"workspace": str(tmp_path)}))[1]["items"][0]
        body = {"workspace": str(tmp_path), "name": "p", "digest": item["digest"]}
        assert (await hub.control("POST", "/v1/approve", body=body))[0] == 200
        agent = await hub.http_agent(workspace=str(tmp_path))
        assert "/mcp/w/" in agent.url
        for _ in range(3):
            names = [t["name"] for t in (await agent.modern("tools/list")).document["result"]["tools"]]
            assert "mcp__p__echo" in names
            await anyio.sleep(0.1)
        assert len(hub.place.starts("p")) == 1
        await eventually(lambda: "#eof" in hub.received("p"), timeout=10)
        everywhere = await hub.http_agent()
        names = [t["name"] for t in (await everywhere.modern("tools/list")).document["result"]["tools"]]
        assert "mcp__p__echo" not in names


async def test_everybody_is_told_of_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Row 68: at shutdown a listen gets its final result, a call an error that says so, a session's stream its orderly
    end, all within a tenth of a second after the time that calls get, and no task stays."""
    tasks = len(asyncio.all_tasks())
    call = waiting_call(tmp_path / "never")
    replies: dict[str, Reply] = {}
    ends: list[float] = []
    begun = 0.0

    async def read(name: str, agent: HttpAgent, head: dict[str, str | None], body: bytes = b"") -> None:
        async with agent.open("POST" if body else "GET", head, body) as exchange:
            open_now.add(name)
            replies[name] = await exchange.whole()
            ends.append(time.monotonic())

    open_now: set[str] = set()
    servers = {"a": Fake()}
    with anyio.fail_after(30):
        async with anyio.create_task_group() as readers, inside(monkeypatch, servers, HTTP_WITHOUT_DRAIN) as hub:
            await hub.until_state("a")
            agent = await hub.http_agent()
            await agent.initialize()
            listen = {"notifications": {"toolsListChanged": True}}
            readers.start_soon(read, "listen", agent, *modern("subscriptions/listen", listen, id="L"))
            readers.start_soon(read, "stream", agent, agent.legacy_headers)
            readers.start_soon(read, "modern", agent, *modern("tools/call", call, id="M"))
            readers.start_soon(read, "legacy", agent, agent.legacy_headers, encoded("tools/call", call, 5))
            await in_flight(hub, 2)
            await eventually(lambda: {"listen", "stream"} <= open_now, timeout=5)
            begun = time.monotonic()
    assert max(ends) - begun < 0.1
    ack, last = replies["listen"].messages
    assert ack["method"] == "notifications/subscriptions/acknowledged"
    assert (last["id"], last["result"]["resultType"]) == ("L", "complete")
    assert last["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "L"
    assert replies["stream"].messages == []
    for name, mid in (("modern", "M"), ("legacy", 5)):
        reply = replies[name].document
        assert reply["id"] == mid
        assert "mcphub was stopped before the server a answered do" in reply["error"]["message"]
        assert reply["error"]["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown"
    with anyio.fail_after(5):
        while len(asyncio.all_tasks()) > tasks:
            await anyio.lowlevel.checkpoint()


async def test_a_thousand_requests_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither tasks nor agents nor lists of the gateway grow with use, also where clients hang up."""
    async with inside(monkeypatch, {"a": Fake()}) as hub:
        await hub.until_state("a")
        first = await hub.http_agent()
        await first.initialize()
        await first.modern("tools/list")
        tasks = len(asyncio.all_tasks())
        call = {"name": "mcp__a__echo", "arguments": {"text": "x"}}

        async def some() -> None:
            agent = HttpAgent(first.url)
            await agent.initialize()
            for _ in range(60):
                assert (await agent.modern("tools/call", call)).status == 200
                assert (await agent.request("tools/call", call)).status == 200
                async with agent.open("POST", agent.legacy_headers, encoded("tools/list", None, 1)):
                    pass
            assert (await agent.ask("DELETE", agent.legacy_headers)).status == 204

        with anyio.fail_after(50):
            async with anyio.create_task_group() as group:
                for _ in range(6):
                    group.start_soon(some)
            while len(asyncio.all_tasks()) > tasks:
                await anyio.lowlevel.checkpoint()
        assert len((await hub.status())["sessions"]) == 1


async def test_who_brings_no_token_is_refused_before_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 15: nobody can make the daemon read megabytes without being let in."""
    async with inside(monkeypatch, {}) as hub:
        agent = await hub.http_agent()
        with anyio.fail_after(5):
            async with agent.open("POST", {"Content-Length": str(50 << 20)}, path="/mcp") as exchange:
                assert exchange.reply.status == 401
        assert (await agent.modern("server/discover")).document["result"]["supportedVersions"][0] == MODERN


async def test_a_slow_body_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body in pieces is one message, pretty-printed or not; others are answered meanwhile."""
    async with inside(monkeypatch, {"a": Fake()}) as hub:
        await hub.until_state("a")
        agent: HttpAgent = await hub.http_agent()
        call = {"name": "mcp__a__echo", "arguments": {"text": "x"}, "_meta": modern_meta()}
        text = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}, indent=2
        ).encode()
        head, _ = modern("tools/call", {"name": "mcp__a__echo"})
        with anyio.fail_after(10):
            stream = await anyio.connect_tcp("127.0.0.1", int(agent.host.rsplit(":")[-1]))
            async with stream:
                fields = {"Host": agent.host, "Content-Type": "application/json", "Content-Length": len(text), **head}
                lines = [f"POST {agent.path} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items()), "", ""]
                await stream.send("\r\n".join(lines).encode())
                for at in range(0, len(text), 50):
                    await stream.send(text[at : at + 50])
                    assert (await agent.modern("server/discover")).status == 200
                answer = await stream.receive()
        assert b'"text":"x"' in answer.replace(b" ", b"")
        assert [m for m in hub.received("a") if isinstance(m, dict) and m.get("method") == "tools/call"]


async def test_a_call_that_waits_for_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """B90: while a legacy agent's person is asked its stream has comments and, under its token, progress; then its
    answer comes on the same stream."""
    monkeypatch.setattr(http_answer, "KEEP_ALIVE", 0.02)
    monkeypatch.setattr(signs, "EVERY", 0.05)
    form = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
    actions = [{"ask": "elicitation/create", "params": form}, {"text": "done"}]
    async with inside(monkeypatch, {"a": Fake()}) as hub:
        await hub.until_state("a")
        agent = await hub.http_agent()
        params = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "a"}}
        agent.session = (await agent.ask("POST", {}, encoded("initialize", params, 0))).headers["mcp-session-id"]
        agent.version = "2025-11-25"
        call = {"name": DO, "arguments": {"actions": actions}, "_meta": {"progressToken": "p"}}
        with anyio.fail_after(20):
            async with agent.open("POST", agent.legacy_headers, encoded("tools/call", call, 1)) as exchange:
                question = await exchange.event()
                assert question is not None and question["method"] == "elicitation/create"
                told = [await exchange.event() for _ in range(3)]
                answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
                assert (await agent.ask("POST", agent.legacy_headers, json.dumps(answer).encode())).status == 202
                reply = await exchange.whole()
        found = [one["params"] for one in told if one is not None and one["method"] == "notifications/progress"]
        assert len(found) == 3 and all(one["progressToken"] == "p" for one in found)
        assert found[0]["progress"] < found[1]["progress"] < found[2]["progress"]
        assert reply.comments and reply.messages[-1]["result"]["content"][0]["text"] == "done"

"""Servers that make tasks, and agents with and without them: on the official SDK, over HTTP and a pipe."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.e2e.test_counterparts import INSTALLED, node
from tests.e2e.test_http_agents import print_url
from tests.fakes.agent import META, Agent, Message, text
from tests.fakes.http_agent import HttpAgent
from tests.fakes.hub import Hub, Place, running

pytestmark = pytest.mark.anyio

EVERYTHING = Path(__file__).parents[1] / "fakes" / "everything.py"
SETTINGS = '[http]\nlisten = "127.0.0.1:0"\n'
HANDLES: Message = {META + "clientCapabilities": {"extensions": {META + "tasks": {}}, "elicitation": {"form": {}}}}
YES = {"action": "accept", "content": {"ok": True}}


@pytest.fixture(scope="module")
async def url() -> AsyncIterator[str]:
    """A server that makes tasks, which must be named in the headers of what is asked about them."""
    command = [sys.executable, "-I", str(EVERYTHING), "--http", "0"]
    async with await anyio.open_process(command, stderr=None) as process:
        assert process.stdout is not None
        try:
            with anyio.fail_after(20):
                line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 1000)
            yield line.decode()
        finally:
            process.terminate()


def servers(url: str) -> dict[str, Any]:
    """The same server over HTTP and over a pipe; an agent of either era meets a modern one."""
    pipe = {"command": sys.executable, "args": ["-I", str(EVERYTHING), "--stdio"], "era": "modern"}
    return {"far": {"type": "http", "url": url, "era": "modern"}, "near": pipe}


@pytest.fixture(scope="module")
async def hub(url: str) -> AsyncIterator[Hub]:
    async with running(servers(url), settings=SETTINGS) as hub:
        await hub.until_state("far", "near")
        yield hub


def params(tool: str, server: str = "far", **arguments: Any) -> Message:
    return {"name": f"mcp__{server}__{tool}", "arguments": arguments}


@pytest.mark.parametrize("server", ["far", "near"])
async def test_agents_without_tasks(hub: Hub, agent: Agent, server: str) -> None:
    """B76: in either era they get results, errors and questions as if there were no tasks."""
    agent.answers["elicitation/create"] = YES
    quick = {"seconds": 0.1, "label": "x"}
    progress = {**params("slow_compute", server, **quick), "_meta": {"progressToken": "p"}}
    assert text(await agent.request("tools/call", progress)) == "computed x"
    told = (await agent.notification("notifications/progress"))["params"]
    assert (told["progressToken"], told["message"]) == ("p", "at work")
    assert (await agent.request("tools/call", params("failing_job", server)))["result"]["isError"] is True
    failed = await agent.request("tools/call", params("protocol_error_job", server))
    assert failed["error"]["message"] == "the job broke"
    assert text(await agent.modern("tools/call", params("slow_compute", server, **quick))) == "computed x"
    able: Message = {META + "clientCapabilities": {"elicitation": {"form": {}}}}
    wanted = params("confirm_delete", server, filename="f")
    round = (await agent.modern("tools/call", wanted, meta=able))["result"]
    assert round["resultType"] == "input_required" and round["inputRequests"]["confirm"]
    brought = {"requestState": round["requestState"], "inputResponses": {"confirm": YES}}
    assert text(await agent.modern("tools/call", wanted | brought, meta=able)) == "accept: f"
    refused = await agent.modern("tools/call", wanted)
    assert refused["error"]["code"] == -32021


async def test_a_legacy_agent_that_is_asked(hub: Hub) -> None:
    """B76: the questions of a task come as requests, and the call ends with what the task came to."""
    async with await hub.agent() as agent:
        agent.answers["elicitation/create"] = YES
        await agent.initialize(capabilities={"elicitation": {}})
        assert text(await agent.request("tools/call", params("confirm_delete", filename="f"))) == "accept: f"
        assert text(await agent.request("tools/call", params("multi_input"))) == "2 answers"
        assert len(agent.asked) == 3


async def test_handles(hub: Hub, url: str) -> None:
    """B77: an agent has a handle, by which it reaches its task over HTTP, where `Mcp-Name` is the server's id; another
    agent has not; the next daemon knows it too."""
    agent = HttpAgent(await print_url(hub))

    async def about(method: str, handle: str, name: str = "", **more: Any) -> Message:
        headers = {"Mcp-Name": handle}
        who = {META + "clientInfo": {"name": name, "version": "1"}} if name else {}
        reply = await agent.modern(method, {"taskId": handle, **more}, meta=HANDLES | who, headers=headers)
        return reply.response

    made = await agent.modern("tools/call", params("confirm_delete", filename="f"), meta=HANDLES)
    handle = made.response["result"]["taskId"]
    assert made.response["result"]["resultType"] == "task"
    waits = (await about("tasks/get", handle))["result"]
    assert waits["taskId"] == handle and waits["status"] == "input_required" and list(waits["inputRequests"])
    assert (await about("tasks/get", handle, "another"))["error"]["code"] == -32602
    acked = (await about("tasks/update", handle, inputResponses={"confirm": YES}))["result"]
    assert acked["resultType"] == "complete" and "taskId" not in acked
    with anyio.fail_after(10):
        while (last := (await about("tasks/get", handle))["result"])["status"] == "working":
            pass
    assert last["result"]["content"][0]["text"] == "accept: f"
    mismatch = await agent.modern("tasks/get", {"taskId": handle}, meta=HANDLES, headers={"Mcp-Name": "x"})
    assert (mismatch.status, mismatch.document["error"]["code"]) == (400, -32020)


async def test_the_next_daemon(url: str, place: Place) -> None:
    """B77: a handle is good in the next daemon: what seals it is kept, and nothing else is needed."""
    entry = {"far": servers(url)["far"]}
    async with running(entry, place=place) as hub:
        await hub.until_state("far")
        async with await hub.agent() as agent:
            made = await agent.modern("tools/call", params("slow_compute", seconds=0.1, label="x"), meta=HANDLES)
    handle = made["result"]["taskId"]
    async with running(entry, place=place) as hub:
        await hub.until_state("far")
        async with await hub.agent() as agent:
            with anyio.fail_after(10):
                while True:
                    got = await agent.modern("tasks/get", {"taskId": handle}, meta=HANDLES)
                    if got["result"]["status"] != "working":
                        break
            assert got["result"]["result"]["content"][0]["text"] == "computed x"
            cancelled = await agent.modern("tasks/cancel", {"taskId": handle}, meta=HANDLES)
            assert cancelled["result"]["resultType"] == "complete"


@pytest.mark.counterparts
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_official_legacy_server(place: Place, era: str) -> None:
    """B78: its tool that must be called as a task is called plainly, and asks in the middle of it."""
    script = INSTALLED / "node_modules" / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
    async with running({"old": {"command": node(), "args": [str(script)]}}, place=place) as hub:
        await hub.until_state("old")
        async with await hub.agent() as agent:
            choice = {"action": "accept", "content": {"interpretation": "technical"}}
            agent.answers["elicitation/create"] = choice
            wanted = params("simulate-research-query", "old", topic="python", ambiguous=True)
            if era == "legacy":
                await agent.initialize(capabilities={"elicitation": {}})
                assert "execution" not in str(await agent.tools())
                said = text(await agent.request("tools/call", wanted))
                assert len(agent.asked) == 1
            else:
                able: Message = {META + "clientCapabilities": {"elicitation": {"form": {}}}}
                round = (await agent.modern("tools/call", wanted, meta=able))["result"]
                brought = {
                    "requestState": round["requestState"],
                    "inputResponses": dict.fromkeys(round["inputRequests"], choice),
                }
                said = text(await agent.modern("tools/call", wanted | brought, meta=able))
            assert "python (technical)" in said

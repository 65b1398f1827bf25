"""Calls whose answer is lost, from an agent's end: which are made again, how often, and what is held back."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.fakes.agent import text
from tests.fakes.hub import Fake, Hub, eventually, row, running
from tests.fakes.ordinary_mcp import ECHO, OrdinaryMcp
from tests.fakes.rude_http import RudeHttp, empty

pytestmark = pytest.mark.anyio


def tool(name: str, *actions: dict[str, Any], **hints: bool) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, "annotations": hints, "actions": list(actions)}


def tools(*actions: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        tool("get", *actions, readOnlyHint=True),
        tool("put", *actions, idempotentHint=True),
        tool("pay", *actions),
        tool("post", {"exit": 9}),
    ]


def calls(hub: Hub) -> list[dict[str, Any]]:
    return [m["params"] for m in hub.received("s") if isinstance(m, dict) and m.get("method") == "tools/call"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_that_is_killed(era: str) -> None:
    """C089, K4.3: a read, and what is idempotent by the tool's word or by an argument of the entry, get the answer of
    the next process; what may have done something went to one process once, and its agent is told that nobody knows."""
    dies = Fake(
        {"era": era, "tools": tools({"request": True}), "starts": [{"tools": tools({"pause": 0})}, {}]},
        {"tools": {"pay": {"idempotencyArgument": "key"}}},
    )
    async with running({"s": dies}) as hub, await hub.agent() as agent:
        await hub.until_state("s")
        await agent.initialize()
        found: dict[str, Any] = {}

        async def ask(name: str) -> None:
            found[name] = await agent.call(f"mcp__s__{name}", {"a": 1})

        async with anyio.create_task_group() as asking:
            for name in ("get", "put", "pay"):
                asking.start_soon(ask, name)
            await eventually(lambda: len(calls(hub)) == 3, timeout=10)
            await ask("post")
        error = found.pop("post")["error"]
        assert error["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown"
        assert all('"a": 1' in text(answer) or '"a":1' in text(answer) for answer in found.values())
        sent = calls(hub)
        by = {name: [params["arguments"] for params in sent if params["name"] == name] for name in (*found, "post")}
        assert len(by["post"]) == 1 and all(len(by[name]) == 2 for name in found)
        assert len({arguments["key"] for arguments in by["pay"]}) == 1 and "key" not in by["get"][0]
        assert row(await hub.status(), "s")["counters"]["retried"] == 3


async def test_a_server_over_http_that_is_in_trouble() -> None:
    """A read that is answered by 503 is made again, a write is not; after failures in a row its agent's writes are held
    back for a while, reads are not, and the status says so."""
    plain = {key: value for key, value in ECHO.items() if key != "name"}
    mcp = OrdinaryMcp(era="modern", tools=[ECHO, {**plain, "name": "read", "annotations": {"readOnlyHint": True}}])
    async with (
        RudeHttp(mcp) as server,
        running({"far": {"type": "http", "url": server.url}}) as hub,
        await hub.agent() as agent,
    ):
        await hub.until_state("far")
        await agent.initialize()
        server.on("tools/call", lambda request: empty(503))
        assert text(await agent.call("mcp__far__read", {"text": "x"})) == "x"
        server.on("tools/call", lambda request: empty(503), times=None)
        kinds: list[str] = []
        with anyio.fail_after(15):
            while "circuit_open" not in kinds:
                await hub.until_state("far")
                answer = await agent.call("mcp__far__echo", {"text": "x"})
                told = answer["error"]["data"] if "error" in answer else answer["result"]["_meta"]
                kinds.append(told["dev.mcphub/error"]["kind"])
        assert kinds.count("outcome_unknown") == 5
        server.forget()
        assert text(await agent.call("mcp__far__read", {"text": "y"})) == "y"
        found = row(await hub.status(), "far")
        [held] = found["held_back"]
        assert (found["state"], held["calls"], held["state"], held["failures"]) == ("connected", "write", "open", 5)
        assert "503" in held["cause"]

"""Calls that wait in mcphub for a server over HTTP: what they are told, and who goes before whom."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.e2e.test_calls import calls
from tests.e2e.test_http_upstream import attached, entry
from tests.fakes.agent import Agent, Message, text
from tests.fakes.hub import Hub, running
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import NEVER, Reply, Request, RudeHttp, body, empty, stream

pytestmark = pytest.mark.anyio

#: Keys of calls that were.
refused: set[str] = set()
WRITE = {"name": "w", "inputSchema": {"type": "object"}}


def does(request: Request) -> Reply:
    """What the arguments of a call say."""
    arguments = request.params["arguments"]
    if arguments["do"] == "hang":
        return stream(NEVER)
    if arguments["do"] == "refuse" or (arguments["do"] == "refuse once" and arguments["key"] not in refused):
        refused.add(arguments["key"])
        return empty(429, ("Retry-After", "3"))
    return body(request.result({"content": [{"type": "text", "text": "done"}], "resultType": "complete"}))


@pytest.fixture(scope="module")
async def far() -> AsyncIterator[RudeHttp]:
    async with RudeHttp(OrdinaryMcp(era="modern", tools=[WRITE])) as server:
        server.on("tools/call", does, times=None)
        yield server


@pytest.fixture(scope="module")
async def hub(far: RudeHttp) -> AsyncIterator[Hub]:
    async with running({"far": entry(far.url, "modern")}) as hub:
        await hub.until_state("far")
        yield hub


async def start(agent: Agent, key: str, do: str, **meta: Any) -> int | str:
    params = {"name": "mcp__far__w", "arguments": {"do": do, "key": key}, "_meta": meta}
    return await agent.start("tools/call", params)


def posts(far: RudeHttp, key: str) -> int:
    return sum(f'"{key}"' in json.dumps(one.params) for one in far.sent("tools/call"))


def told(answer: Message) -> Any:
    assert answer["result"]["isError"]
    return answer["result"]["_meta"]["dev.mcphub/error"]


async def test_the_time_of_a_write_that_was_refused_is_over(hub: Hub, far: RudeHttp) -> None:
    """C075, C089: a write that waits after a 429 was not acted on when the time of its task is over."""
    async with attached(hub) as agent:
        task = {"id": "t", "deadline": time.time_ns() // 10**6 + 1000}
        late = told(await agent.response(await start(agent, "task", "refuse", **{"dev.mcphub/task": task})))
        assert late["kind"] == "task_budget" and posts(far, "task") == 1
        (one,) = await calls(hub.place, "--limit", "1")
        assert (one["operation"], one["outcome"], one["reason"]) == (late["operationId"], "not_acted_on", "timeout")


async def test_a_write_that_was_refused_and_its_connection_ended(hub: Hub, far: RudeHttp) -> None:
    """C075, C089: it is made again on the next connection, once that is there, and nobody is told that it may have had
    effects; what was on its way is unknown."""
    async with attached(hub) as agent:
        hangs = await start(agent, "hangs", "hang")
        mid = await start(agent, "again", "refuse once")
        await far.until(lambda: posts(far, "again") and posts(far, "hangs"))
        await hub.reconnect("far")
        lost = await agent.response(hangs)
        assert lost["error"]["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown"
        assert text(await agent.response(mid)) == "done"
        assert posts(far, "again") == 2


async def test_hanging_calls_of_one_agent_do_not_keep_out_the_first_of_another(hub: Hub, far: RudeHttp) -> None:
    """K5.1: a server over HTTP has 88 of them at most, and what waits was not sent: it may be called again."""
    async with attached(hub) as greedy:
        mids = [await start(greedy, f"flood{number}", "hang") for number in range(150)]
        await far.until(lambda: posts_of_flood(far) >= 80)
        async with attached(hub) as polite:
            assert text(await polite.response(await start(polite, "polite", "answer"))) == "done"
        await far.until(lambda: posts_of_flood(far) == 88)
        for mid in reversed(mids):
            await greedy.notify("notifications/cancelled", {"requestId": mid})
        assert text(await greedy.response(await start(greedy, "next", "answer"))) == "done"
        assert posts_of_flood(far) == 88


def posts_of_flood(far: RudeHttp) -> int:
    return sum('"flood' in json.dumps(one.params) for one in far.sent("tools/call"))

"""One request about prompts, resources or completion while it is in flight."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gateway.bench import META, Bench
from tests.gateway.shelves import Shelves, legacy

pytestmark = pytest.mark.anyio

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_meta_of_each_hop(shelves: Bench, era: str) -> None:
    """Trace context crosses, hop keys do not; a modern server gets the hub's own."""
    await shelves.up(server := Shelves("s", era=era))
    agent = shelves.agent()
    agent.modern("resources/read", {"uri": "x:1"}, id=5, meta={"traceparent": PARENT, "progressToken": "t"})
    request = await server.got("resources/read")
    meta = request["params"]["_meta"]
    assert meta["traceparent"] == PARENT and meta["progressToken"] == request["id"]
    assert (META + "clientInfo" in meta) is (era == "modern")
    assert any(key.startswith(META) for key in meta) is (era == "modern")


async def test_progress(shelves: Bench) -> None:
    """It comes under the agent's own token."""
    await shelves.up(server := Shelves("s"))
    agent = legacy(shelves)
    agent.ask("resources/read", {"uri": "x:1", "_meta": {"progressToken": "mine"}}, id=5)
    request = await server.got("resources/read")
    server.notify("notifications/progress", {"progressToken": request["id"], "progress": 1})
    [told] = agent.of("notifications/progress")
    assert told["params"] == {"progressToken": "mine", "progress": 1}


@pytest.mark.parametrize(
    "result",
    [
        {"contents": 5},
        {"contents": [5, None, {"uri": 5}, {"uri": None}]},
        {"contents": [{"uri": "x" * 100_000}]},
        {"uri": "x:1"},
        {},
    ],
)
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_result_that_is_odd(shelves: Bench, result: Any, era: str) -> None:
    """It reaches the agent of either era as an answer."""
    await shelves.up(server := Shelves("s", era=era))
    agent = legacy(shelves)
    agent.ask("resources/read", {"uri": "x:1"}, id=5)
    agent.modern("resources/read", {"uri": "x:1"}, id=6)
    for number in (1, 2):
        server.answer(await server.got("resources/read", number), **result)
    assert "result" in agent.answers(5)[0]
    assert agent.answers(6)[0]["result"]["resultType"] == "complete"


@pytest.mark.parametrize("result", ["5", "[]", '"x"', "null"])
async def test_a_result_that_is_no_object(shelves: Bench, result: str) -> None:
    """It is an error that names the server."""
    await shelves.up(server := Shelves("s"))
    agent = legacy(shelves)
    agent.ask("resources/read", {"uri": "x:1"}, id=5)
    request = await server.got("resources/read")
    server.result(request["id"], json.loads(result))
    [answer] = agent.answers(5)
    assert answer["error"]["code"] == -32603 and "server s" in answer["error"]["message"]


@pytest.mark.parametrize("data", [5, [], {"uri": 5}, {"uri": None}, {"x": 1}, None])
async def test_data_of_an_error(shelves: Bench, data: Any) -> None:
    """What has no URI stays, with whose error it is beside it; what is no object has its place below."""
    await shelves.up(server := Shelves("s"))
    agent = legacy(shelves)
    agent.ask("resources/read", {"uri": "x:1"}, id=5)
    request = await server.got("resources/read")
    server.say({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32602, "message": "m", "data": data}})
    [answer] = agent.answers(5)
    found = answer["error"]["data"]
    assert found.pop("dev.mcphub/error")["kind"] == "server_error"
    assert (answer["error"]["code"], answer["error"]["message"]) == (-32602, "m")
    if isinstance(data, dict) or data is None:
        assert found == (data or {})
    else:
        assert found == {"dev.mcphub/upstream": {"code": -32602, "message": "m", "data": data}}


async def test_a_modern_servers_freshness_is_kept(shelves: Bench) -> None:
    """Its own ttl and scope reach a modern agent once, and no legacy one."""
    await shelves.up(server := Shelves("s", era="modern"))
    agent = legacy(shelves)
    agent.modern("resources/read", {"uri": "x:1"}, id=5)
    server.answer(await server.got("resources/read"), contents=[], ttlMs=7, cacheScope="public")
    assert agent.answers(5)[0]["result"]["ttlMs"] == 7
    agent.ask("resources/read", {"uri": "x:1"}, id=6)
    server.answer(await server.got("resources/read", 2), contents=[], ttlMs=7, cacheScope="public")
    assert agent.answers(6)[0]["result"] == {"contents": []}

"""What agents ask about prompts, resources and completion."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from tests.gateway.bench import Bench
from tests.gateway.shelves import Shelves, legacy, restarted

pytestmark = pytest.mark.anyio

ERAS = ["legacy", "modern"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_prompt_goes_by_its_own_name(shelves: Bench, era: str) -> None:
    """The server sees its own name and the same arguments; the agent the exposed URIs."""
    await shelves.up(server := Shelves("s", era=era))
    agent = legacy(shelves)
    assert agent.ask("prompts/get", {"name": "mcp__s__p", "arguments": {"a": "1"}}, id=5) == []
    request = await server.got("prompts/get")
    assert request["params"]["name"] == "p" and request["params"]["arguments"] == {"a": "1"}
    block = {"type": "resource", "resource": {"uri": "x:9", "text": "t"}}
    server.answer(request, messages=[{"role": "user", "content": block}])
    [answer] = agent.answers(5)
    assert answer["result"]["messages"][0]["content"]["resource"]["uri"] == "mcphub://s/x:9"
    assert "resultType" not in answer["result"]


async def test_a_prompt_in_the_turn_in_which_its_server_connects(shelves: Bench) -> None:
    """Between the connection and the snapshot that tells of it, its prompts are known already."""
    loop, server, asked = asyncio.get_running_loop(), Shelves("s"), anyio.Event()
    agent = legacy(shelves)
    shelves.want(server)

    def look() -> None:
        if not shelves.worker(server).listed:
            loop.call_soon(look)
            return
        assert agent.ask("prompts/get", {"name": "mcp__s__p"}, id=5) == []
        asked.set()

    loop.call_soon(look)
    await asked.wait()
    server.answer(await server.got("prompts/get"), messages=[])
    assert agent.answers(5)[0]["result"] == {"messages": []}


@pytest.mark.parametrize("view", ["", "s"])
async def test_requests_to_a_server_in_its_first_attempt(shelves: Bench, view: str) -> None:
    """They wait for the server that a name or URI names, and are sent then; what nobody may have is refused at once."""
    shelves.want(server := Shelves("s", hold=True))
    agent = shelves.agent()
    agent.session.view = view
    agent.initialize()
    prompt, uri = ("p", "x:1") if view else ("mcp__s__p", "mcphub://s/x:1")
    for mid, params in enumerate(({"name": prompt}, {"name": f"{prompt}x"})):
        assert agent.ask("prompts/get", params, id=mid) == []
    assert agent.ask("resources/read", {"uri": uri}, id=2) == []
    reference = {"ref": {"type": "ref/prompt", "name": prompt}, "argument": {"name": "a", "value": ""}}
    assert agent.ask("completion/complete", reference, id=3) == []
    if not view:
        assert agent.error("prompts/get", {"name": "mcp__t__p"}, id=9)[0] == -32602
        assert agent.error("resources/read", {"uri": "x:1"}, id=9)[0] == -32602
    server.let_go()
    server.answer(await server.got("prompts/get"), messages=[])
    server.answer(await server.got("resources/read"), contents=[])
    server.answer(await server.got("completion/complete"), completion={"values": []})
    assert agent.answers(0)[0]["result"] == {"messages": []}
    assert all("result" in agent.answers(mid)[0] for mid in (2, 3))
    assert "unknown prompt" in agent.answers(1)[0]["error"]["message"]


async def test_requests_to_a_server_whose_first_attempt_fails(shelves: Bench) -> None:
    """They are told so then, as all that comes later."""
    shelves.want(server := Shelves("s", hold=True))
    await server.got("server/discover")
    agent = legacy(shelves)
    assert agent.ask("prompts/get", {"name": "mcp__s__p"}, id=1) == []
    assert agent.ask("resources/read", {"uri": "mcphub://s/x:1"}, id=2) == []
    server.lose("gone")
    await shelves.until(lambda: bool(agent.answers(2)))
    for mid in (1, 2):
        [answer] = agent.answers(mid)
        assert answer["error"]["data"]["dev.mcphub/error"]["kind"] == "unavailable"
        assert "s is down" in answer["error"]["message"]


@pytest.mark.parametrize("uri", ["x:1", "mcphub://s/x:1", "mcphub://s/anything"])
async def test_a_resource_by_either_uri(shelves: Bench, uri: str) -> None:
    """B55, B56: the exposed form, or the server's own where one server has it."""
    await shelves.up(server := Shelves("s"))
    agent = shelves.agent()
    agent.modern("resources/read", {"uri": uri}, id=5)
    request = await server.got("resources/read")
    own = uri.removeprefix("mcphub://s/")
    assert request["params"] == {"uri": own}
    server.answer(request, contents=[{"uri": own, "text": "t"}, {"uri": own + "/part", "text": "u"}])
    [answer] = agent.answers(5)
    assert [c["uri"] for c in answer["result"]["contents"]] == ["mcphub://s/" + own, f"mcphub://s/{own}/part"]
    assert answer["result"]["ttlMs"] == 0 and answer["result"]["cacheScope"] == "private"


async def test_a_uri_of_two_servers(shelves: Bench) -> None:
    """B56: the refusal names both exposed forms; each of them reaches its own server."""
    await shelves.up(one := Shelves("a"), two := Shelves("b"))
    agent = legacy(shelves)
    code, text = agent.error("resources/read", {"uri": "x:1"})
    assert code == -32602 and "mcphub://a/x:1" in text and "mcphub://b/x:1" in text
    agent.ask("resources/read", {"uri": "mcphub://b/x:1"}, id=5)
    await two.got("resources/read")
    assert one.of("resources/read") == []


@pytest.mark.parametrize("method", ["prompts/get", "resources/read", "completion/complete"])
@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"name": 5, "uri": 5, "ref": 5},
        {"name": None, "uri": None, "ref": None},
        {"name": "nope", "uri": "nope:", "ref": {}},
        {"name": "x" * 100_000, "uri": "x" * 100_000, "ref": {"type": "x" * 100_000}},
        {"ref": {"type": "ref/prompt", "name": ["x"]}},
        {"ref": {"type": "ref/resource"}},
        {"ref": {"type": "ref/prompt", "name": "nope"}},
    ],
)
async def test_params_that_lead_nowhere(shelves: Bench, method: str, params: Any) -> None:
    """A refusal that is short, at once, and the next request is served."""
    await shelves.up(Shelves("s"))
    agent = legacy(shelves)
    code, text = agent.error(method, params)
    assert code == -32602 and len(text) < 1000
    assert agent.one("ping")["result"] == {}


@pytest.mark.parametrize(
    "line", ['{"ref":{"type":"ref/prompt","name":"mcp__s__p","x":1e999}}', '{"uri":"x:1","y":1e999}']
)
async def test_numbers_that_no_float_holds(shelves: Bench, line: str) -> None:
    """They cross unread, or are refused; nothing breaks."""
    await shelves.up(Shelves("s"))
    agent = legacy(shelves)
    for method in ("resources/read", "completion/complete"):
        agent.write(f'{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{line}}}')
    assert agent.one("ping")["result"] == {}


async def test_a_resource_that_is_not_there(shelves: Bench) -> None:
    """The error has the exposed URI, whatever the era's code for it; other data keeps its bytes."""
    await shelves.up(server := Shelves("s"))
    agent = shelves.agent()
    agent.modern("resources/read", {"uri": "mcphub://s/x:7"}, id=5)
    server.refuse(await server.got("resources/read"), -32002, "not found", uri="x:7")
    [answer] = agent.answers(5)
    data = answer["error"]["data"]
    assert answer["error"]["code"] == -32602 and data.pop("dev.mcphub/error")["layer"] == "server"
    assert data == {"uri": "mcphub://s/x:7"}


async def test_completion(shelves: Bench) -> None:
    """Both kinds of reference go by the server's own name; the context goes along, but to a server too old for it."""
    await shelves.up(server := Shelves("s", templates=("x:{a}",)))
    agent = legacy(shelves)
    refs = [
        ({"type": "ref/prompt", "name": "mcp__s__p"}, {"type": "ref/prompt", "name": "p"}),
        ({"type": "ref/resource", "uri": "mcphub://s/x:{a}"}, {"type": "ref/resource", "uri": "x:{a}"}),
    ]
    for number, (ref, own) in enumerate(refs, 1):
        more = {"argument": {"name": "a", "value": "v"}, "context": {"arguments": {}}}
        agent.ask("completion/complete", {"ref": ref, **more}, id=number)
        request = await server.got("completion/complete", number)
        assert request["params"] == {"ref": own, **more}
        server.answer(request, completion={"values": ["v1"]})
        assert agent.answers(number)[0]["result"] == {"completion": {"values": ["v1"]}}


async def test_a_server_without_completion(shelves: Bench) -> None:
    """It is not asked."""
    await shelves.up(server := Shelves("s", offers={"prompts": {}}))
    agent = legacy(shelves)
    code, text = agent.error("completion/complete", {"ref": {"type": "ref/prompt", "name": "mcp__s__p"}})
    assert code == -32601 and "s" in text and server.of("completion/complete") == []


async def test_a_server_that_is_down(shelves: Bench) -> None:
    """B92: the refusal names it; nothing waits."""
    await shelves.up(server := Shelves("s"))
    agent = legacy(shelves)
    server.refuses = True
    server.lose("gone")
    await shelves.until(lambda: shelves.worker(server).client is None)
    code, text = agent.error("resources/read", {"uri": "mcphub://s/x:1"})
    assert code == -32603 and "s" in text


async def test_cancel_and_loss(shelves: Bench) -> None:
    """A cancelled request is cancelled there and gets no answer; one whose reply is lost is sent again."""
    await shelves.up(server := Shelves("s"))
    agent = legacy(shelves)
    agent.ask("resources/read", {"uri": "x:1"}, id=5)
    request = await server.got("resources/read")
    agent.notify("notifications/cancelled", {"requestId": 5})
    await server.got("notifications/cancelled")
    server.answer(request, contents=[])
    assert agent.answers(5) == []
    agent.ask("resources/read", {"uri": "x:1"}, id=6)
    await server.got("resources/read", 2)
    await restarted(shelves, server)
    server.answer(await server.got("resources/read", 3), contents=[])
    [answer] = agent.answers(6)
    assert answer["result"] == {"contents": []}

"""The old error by which a server says that a page must be opened first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.gateway.url_steps import MAX_STEPS, declined, read_steps
from mcphub.protocol.jsonrpc import Raw
from tests.gateway.bench import META, Agent, Bench, Message
from tests.gateway.shelves import Shelves, legacy

pytestmark = pytest.mark.anyio

STEP = {"mode": "url", "url": "https://x.test/?t=1", "elicitationId": "e1", "message": "Sign in"}
SCRIPT = {**STEP, "url": "javascript:alert(1)", "elicitationId": "e2"}
ABLE: Message = {"elicitation": {"form": {}, "url": {}}}
REQUESTS = pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "mcp__s__t"}),
        ("prompts/get", {"name": "mcp__s__p"}),
        ("resources/read", {"uri": "mcphub://s/x:1"}),
    ],
)


@pytest.fixture
async def server(shelves: Bench) -> Shelves:
    await shelves.up(server := Shelves("s"))
    return server


def modern(agent: Agent, method: str, params: Message, declared: Message, id: int = 1) -> list[Message]:
    found: list[Message] = agent.modern(method, params, id=id, meta={META + "clientCapabilities": declared})
    return found


def step(**more: Any) -> Any:
    return {**STEP, **more}


@pytest.mark.parametrize(
    ("data", "urls"),
    [
        ({"elicitations": [STEP]}, ["https://x.test/?t=1"]),
        ({"elicitations": [SCRIPT, STEP, step(url=" https://x"), step(url="file:///x")]}, ["https://x.test/?t=1"]),
        ({"elicitations": [5, {}, step(url=5), step(message=None), {**STEP, "elicitationId": 5}]}, []),
        ({"elicitations": 5}, []),
        ({}, []),
        (5, []),
        ({"elicitations": [STEP] * 100}, ["https://x.test/?t=1"] * MAX_STEPS),
    ],
)
def test_steps(data: Any, urls: list[str]) -> None:
    """B46, B47: pages of the web, a bounded number, each with who asks; anything else is left out."""
    found = read_steps(Raw(json.dumps(data).encode()), "s")
    assert [one.url for one in found] == urls
    assert {one.message for one in found} <= {"[s] Sign in"}


def test_no_data() -> None:
    """An error without any names no page."""
    assert read_steps(Raw(b""), "s") == [] == read_steps(Raw(b'{"elicitations":' + b"[" * 5000), "s")


@pytest.mark.parametrize(
    ("responses", "found"),
    [
        ({"page1": {"action": "accept"}}, False),
        ({"page1": {"action": "accept"}, "page2": {"action": "decline"}}, True),
        ({"page1": {"action": "cancel"}}, True),
        ({}, False),
        (5, False),
    ],
)
def test_declined(responses: Any, found: bool) -> None:
    """One page that is not wanted is enough."""
    assert declined(Raw(json.dumps(responses).encode())) is found


@REQUESTS
async def test_an_agent_that_knows_the_error(
    shelves: Bench, server: Shelves, method: str, params: dict[str, str]
) -> None:
    """B45 to 47: it gets the error, with the server named and only pages of the web."""
    agent = legacy(shelves, ABLE)
    agent.ask(method, params, id=1)
    server.refuse(await server.got(method), -32042, "Login needed", elicitations=[SCRIPT, {**STEP, "x": 1}], y=SCRIPT)
    error = agent.answers(1)[0]["error"]
    assert error["code"] == -32042
    assert error["message"] == "the server s needs a page to be opened in a browser first: Login needed"
    [step] = error["data"]["elicitations"]
    assert step == {**STEP, "message": "[s] Sign in", "elicitationId": step["elicitationId"]}
    assert step["elicitationId"] not in ("", "e1"), "another server may have the same id"


@pytest.mark.parametrize(
    ("declared", "version", "steps", "why"),
    [
        ({}, "2025-11-25", [STEP], "did not declare elicitation.url"),
        ({"elicitation": {}}, "2025-11-25", [STEP], "did not declare elicitation.url"),
        (ABLE, "2025-06-18", [STEP], "did not declare elicitation.url"),
        (ABLE, "2025-11-25", [SCRIPT], "it named no page of the web"),
        (ABLE, "", [SCRIPT], "it named no page of the web"),
        ({"elicitation": {}}, "", [STEP], "did not declare elicitation.url"),
    ],
)
async def test_an_agent_that_cannot_have_it(
    shelves: Bench, server: Shelves, declared: Message, version: str, steps: list[Message], why: str
) -> None:
    """B47: a clear text instead, and no URL at all."""
    if version:
        agent = legacy(shelves, declared, version)
        agent.ask("tools/call", {"name": "mcp__s__t"}, id=1)
    else:
        modern(agent := shelves.agent(), "tools/call", {"name": "mcp__s__t"}, declared)
    server.refuse(await server.call(), -32042, "Login needed", elicitations=steps)
    [answer] = agent.answers(1)
    assert answer["error"]["code"] == -32603
    assert answer["error"]["message"].startswith("the server s needs a page to be opened in a browser first: Login")
    assert why in answer["error"]["message"]
    assert answer["error"]["data"]["dev.mcphub/error"]["kind"] == "needs_page"
    assert "javascript" not in json.dumps(answer) and "x.test" not in json.dumps(answer)


@REQUESTS
async def test_a_modern_agent_is_asked(shelves: Bench, server: Shelves, method: str, params: dict[str, str]) -> None:
    """B45: it never sees the code; when it comes again the server gets another call, unless a person did not
    want to."""
    agent = shelves.agent()
    modern(agent, method, params, ABLE)
    server.refuse(await server.got(method), -32042, "Login needed", elicitations=[STEP, SCRIPT])
    result = agent.answers(1)[0]["result"]
    assert result["resultType"] == "input_required"
    page = {"mode": "url", "url": STEP["url"], "message": "[s] Sign in"}
    assert result["inputRequests"] == {"page1": {"method": "elicitation/create", "params": page}}
    modern(agent, method, {**params, "inputResponses": {"page1": {"action": "accept"}}}, ABLE, 2)
    again = await server.got(method, 2)
    assert "inputResponses" not in again["params"]
    server.refuse(again, -32042, "Login needed", elicitations=[STEP])
    assert agent.answers(2)[0]["result"]["resultType"] == "input_required"
    modern(agent, method, {**params, "inputResponses": {"page1": {"action": "decline"}}}, ABLE, 3)
    [answer] = agent.answers(3)
    assert "that was declined" in json.dumps(answer)
    assert (answer["result"]["isError"] if method == "tools/call" else answer["error"]["code"] == -32602) is True
    assert len(server.of(method)) == 2


async def test_a_modern_server_does_not_know_the_error(shelves: Bench) -> None:
    """Whatever it means by it, its agent gets a text."""
    await shelves.up(server := Shelves("s", era="modern"))
    modern(agent := shelves.agent(), "tools/call", {"name": "mcp__s__t"}, ABLE)
    server.refuse(await server.call(), -32042, "Login needed", elicitations=[STEP])
    assert agent.answers(1)[0]["error"]["code"] == -32603


async def test_completion_has_no_rounds(shelves: Bench, server: Shelves) -> None:
    """Only what may ask becomes a question."""
    params = {"ref": {"type": "ref/prompt", "name": "mcp__s__p"}, "argument": {"name": "a", "value": "x"}}
    modern(agent := shelves.agent(), "completion/complete", params, ABLE)
    server.refuse(await server.got("completion/complete"), -32042, "Login needed", elicitations=[STEP])
    assert agent.answers(1)[0]["error"]["code"] == -32603

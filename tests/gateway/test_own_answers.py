"""What mcphub itself knows the answer to, and what of an agent's answers goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mcphub.gateway.own_answers import merged, own_answer
from mcphub.gateway.roots_allowed import RootsAllowed
from mcphub.protocol.jsonrpc import EMPTY, Raw
from mcphub.spec import ServerSpec
from tests.gateway.bench import META, Bench, Message
from tests.gateway.shelves import FORM, Shelves, asked, legacy, reply

ROOTS = b'[{"uri":"file:///w"}]'
QUESTION = {"method": "elicitation/create", "params": FORM}
LIST_ROOTS = {"method": "roots/list"}
YES = {"action": "accept", "content": {"n": 1}}
OWN = {"roots": [{"uri": "file:///srv/work"}]}


class Here(Shelves):
    """A server that belongs to a workspace."""

    @property
    def spec(self) -> ServerSpec:
        return replace(super().spec, workspace="/srv/work")


def test_what_is_known() -> None:
    """The roots of its workspace, where the agent has none of its own to tell."""
    assert json.loads(own_answer("roots/list", {}, ROOTS)) == {"roots": [{"uri": "file:///w"}]}
    assert own_answer("roots/list", {"roots": {}}, ROOTS) == b""
    assert own_answer("roots/list", {}, b"[]") == b""
    assert own_answer("elicitation/create", {}, ROOTS) == b""


@pytest.mark.parametrize(
    ("responses", "own", "result", "refused"),
    [
        (b"", {}, b"", 0),
        (b'{"a": {"action":"accept"}}', {}, b'{"a": {"action":"accept"}}', 0),
        (b'{"a":{"x":1.0}}', {"b": Raw(b'{"roots":[]}')}, b'{"a":{"x":1.0},"b":{"roots":[]}}', 0),
        (b"", {"b": Raw(b'{"roots":[]}')}, b'{"b":{"roots":[]}}', 0),
        (b'{"b":{"roots":[{"uri":"file:///"}]}}', {"b": Raw(b'{"roots":[]}')}, b'{"b":{"roots":[]}}', 1),
        (b'{"a":{"roots":[{"uri":"file:///etc"}]}, "b":5}', {}, b'{"a":{"roots":[]},"b":5}', 1),
        (b'{"a":{"roots":[{"uri":"file:///srv/x"}]} }', {}, b'{"a":{"roots":[{"uri":"file:///srv/x"}]} }', 0),
        (b"[1]", {}, b"[1]", 0),
    ],
)
def test_what_goes_on(responses: bytes, own: dict[str, Raw], result: bytes, refused: int) -> None:
    """Answers keep their bytes unless there is something to add or to leave out; mcphub's own cannot be replaced."""
    assert merged(Raw(responses) if responses else EMPTY, own, RootsAllowed(["/srv"]), "") == (result, refused)


async def asks(server: Shelves, number: int = 1, **requests: Any) -> Message:
    """Its `number`th call is answered by a round of these questions."""
    request = await server.call(number)
    server.result(request["id"], {"resultType": "input_required", "inputRequests": requests, "requestState": "s"})
    return request


def me(declared: Message) -> Message:
    return {META + "clientCapabilities": declared, META + "clientInfo": {"name": "me", "version": "1"}}


@pytest.mark.anyio
async def test_partial_answers(shelves: Bench) -> None:
    """The agent sees the rest alone; what mcphub answered comes back in the seal, and the server gets both."""
    await shelves.up(server := Here("s", era="modern"))
    agent, meta = shelves.agent("/srv/work"), me({"elicitation": {"form": {}}})
    agent.modern("tools/call", {"name": "mcp__s__t"}, id=1, meta=meta)
    await asks(server, k=QUESTION, r=LIST_ROOTS)
    given = agent.answers(1)[0]["result"]
    assert list(given["inputRequests"]) == ["k"] and "srv" not in json.dumps(given)
    answers = {"k": YES, "r": {"roots": [{"uri": "file:///"}]}}
    params = {"name": "mcp__s__t", "requestState": given["requestState"], "inputResponses": answers}
    agent.modern("tools/call", params, id=2, meta=meta)
    again = (await server.call(2))["params"]
    assert again["inputResponses"] == {"k": YES, "r": OWN} and again["requestState"] == "s"


@pytest.mark.anyio
async def test_all_of_them_are_known(shelves: Bench) -> None:
    """Then the agent, which can answer nothing, gets a state alone; a legacy one notices nothing at all."""
    await shelves.up(server := Here("s", era="modern"))
    agent = shelves.agent("/srv/work")
    agent.modern("tools/call", {"name": "mcp__s__t"}, id=1)
    await asks(server, r=LIST_ROOTS)
    given = agent.answers(1)[0]["result"]
    assert given["resultType"] == "input_required" and "inputRequests" not in given
    agent.modern("tools/call", {"name": "mcp__s__t", "requestState": given["requestState"]}, id=2)
    assert (await server.call(2))["params"]["inputResponses"] == {"r": OWN}
    old = legacy(shelves, {})
    old.ask("tools/call", {"name": "mcp__s__t"}, id=5)
    await asks(server, 3, r=LIST_ROOTS)
    assert (await server.call(4))["params"]["inputResponses"] == {"r": OWN}
    assert old.of("roots/list") == [] and old.answers(5) == []


@pytest.mark.anyio
async def test_a_legacy_agent_is_asked_for_the_rest(shelves: Bench) -> None:
    """Its own answer and mcphub's go into one retry."""
    await shelves.up(server := Here("s", era="modern"))
    agent = legacy(shelves, {"elicitation": {}})
    agent.ask("tools/call", {"name": "mcp__s__t"}, id=1)
    await asks(server, k=QUESTION, r=LIST_ROOTS)
    reply(agent, asked(agent), YES)
    assert (await server.call(2))["params"]["inputResponses"] == {"r": OWN, "k": YES}


@pytest.mark.anyio
async def test_an_agents_own_roots(shelves: Bench, tmp_path: Path) -> None:
    """One that declared roots is asked for them, and of what it says only that goes on which may be told."""
    await shelves.up(server := Here("s", era="modern"))
    agent, meta = shelves.agent(str(tmp_path)), me({"roots": {}})
    agent.modern("tools/call", {"name": "mcp__s__t"}, id=1, meta=meta)
    await asks(server, r=LIST_ROOTS)
    given = agent.answers(1)[0]["result"]
    assert given["inputRequests"] == {"r": LIST_ROOTS}
    mine, other = {"uri": tmp_path.as_uri()}, {"uri": "file:///etc"}
    answers = {"r": {"roots": [mine, other]}}
    params = {"name": "mcp__s__t", "requestState": given["requestState"], "inputResponses": answers}
    agent.modern("tools/call", params, id=2, meta=meta)
    assert (await server.call(2))["params"]["inputResponses"] == {"r": {"roots": [mine]}}
    assert shelves.gateway.counters["refused_roots"] == 1

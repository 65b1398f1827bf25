"""How an agent is asked to send its person to mcphub's own page."""

from __future__ import annotations

import json

import pytest

from mcphub.gateway.invitation import KEY, NO, YES, can_be_asked, invite, not_yet, taken_out
from mcphub.protocol.jsonrpc import Raw

PAGE = "http://127.0.0.1:9/sign-in/abc"


@pytest.mark.parametrize(
    ("modern", "version", "declared", "able"),
    [
        (True, "", {"elicitation": {"url": {}}}, True),
        (True, "", {"elicitation": {"form": {}}}, False),
        (True, "", {"elicitation": {}}, False),
        (True, "", {}, False),
        (False, "2025-11-25", {"elicitation": {"url": {}}}, True),
        (False, "2025-06-18", {"elicitation": {"url": {}}}, False),
        (False, "2025-11-25", {"elicitation": {}}, False),
    ],
)
def test_who_can_be_asked(modern: bool, version: str, declared: dict[str, object], able: bool) -> None:
    """Agents of a version that knows pages, which declared that they can show them."""
    assert can_be_asked(modern, version, declared) is able


def test_what_an_agent_gets() -> None:
    """A legacy one the error -32042 with one page, a modern one a question; both name the server and what to do."""
    legacy = json.loads(invite(b"7", "far", PAGE, False))
    assert (legacy["id"], legacy["error"]["code"]) == (7, -32042)
    assert "mcphub login far" in legacy["error"]["message"]
    [step] = legacy["error"]["data"]["elicitations"]
    assert (step["mode"], step["url"], step["elicitationId"]) == ("url", PAGE, "abc")
    modern = json.loads(invite(b'"x"', "far", PAGE, True))
    assert (modern["id"], modern["result"]["resultType"]) == ("x", "input_required")
    question = modern["result"]["inputRequests"][KEY]
    assert question == {
        "method": "elicitation/create",
        "params": {"mode": "url", "url": PAGE, "message": step["message"]},
    }
    assert step["message"].startswith("[far] needs you to sign in")
    assert "mcphub login far" in not_yet("far")


@pytest.mark.parametrize(
    ("responses", "rest", "answer"),
    [
        ('{"a":{"action":"accept"}}', '{"a":{"action":"accept"}}', ""),
        (f'{{"{KEY}":{{"action":"accept"}}}}', "", YES),
        (f'{{"{KEY}":{{"action":"decline"}}}}', "", NO),
        (f'{{"{KEY}":{{"action":"cancel"}},"a":{{"x":1.0}}}}', '{"a":{"x":1.0}}', NO),
        (f'{{"{KEY}":7}}', "", YES),
        (f'{{"a":"{KEY}"}}', f'{{"a":"{KEY}"}}', ""),
        (f'["{KEY}"]', f'["{KEY}"]', ""),
        ("{", "{", ""),
    ],
)
def test_what_was_answered(responses: str, rest: str, answer: str) -> None:
    """Our own question is answered to us, and never to the server; all else stays as it is."""
    found = taken_out(Raw(responses.encode()))
    assert (bytes(found[0]).decode(), found[1]) == (rest, answer)

"""What a session must be again: there and back, and what is said of requests that nobody answers any more."""

from __future__ import annotations

import json

import msgspec
import pytest

from mcphub.gateway.standing import Owed, Standing, decoded, encoded, unknown_outcome


def test_there_and_back() -> None:
    """Nothing is lost on the way to the next daemon."""
    standing = Standing({"protocolVersion": "x"}, "debug", ["a"], {'"l"': {"toolsListChanged": True}}, [Owed("1", "t")])
    assert decoded(encoded(standing)) == standing
    assert decoded(encoded(Standing())) == Standing()


@pytest.mark.parametrize("data", [b"", b"[]", b'{"owed":[5]}', b'{"listens":[]}', b"\xff"])
def test_what_is_none(data: bytes) -> None:
    """It is refused, not guessed."""
    with pytest.raises(msgspec.DecodeError):
        decoded(data)


@pytest.mark.parametrize(("read_only", "kind"), [(True, "lost"), (False, "outcome_unknown")])
def test_what_is_said(read_only: bool, kind: str) -> None:
    """The id is what it was, the kind is for programs, the text says what to do."""
    answer = json.loads(unknown_outcome(Owed('"a"', "tools/call t", read_only)))
    assert (answer["id"], answer["error"]["code"]) == ("a", -32603)
    assert answer["error"]["data"]["dev.mcphub/error"]["kind"] == kind
    assert "tools/call t" in answer["error"]["message"] and "again" in answer["error"]["message"]
    assert "operationId" not in answer["error"]["data"]["dev.mcphub/error"]


def test_the_operation() -> None:
    """Where the outcome journal has it, its id is there, for programs and for people."""
    error = json.loads(unknown_outcome(Owed('"a"', "tools/call t"), "op_0000000a1"))["error"]
    assert error["data"]["dev.mcphub/error"]["operationId"] == "op_0000000a1"
    assert error["message"].endswith("(what was sent: mcphub calls op_0000000a1)")


def test_whose_it_was() -> None:
    """The server is named for programs; what no server had got can be made again."""
    error = json.loads(unknown_outcome(Owed("1", "t", server="db")))["error"]["data"]["dev.mcphub/error"]
    assert (error["kind"], error["server"]) == ("outcome_unknown", "db")
    error = json.loads(unknown_outcome(Owed("1", "a request", server="db", unsent=True)))["error"]
    found = error["data"]["dev.mcphub/error"]
    assert (found["kind"], found["server"]) == ("stopping", "db") and "nothing of it was sent" in error["message"]


def test_what_programs_get() -> None:
    """The tool under its server's name, and the trace; a call that was not sent is answered as its model sees it."""
    owed = Owed("1", "tools/call mcp__db__get", True, "db", "mcp__db__get", trace="ab" * 16, own_name="get", first=True)
    error = json.loads(unknown_outcome(owed))["error"]
    assert error["message"].endswith("it was not sent, or its tool only reads, so it can be called again")
    found = error["data"]["dev.mcphub/error"]
    assert (found["kind"], found["tool"], found["traceId"], found["retryable"]) == ("lost", "get", "ab" * 16, True)
    unsent = Owed("1", "a request", server="db", tool="mcp__db__get", unsent=True, own_name="get", modern=True)
    result = json.loads(unknown_outcome(unsent))["result"]
    assert result["isError"] and result["resultType"] == "complete"
    found = result["_meta"]["dev.mcphub/error"]
    assert (found["kind"], found["tool"], found["retryable"]) == ("stopping", "get", True)

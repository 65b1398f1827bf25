"""What a legacy server is told of an agent's capabilities, which session makes room, and doing without one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.connection import capability_sets
from mcphub.connection.capability_sets import Without, declared, makes_room, without
from mcphub.spec import HttpSpec, OAuthSpec, Origin, Scope, Secret, ServerSpec


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, b"{}"),
        ({"elicitation": {}}, b'{"elicitation":{}}'),
        ({"elicitation": {"form": {}}}, b'{"elicitation":{}}'),
        ({"elicitation": {"form": {}, "url": {}}}, b'{"elicitation":{}}'),
        ({"elicitation": {"url": {}}}, b"{}"),
        ({"elicitation": None, "roots": False, "sampling": None}, b"{}"),
        ({"elicitation": True, "sampling": 1}, b'{"elicitation":{},"sampling":{}}'),
        ({"roots": {"listChanged": True}, "elicitation": {}}, capability_sets.SHARED),
        ({"sampling": {}, "roots": {}, "elicitation": {}}, capability_sets.WITH_SAMPLING),
        ({"sampling": {"context": {}}}, b'{"sampling":{}}'),
        ({"sampling": {"tools": {}, "context": {}}}, b'{"sampling":{"tools":{}}}'),
        ({"tasks": {"list": {}}, "experimental": {"x": {}}, "extensions": {"y": {}}}, b"{}"),
    ],
    ids=range(12),
)
def test_what_a_server_is_told(said: dict[str, Any], told: bytes) -> None:
    """C061: of an agent's capabilities what the hub carries, in one order; elicitation is always exactly `{}`."""
    assert declared(said) == told


@pytest.mark.parametrize(
    ("sessions", "closed"),
    [
        ([], None),
        ([(b"a", 1.0, True), (b"b", 2.0, True)], None),
        ([(b"a", 3.0, False), (b"b", 2.0, False), (b"c", 1.0, True)], b"b"),
    ],
    ids=["none", "all busy", "the oldest idle one"],
)
def test_which_session_makes_room(sessions: list[tuple[bytes, float, bool]], closed: bytes | None) -> None:
    """The idle one that was not used for longest; one with a call is never closed."""
    assert makes_room(sessions) == closed


@pytest.mark.parametrize(
    ("kind", "known", "attempt"),
    [
        ("refused", Without.FOR_GOOD, Without.FOR_GOOD),
        ("older", Without.FOR_GOOD, Without.FOR_GOOD),
        ("unreadable", Without.FOR_GOOD, Without.FOR_GOOD),
        ("status", Without.REFUSED, Without.FOR_GOOD),
        ("timeout", Without.REFUSED, Without.FOR_GOOD),
        ("no_response", Without.REFUSED, Without.FOR_GOOD),
        ("needs_auth", Without.REFUSED, Without.FOR_GOOD),
        ("unreachable", Without.REFUSED, Without.THIS_TIME),
        ("tls", Without.REFUSED, Without.THIS_TIME),
        ("lost", Without.REFUSED, Without.THIS_TIME),
        ("rate_limited", Without.REFUSED, Without.THIS_TIME),
        ("spawn", Without.REFUSED, Without.THIS_TIME),
        ("not_found", Without.REFUSED, Without.THIS_TIME),
    ],
)
def test_doing_without(kind: str, known: Without, attempt: Without) -> None:
    """Of a legacy server only a refusal leads to the shared session; where it was an attempt, anything it says does."""
    assert without(kind, True) is known
    assert without(kind, False) is attempt


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"", capability_sets.NOTHING),
        (b"{}", capability_sets.NOTHING),
        (b"5", capability_sets.NOTHING),
        (b'{"elicitation":{"form":{}},"roots":{}}', capability_sets.SHARED),
        (b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}", capability_sets.NOTHING),
    ],
)
def test_what_a_modern_agent_declared(raw: bytes, found: bytes) -> None:
    """B30: it is read as a legacy agent's; what cannot be read declares nothing."""
    assert capability_sets.declared_by(raw) == found


def test_what_a_modern_server_is_told() -> None:
    """B31: forms alone for `{}`; nothing at all where nothing was declared."""
    assert capability_sets.offered({"elicitation": {}}, "2025-11-25") == b'{"elicitation":{"form":{}}}'
    assert capability_sets.offered({"elicitation": 5}, "2025-06-18") == b'{"elicitation":{"form":{}}}'
    assert capability_sets.offered({"elicitation": {}}, "2025-03-26") == b""
    assert capability_sets.offered({}, "2025-11-25") == b""


def _with(oauth: OAuthSpec) -> ServerSpec:
    return ServerSpec("s", Origin(Scope.USER, "/f", "k"), HttpSpec(Secret("https://m.example/mcp"), oauth=oauth))


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        ("oauth", ""),
        ("wif", ""),
        ("xaa", "io.modelcontextprotocol/enterprise-managed-authorization"),
        ("client_credentials", "io.modelcontextprotocol/oauth-client-credentials"),
    ],
)
def test_a_way_to_credentials_is_declared(mode: str, name: str) -> None:
    """A server is told of the extension by which its credentials are had, whatever else is declared."""
    extension = capability_sets.extension_of(_with(OAuthSpec(mode)))
    assert (extension == b"") == (name == "")
    for other in (b"{}", b'{"roots":{}}') if name else ():
        found = json.loads(capability_sets.extended(other, extension))
        assert found == {**json.loads(other), "extensions": {name: {}}}


def test_it_stands_in_the_meta_of_a_request_and_nowhere_else() -> None:
    """What looks like capabilities in an agent's arguments stays as it is."""
    extension = capability_sets.extension_of(_with(OAuthSpec("xaa")))
    key = "io.modelcontextprotocol/clientCapabilities"
    params = f'"arguments":{{"_meta":{{"{key}":{{}}}}}},"_meta":{{"{key}":{{"roots":{{}}}}}}'
    found = json.loads(b"{%b}" % capability_sets.meta_extended(params.encode(), extension))
    assert found["arguments"] == {"_meta": {key: {}}}
    assert list(found["_meta"][key]) == ["extensions", "roots"]
    assert capability_sets.meta_extended(b'"name":"x"', extension) == b'"name":"x"'


@pytest.mark.parametrize("mode", ["", "xaa"])
def test_a_server_that_makes_tasks(mode: str) -> None:
    """B76: it is told that they can be followed, beside whatever else it is told."""
    extension = capability_sets.extension_of(_with(OAuthSpec(mode))) if mode else b""
    names = json.loads(b"{%b}" % capability_sets.with_tasks(extension))["extensions"]
    assert names.pop("io.modelcontextprotocol/tasks") == {} and len(names) == bool(mode)

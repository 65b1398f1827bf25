"""Which questions an agent can be given."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.gateway.askable import (
    Undeclared,
    is_url_mode,
    is_web,
    named,
    read_capabilities,
    refuse_undeclared,
    secrets_in,
)
from mcphub.protocol.jsonrpc import Raw

Question = tuple[str, Any]
FORM: Question = ("elicitation/create", {})
PAGE: Question = ("elicitation/create", {"mode": "url"})
ASK: Question = ("sampling/createMessage", {})
TOOLS: Question = ("sampling/createMessage", {"toolChoice": {}})
ROOTS: Question = ("roots/list", None)


@pytest.mark.parametrize(
    ("declared", "question", "missing"),
    [
        ({"elicitation": {}}, FORM, []),
        ({"elicitation": {"form": {}}}, ("elicitation/create", {"mode": "form"}), []),
        ({"elicitation": {"form": {}}}, ("elicitation/create", {"mode": 5}), []),
        ({"elicitation": {"url": {}}}, PAGE, []),
        ({"elicitation": {"url": {}}}, FORM, ["elicitation.form"]),
        ({"elicitation": {}}, PAGE, ["elicitation.url"]),
        ({}, PAGE, ["elicitation.url"]),
        ({"sampling": {}}, ASK, []),
        ({"sampling": {"tools": {}}}, TOOLS, []),
        ({"sampling": True}, TOOLS, ["sampling.tools"]),
        ({}, ASK, ["sampling"]),
        ({"roots": {}}, ROOTS, []),
        ({}, ROOTS, ["roots"]),
        ({}, ("future/thing", [1]), []),
    ],
)
def test_tables(declared: dict[str, Any], question: Question, missing: list[str]) -> None:
    """B31: `{}` is forms only and plain sampling; methods of another time are not judged."""
    method, params = question
    raw = Raw(b"" if params is None else json.dumps(params).encode())
    if not missing:
        refuse_undeclared([(method, raw)], declared)
        return
    with pytest.raises(Undeclared, match="did not declare " + missing[0].replace(".", "[.]")) as caught:
        refuse_undeclared([(method, raw)], declared)
    assert named(caught.value.missing) == missing


def test_all_that_is_missing() -> None:
    """One error names it."""
    found = [(method, Raw(json.dumps(params or {}).encode())) for method, params in (FORM, PAGE, ASK, TOOLS, ROOTS)]
    with pytest.raises(Undeclared) as caught:
        refuse_undeclared(found, {})
    every: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
    assert caught.value.missing == every
    assert str(caught.value).endswith("elicitation.form, elicitation.url, sampling.tools, roots")


@pytest.mark.parametrize("raw", [b"", b"{}", b"5", b"{", b'{"a":1e999}', b'{"a":' + b"[" * 5000])
def test_declarations_that_say_nothing(raw: bytes) -> None:
    """What cannot be read declares nothing."""
    assert read_capabilities(raw) == {}


@pytest.mark.parametrize(
    ("url", "web"), [("HTTPS://x", True), ("http://x", True), ("javascript:x", False), (" http://x", False)]
)
def test_where_a_person_may_be_sent(url: str, web: bool) -> None:
    """B47: to the web and nowhere else."""
    assert is_web(url) is web


def test_modes() -> None:
    """A mode that is no string is none."""
    assert is_url_mode({"mode": Raw(b'"url"')}) and not is_url_mode({"mode": Raw(b"5")}) and not is_url_mode({})


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["apiKey", "name", "user_password", "SECRET"], ["apiKey", "user_password", "SECRET"]),
        (["access token", "tokens", "passage", "keyboard"], ["access token"]),
        ([f"secret{n}" for n in range(9)], [f"secret{n}" for n in range(5)]),
        ([], []),
    ],
)
def test_fields_that_look_like_secrets(names: list[str], found: list[str]) -> None:
    """By their names, a few of them."""
    params = {"message": "m", "requestedSchema": {"type": "object", "properties": dict.fromkeys(names, {})}}
    assert secrets_in(Raw(json.dumps(params).encode())) == found


NO_FORMS = [b"", b"5", b"{}", b'{"requestedSchema":5}', b'{"requestedSchema":{"properties":[]}}']


@pytest.mark.parametrize("params", NO_FORMS)
def test_forms_that_are_none(params: bytes) -> None:
    """They ask for nothing."""
    assert secrets_in(Raw(params)) == []

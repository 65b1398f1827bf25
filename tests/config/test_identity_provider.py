"""Tables for `xaaIdp`, in managed settings and in settings.toml."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcphub.config.identity_provider import WrittenIdp, read_idp, written_in
from mcphub.config.load import Loaded, load
from mcphub.config.places import Places
from mcphub.config.settings import XaaIdpSettings, awaiting_restart, parse_settings
from mcphub.config.system_places import SystemPlaces
from mcphub.config.trusted_file import Trust
from mcphub.spec import IdpSpec, Origin, Scope, Secret

ORIGIN = Origin(Scope.MANAGED, "/etc/m.json", "xaaIdp", 3)
GOOD: dict[str, Any] = {"issuer": "https://login.example/t", "clientId": "hub"}


def read(value: object) -> tuple[IdpSpec | None, str]:
    return read_idp(WrittenIdp(ORIGIN, value), {"S": "from-env"}, {"kept": "from-vault"}.get)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, {}),
        ({"clientSecret": "s"}, {"client_secret": Secret("s")}),
        ({"clientSecret": "${S}"}, {"client_secret": Secret("from-env")}),
        ({"clientSecret": "${secret:kept}"}, {"client_secret": Secret("from-vault")}),
        ({"callbackPort": 3118}, {"callback_port": 3118, "callback_host": "localhost"}),
        ({"scopes": "email  profile email"}, {"scopes": ("email", "profile")}),
        ({"scopes": ["email"]}, {"scopes": ("email",)}),
        ({"subject": "refresh_token"}, {"subject": "refresh_token"}),
        ({"issuer": "http://127.0.0.1:9/"}, {"issuer": "http://127.0.0.1:9/"}),
    ],
)
def test_what_is_said(more: dict[str, Any], expected: dict[str, Any]) -> None:
    """C119: each key, with its default; an issuer stays the string that it is."""
    base: dict[str, Any] = {"issuer": GOOD["issuer"], "client_id": "hub", "origin": "/etc/m.json"}
    assert read({**GOOD, **more}) == (IdpSpec(**{**base, **expected}), "")


@pytest.mark.parametrize(
    ("value", "place", "cause"),
    [
        (3, "", "expected an object"),
        ({}, ".issuer", "missing"),
        ({"issuer": "https://i/"}, ".clientId", "missing"),
        ({**GOOD, "issuer": "http://login.example"}, ".issuer", "expected an https:// address"),
        ({**GOOD, "issuer": "https://u@login.example"}, ".issuer", "no user"),
        ({**GOOD, "issuer": "https://${S}.example"}, ".issuer", "without ${...}"),
        ({**GOOD, "clientId": 3}, ".clientId", "expected a string"),
        ({**GOOD, "clientSecret": "${UNSET}"}, ".clientSecret", "missing variable UNSET"),
        ({**GOOD, "clientSecret": "${secret:x}"}, ".clientSecret", "mcphub secret set x"),
        ({**GOOD, "callbackPort": 0}, ".callbackPort", "1 to 65535"),
        ({**GOOD, "callbackPort": True}, ".callbackPort", "1 to 65535"),
        ({**GOOD, "scopes": [1]}, ".scopes", "expected scopes"),
        ({**GOOD, "scopes": ["a b"]}, ".scopes", "expected scopes"),
        ({**GOOD, "subject": "password"}, ".subject", "id_token or refresh_token"),
        ({**GOOD, "clientID": "x"}, ".clientID", "unknown key"),
    ],
)
def test_what_is_wrong(value: object, place: str, cause: str) -> None:
    """It names file, line, key and cause; then nobody is signed in there."""
    found, problem = read(value)
    assert found is None
    assert problem.startswith(f"cannot use /etc/m.json:3 xaaIdp{place}: ")
    assert cause in problem
    assert "from-" not in problem


def test_settings() -> None:
    """Nothing said is nothing; what is said is shown without its secret, and counts at once."""
    assert written_in(XaaIdpSettings(), ORIGIN) is None
    text = b'[xaaIdp]\nissuer = "https://i/"\nclientId = "c"\nclientSecret = "hunter-2"\nscopes = "a b"\n'
    text += b"callbackPort = 9\n"
    settings, problems = parse_settings(text, "/s.toml", {})
    assert problems == ()
    assert "hunter-2" not in repr(settings)
    written = written_in(settings.xaa_idp, ORIGIN)
    assert written is not None and "hunter-2" not in repr(written)
    found, _ = read_idp(written, {})
    assert found is not None and "hunter-2" not in repr(found)
    assert (found.scopes, found.callback_port, found.client_secret) == (("a", "b"), 9, "hunter-2")
    assert awaiting_restart(parse_settings(b"", "/s.toml", {})[0], settings) == ()


@pytest.mark.parametrize("wrong", [False, True])
def test_who_wins(tmp_path: Path, wrong: bool) -> None:
    """C119: what administrators say wins over a person's own, also where it cannot be used; a fault there closes no
    rule. Its secret is not to be seen in a log."""
    system = tmp_path / "etc"
    system.mkdir()
    own = tmp_path / "config"
    own.mkdir()
    mine = '[xaaIdp]\nissuer = "https://mine/"\nclientId = "me"\nclientSecret = "hunter-2"\n'
    (own / "settings.toml").write_text(mine)
    administrators = SystemPlaces(str(system), "", "", Trust(os.geteuid(), str(tmp_path)))
    places = Places(str(tmp_path), str(own), str(tmp_path), system=administrators)

    def now(previous: Loaded | None = None) -> Loaded:
        return load("", {}, places, previous=previous)

    first = now()
    assert first.identity_provider is not None and first.identity_provider.issuer == "https://mine/"
    assert "hunter-2" in first.secrets() and "hunter-2" not in repr(first)
    managed = {"xaaIdp": {**GOOD, **({"clientId": ""} if wrong else {})}}
    (system / "managed-settings.json").write_text(json.dumps(managed))
    second = now()
    if wrong:
        assert second.identity_provider is None
        assert "xaaIdp.clientId: missing" in "".join(second.problems())
    else:
        assert second.identity_provider is not None and second.identity_provider.issuer == GOOD["issuer"]
        assert second.problems() == ()

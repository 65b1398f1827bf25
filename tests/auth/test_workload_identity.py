"""Tokens for the token that a workload's platform gave it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphub.auth.discovery import Discovered, Resource
from mcphub.auth.flow import Reply
from mcphub.auth.methods import METHODS
from mcphub.auth.occasion import Occasion
from mcphub.spec import AssertionSpec, OAuthSpec, Secret
from tests.auth.jwts import signed
from tests.auth.stand_in import StandIn, failing
from tests.auth.transcript import NOW, SERVER, account, answered, form_of, header_of

pytestmark = pytest.mark.anyio
GOOD = answered({"access_token": "t", "expires_in": 60})
obtain = METHODS["wif"]


def token(**changes: Any) -> str:
    return signed({"sub": "w", "aud": SERVER.issuer, "exp": NOW + 60} | changes, None, "none")


def occasion(home: StandIn, source: AssertionSpec | None) -> Occasion:
    spec = OAuthSpec(mode="wif", client_id="c", assertion=source)
    return Occasion(account(oauth=spec), Discovered(Resource("https://m.example/mcp"), SERVER), ("a",), home)


async def test_one_request(tmp_path: Path) -> None:
    """SEP-1933: the assertion, client, resource and scope; it is read anew each time, and hidden."""
    home, file = StandIn({SERVER.token_endpoint: GOOD}), tmp_path / "token"
    for number in range(2):
        file.write_text(token(number=number) + "\n")
        found = await obtain(occasion(home, AssertionSpec(file=str(file))))
        assert (found.access_token, found.refresh_token) == ("t", "")
        assert form_of(home.asked[number]) == {
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "assertion": token(number=number),
            "resource": "https://m.example/mcp",
            "scope": "a",
            "client_id": "c",
        }
        assert not header_of(home.asked[number], "Authorization") and token(number=number) in home.hidden


async def test_other_sources() -> None:
    """A variable of the hub's, and what a program prints."""
    home = StandIn({SERVER.token_endpoint: GOOD})
    home.variables, home.output = {"TOKEN": token()}, token(sub="p") + "\n"
    await obtain(occasion(home, AssertionSpec(env="TOKEN")))
    await obtain(occasion(home, AssertionSpec(words=(Secret("print-token"),))))
    assert [form_of(ask)["assertion"] for ask in home.asked] == [token(), token(sub="p")]


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"aud": "https://other.example"}, "is for https://other.example, not for https://as.example: it is not sent"),
        ({"aud": SERVER.issuer + "/"}, "it is not sent"),
        ({"aud": []}, "it is not sent"),
        ({"aud": None}, "it is not sent"),
        ({"exp": NOW}, "has ended"),
    ],
)
async def test_what_would_be_refused_anyway(changes: dict[str, Any], part: str) -> None:
    """It is not sent, above all not to a server that it is not for."""
    home = StandIn({})
    home.variables = {"TOKEN": token(**changes)}
    found = await failing(obtain(occasion(home, AssertionSpec(env="TOKEN"))))
    assert found.reason == "grant_rejected" and part in str(found) and home.asked == []


@pytest.mark.parametrize("error", ["invalid_grant", "invalid_scope", "unauthorized_client", "invalid_client"])
async def test_a_refusal(error: str) -> None:
    """One request: neither the same again nor another grant."""
    reply: list[Reply] = [answered({"error": error}, 400)]
    home = StandIn({SERVER.token_endpoint: reply})
    home.variables = {"TOKEN": token(aud=["x", SERVER.issuer])}
    found = await failing(obtain(occasion(home, AssertionSpec(env="TOKEN"))))
    assert not found.failure.retry and len(home.asked) == 1 and token() not in str(found)


async def test_no_token(tmp_path: Path) -> None:
    """What is missing is named: the entry's key, the variable, the file."""
    home = StandIn({})
    home.variables = {"OPAQUE": "opaque"}
    (tmp_path / "bytes").write_bytes(b"\xff")
    os.mkfifo(tmp_path / "pipe")
    for source, reason, part in (
        (None, "client_required", "oauth.assertion must say"),
        (AssertionSpec(env="NOT_SET"), "client_required", "NOT_SET"),
        (AssertionSpec(env="OPAQUE"), "grant_rejected", "no JWT"),
        (AssertionSpec(words=(Secret("x"),)), "client_required", "printed nothing"),
        (AssertionSpec(file=str(tmp_path / "absent")), "client_required", "absent: No such file"),
        (AssertionSpec(file=str(tmp_path)), "client_required", "Is a directory"),
        (AssertionSpec(file=str(tmp_path / "bytes")), "grant_rejected", "no JWT"),
        (AssertionSpec(file=str(tmp_path / "pipe")), "grant_rejected", "no JWT"),
    ):
        with anyio.fail_after(10):
            found = await failing(obtain(occasion(home, source)))
        assert found.reason == reason and part in str(found), str(found)
    assert home.asked == []
    assert not [name for name in os.listdir("/proc/self/fd") if _leads_to(name, str(tmp_path))]


def _leads_to(name: str, place: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{name}").startswith(place)
    except OSError:
        return False

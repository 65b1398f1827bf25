"""What is kept of a sign-in, when it is renewed, and under which key it is kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.auth.records import (
    IdpSession,
    Registration,
    TokenSet,
    account_of,
    decoded,
    encoded,
    idp_key,
    registration_key,
)
from mcphub.spec import HelperSpec, HttpSpec, OAuthSpec, Origin, Scope, Secret, ServerSpec, SseSpec, StdioSpec, WsSpec
from tests.auth.transcript import NOW, account, spec_of

TOKENS = TokenSet(Secret("s3cret-a"), "https://as.example", "c", "https://as.example/t", obtained_at=NOW)


def lasting(seconds: float) -> TokenSet:
    return msgspec.structs.replace(TOKENS, expires_at=NOW + seconds)


@pytest.mark.parametrize(
    ("life", "after", "due"),
    [
        (3600.0, 0.0, False),
        (3600.0, 3539.0, False),
        (3600.0, 3541.0, True),
        (3600.0, 4000.0, True),
        (30.0, 0.0, False),
        (30.0, 26.9, False),
        (30.0, 27.1, True),
        (20.0, 17.0, False),
        (20.0, 18.5, True),
        (5.0, 4.4, False),
        (5.0, 4.6, True),
        (0.0, 0.0, True),
        (3600.0, -86400.0, False),
        (3600.0, 86400.0, True),
    ],
)
def test_when_it_is_renewed(life: float, after: float, due: bool) -> None:
    """C110: a minute before its end, or a tenth of its lifetime where that is less, so that short ones are not renewed
    for each request; a clock that was put back makes nothing due, one that was put on does."""
    assert lasting(life).due(NOW + after) is due


def test_a_lifetime_that_is_not_known() -> None:
    """C107: it is used until it is refused; one of 0 seconds is over at once."""
    assert not TOKENS.due(NOW + 1e9) and not TOKENS.over(NOW + 1e9)
    assert lasting(0.0).over(NOW) and not lasting(1.0).over(NOW) and lasting(1.0).over(NOW + 1)


def test_registrations_that_end() -> None:
    """Only where the server says so."""
    client = Registration("c", "dcr", "https://as.example", secret_expires_at=NOW)
    assert client.usable(NOW - 1) and not client.usable(NOW)
    assert Registration("c", "dcr", "https://as.example").usable(NOW)


def test_logins_that_end() -> None:
    """S18: a little before the end that the id_token names."""
    login = IdpSession("https://idp.example", "c", Secret("i"), "u", NOW + 100, "https://idp.example/t")
    assert login.usable(NOW) and login.usable(NOW + 69) and not login.usable(NOW + 71)


FULL = [
    msgspec.structs.replace(
        TOKENS,
        resource="https://m.example/mcp",
        token_type="DPoP",
        expires_at=NOW + 5,
        refresh_token=Secret("s3cret-r"),
        requested=("a",),
        granted=("a", "b"),
        revocation_endpoint="https://as.example/r",
        dpop_key=Secret("s3cret-k"),
        client_source="dcr",
        client_method="none",
    ),
    Registration("c", "dcr", "https://as.example/", Secret("s3cret-s"), "client_secret_basic", NOW, ("http://x/y",)),
    IdpSession("https://idp.example", "c", Secret("s3cret-i"), "u", NOW, "https://idp.example/t", Secret("s3cret-r")),
]


@pytest.mark.parametrize("record", FULL, ids=lambda record: type(record).__name__)
def test_they_are_kept_as_they_are(record: Any) -> None:
    """Strings stay what they were: a slash more would make another issuer; secrets stay secrets."""
    found = decoded(encoded(record), type(record))
    assert found == record
    for field, value in msgspec.structs.asdict(record).items():
        assert type(getattr(found, field)) is type(value), field


@pytest.mark.parametrize("record", FULL, ids=lambda record: type(record).__name__)
def test_they_are_not_printed(record: Any) -> None:
    """S12: no secret is in a repr, of whatever it stands in."""
    assert "s3cret" not in repr(record) and "s3cret" not in repr([record]) and "s3cret" not in f"{record}"


@given(st.binary(max_size=100))
def test_what_cannot_be_read(data: bytes) -> None:
    """It is none: a later version may have written it."""
    assert decoded(data, TokenSet) is None
    assert decoded(data, Registration) is None
    assert decoded(data, IdpSession) is None


@pytest.mark.parametrize("data", [b"{}", b"[]", b'{"access_token":5}', b'{"access_token":"x","issuer":[]}', b"\xff{}"])
def test_what_is_nearly_a_record(data: bytes) -> None:
    """Nor where a field is missing or another one's kind."""
    assert decoded(data, TokenSet) is None


def test_fields_of_a_later_version() -> None:
    """What this version does not know does not hide the rest."""
    data = encoded(TOKENS)[:-1] + b',"later":{"x":1}}'
    assert decoded(data, TokenSet) == TOKENS


# -- accounts


def http(**more: Any) -> ServerSpec:
    return msgspec.structs.replace(spec_of(), transport=HttpSpec(Secret("https://m.example/mcp"), **more))


def test_who_has_an_account() -> None:
    """A server at a URL whose entry brings no credentials of its own: a program has those of its environment."""
    origin = Origin(Scope.USER, "/mcp.json", "s")
    url = Secret("https://m.example/mcp")
    assert account_of(http()) is not None
    assert account_of(ServerSpec("s", origin, SseSpec(url))) is not None
    for other in (
        http(headers={"Authorization": Secret("x")}),
        http(headers={"AUTHORIZATION": Secret("x")}),
        http(helper=HelperSpec((Secret("x"),), "x")),
        http(oauth=OAuthSpec(mode="none")),
        ServerSpec("s", origin, HttpSpec(Secret("https://u:p@m.example/mcp"))),
        ServerSpec("s", origin, WsSpec(Secret("wss://m.example/mcp"))),
        ServerSpec("s", origin, StdioSpec(Secret("x"), (), {}, ("x",))),
    ):
        assert account_of(other) is None


def test_what_makes_another_account() -> None:
    """The same name with another configuration has other tokens; what proves who the client is does not."""
    base = account()
    others = [
        account(name="t"),
        account("https://m.example/mcp/"),
        account("https://M.example/mcp"),
        account(oauth=OAuthSpec(client_id="c")),
        account(oauth=OAuthSpec(issuer="https://as.example")),
        account(oauth=OAuthSpec(scopes=("a",))),
        account(oauth=OAuthSpec(mode="xaa")),
        account_of(http(headers={"X-Team": Secret("a")})),
        account_of(http(headers={"X-Team": Secret("b")})),
        account_of(ServerSpec("s", spec_of().origin, SseSpec(Secret("https://m.example/mcp")))),
    ]
    keys = {base.key, *(one.key for one in others if one is not None)}
    assert len(keys) == 1 + len(others)
    assert account(oauth=OAuthSpec(client_secret=Secret("new"), callback_port=9)).key == base.key
    assert len(base.cfg) == 16 and int(base.cfg, 16) >= 0


@pytest.mark.parametrize("name", ["../x", "**", "a/b", "", "ü", "x" * 500, "\udc80"])
def test_names_are_hashed(name: str) -> None:
    """C115: no name is special where credentials are kept."""
    key = account(name=name).key
    assert len(key) == 32 and set(key) <= set("0123456789abcdef")


def test_other_keys() -> None:
    """B86, S15: a registration is one issuer's at one callback, never a server's; a login is one client's."""
    keys = [
        registration_key("https://a.example", "127.0.0.1", 0),
        registration_key("https://a.example/", "127.0.0.1", 0),
        registration_key("https://a.example", "localhost", 0),
        registration_key("https://a.example", "127.0.0.1", 8),
        registration_key("https://a.example1", "27.0.0.1", 0),
        idp_key("https://a.example", "c"),
        idp_key("https://a.example", "d"),
    ]
    assert len(set(keys)) == len(keys)


def test_where_http_is_enough() -> None:
    """S1: for a server on this machine, by its very name."""
    assert account("http://127.0.0.1:8/mcp").plain and account("http://localhost/mcp").plain
    assert not account("http://192.168.1.5/mcp").plain and not account().plain


def test_whose_tokens_they_are() -> None:
    """B59, K5.3: another sign-in, client, issuer, resource or scope is another principal; a renewal, and another order
    of the same scopes, is not; and no token can be read from it."""
    mine = msgspec.structs.replace(TOKENS, sign_in="1", requested=("a", "b"), granted=("a",))
    others: list[dict[str, Any]] = [
        {"sign_in": "2"}, {"client_id": "d"}, {"issuer": "https://other.example"}, {"resource": "https://m.example"},
        {"requested": ("a",)}, {"granted": ("a", "b")},
    ]  # fmt: skip
    same: list[dict[str, Any]] = [
        {"access_token": Secret("new"), "refresh_token": Secret("new"), "obtained_at": NOW + 1, "expires_at": NOW + 2},
        {"requested": ("b", "a")},
    ]
    found = [msgspec.structs.replace(mine, **more).principal for more in (*others, *same)]
    assert len({mine.principal, *found}) == 1 + len(others)
    assert found[len(others) :] == [mine.principal] * 2
    assert mine.principal.isalnum() and len(mine.principal) == 32

"""How this client proves who it is at a token endpoint."""

from __future__ import annotations

import base64
from urllib.parse import unquote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.auth.client_authentication import ASSERTION_TYPE, BASIC, NONE, POST, PRIVATE_KEY, method_of, prove
from mcphub.auth.records import Registration
from mcphub.spec import Secret


def client(secret: str = "", method: str = "", client_id: str = "c") -> Registration:
    return Registration(client_id, "dcr", "https://as.example", Secret(secret), method)


@pytest.mark.parametrize(
    ("registered", "secret", "key", "supported", "method"),
    [
        # What the registration says wins.
        (POST, "s", False, (BASIC,), POST),
        (NONE, "s", False, (BASIC,), NONE),
        (BASIC, "", False, (POST,), BASIC),
        (PRIVATE_KEY, "", True, (BASIC,), PRIVATE_KEY),
        # What no client of ours can do does not.
        ("client_secret_jwt", "s", False, (POST,), POST),
        ("tls_client_auth", "", False, (NONE,), NONE),
        # Else the best of what both sides have.
        ("", "s", True, (POST, BASIC, PRIVATE_KEY), PRIVATE_KEY),
        ("", "s", True, (POST, BASIC), BASIC),
        ("", "s", False, (POST, BASIC), BASIC),
        ("", "s", False, (NONE, POST), POST),
        ("", "", False, (NONE, BASIC), NONE),
        ("", "", False, (BASIC,), NONE),
        ("", "", True, (BASIC,), PRIVATE_KEY),
        # What a server does not say is basic.
        ("", "s", False, None, BASIC),
        ("", "s", False, (), BASIC),
        ("", "s", True, None, BASIC),
        ("", "", False, None, NONE),
        ("", "s", False, (PRIVATE_KEY,), BASIC),
    ],
)
def test_which_method(registered: str, secret: str, key: bool, supported: tuple[str, ...] | None, method: str) -> None:
    """The registration's answer, else private_key_jwt, basic, post, none, of those that the server has."""
    assert method_of(client(secret, registered), supported, key=key) == method


def test_what_is_sent() -> None:
    """A secret stands in one place: in the header or in the form."""
    basic = prove(client("s"), BASIC)
    assert basic.fields == {} and basic.headers == (("Authorization", "Basic Yzpz"),)
    post = prove(client("s"), POST)
    assert (post.fields, post.headers) == ({"client_id": "c", "client_secret": "s"}, ())
    for method in (NONE, BASIC, POST, PRIVATE_KEY):
        public = prove(client(), method)
        assert (public.fields, public.headers) == ({"client_id": "c"}, ())
    assert prove(client("s"), NONE).fields == {"client_id": "c"}


def test_an_assertion() -> None:
    """It is made anew each time."""
    made = iter(["one", "two"])
    proofs = [prove(client(), PRIVATE_KEY, lambda: next(made)) for _ in range(2)]
    assert [proof.fields["client_assertion"] for proof in proofs] == ["one", "two"]
    assert proofs[0].fields["client_assertion_type"] == ASSERTION_TYPE
    assert proofs[0].fields["client_id"] == "c" and proofs[0].headers == ()


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_secret(client_id: str, secret: str) -> None:
    """RFC 6749, 2.3.1: both parts are form-encoded before they are joined, so that any sign comes through."""
    ((name, value),) = prove(client(secret, client_id=client_id), BASIC).headers
    pair = base64.b64decode(value.removeprefix("Basic ")).decode("ascii")
    found = [unquote_plus(part) for part in pair.split(":")]
    assert (name, found) == ("Authorization", [client_id, secret])


def test_nothing_of_it_is_printed() -> None:
    """S12."""
    assert "s3cret" not in repr(prove(client("s3cret"), POST))

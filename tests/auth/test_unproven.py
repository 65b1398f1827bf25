"""What a JWT says before anybody has proved that it is genuine."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcphub.auth.unproven import claims_of, header_of, type_of
from tests.auth.jwts import b64, signed


def test_what_it_says() -> None:
    """Header and claims, whatever the signature is worth; the type in small letters, without the first half of a media
    type."""
    token = signed({"aud": "x"}, None, "none", typ="application/OAuth-ID-JAG+jwt")
    assert (claims_of(token), type_of(token)) == ({"aud": "x"}, "oauth-id-jag+jwt")
    assert header_of(token) == {"alg": "none", "typ": "application/OAuth-ID-JAG+jwt"}
    assert type_of(signed({}, None, "none", typ=5)) == ""


def test_what_is_no_jwt() -> None:
    """An opaque token says nothing."""
    for token in ("", "opaque", "a.b", "a.b.c", "e30.W10.", f"e30.{b64(b'[' * 9000)}.", "e30.\udc80.", "e.e.e.e"):
        assert claims_of(token) is None


@given(st.text(max_size=60))
def test_any_text(token: str) -> None:
    """It is never an error."""
    claims_of(token)
    assert isinstance(type_of(token), str)

"""Whose certificate was refused, and what of it may be shown."""

from __future__ import annotations

import ssl

import pytest

from mcphub.outbound.tls_handshake import TellingHandshake, distinguished, parties


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (((("commonName", "A Server"),),), "CN=A Server"),
        (
            ((("countryName", "XX"),), (("organizationName", "An Ltd"), ("organizationalUnitName", "IT"))),
            "C=XX, O=An Ltd, OU=IT",
        ),
        (((("title", "x"),),), "title=x"),
        ((), "no name"),
        (((("commonName", "a\n\x1b[2J漢"),),), "CN=a\\n\\x1b[2J\\u6f22"),
        (((("commonName", "x" * 500),),), "CN=" + "x" * 117),
    ],
)
def test_names(name: tuple[tuple[tuple[str, str], ...], ...], text: str) -> None:
    """C074: short, escaped and cut: a certificate is the word of whoever answered."""
    assert distinguished(name) == text


def test_what_cannot_be_had() -> None:
    """C074: an error without a certificate says nothing of one, and another failure is left as it is."""
    assert parties(ssl.SSLCertVerificationError()) == ""
    context = ssl.create_default_context()
    context.sslobject_class = TellingHandshake
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="h.example")
    with pytest.raises(ssl.SSLWantReadError) as caught:
        client.do_handshake()
    assert not hasattr(caught.value, "__notes__")

"""Which id_token is believed, against tokens made by hand."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st

from mcphub.auth.failures import SignInFailed
from mcphub.auth.id_token import UnknownKey, check
from mcphub.spec import IdpSpec, Secret
from tests.auth.jwts import PrivateKey, b64, jwk, signed
from tests.auth.transcript import NOW

IDP = IdpSpec("https://idp.example", "mcphub")
RSA, OTHER_RSA = rsa.generate_private_key(65537, 2048), rsa.generate_private_key(65537, 2048)
P256, ED = ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()
CLAIMS = {"iss": IDP.issuer, "sub": "u1", "aud": "mcphub", "exp": NOW + 600, "iat": NOW - 5, "nonce": "n"}


def keys(*found: dict[str, Any]) -> bytes:
    return json.dumps({"keys": list(found)}).encode()


KEYS = keys(
    jwk(OTHER_RSA.public_key(), kid="old", use="sig"),
    jwk(RSA.public_key(), kid="r", use="sig", alg="RS256"),
    jwk(P256.public_key(), kid="e"),
    jwk(ED.public_key(), kid="o"),
    {"kty": "AKP", "alg": "ML-DSA-44", "kid": "new", "pub": "AA"},
)


def look(token: str, jwks: bytes = KEYS, offered: tuple[str, ...] = (), nonce: str = "n") -> tuple[str, float]:
    return check(Secret(token), jwks, IDP, offered, nonce, NOW)


def refused(token: str, jwks: bytes = KEYS, offered: tuple[str, ...] = (), nonce: str = "n") -> str:
    with pytest.raises(SignInFailed) as caught:
        look(token, jwks, offered, nonce)
    assert caught.value.reason == "id_token_invalid" and token not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("key", "alg", "kid"),
    [(RSA, "RS256", "r"), (P256, "ES256", "e"), (ED, "EdDSA", "o"), (ED, "Ed25519", "o"), (OTHER_RSA, "PS256", "old")],
)
def test_a_good_one(key: PrivateKey, alg: str, kid: str) -> None:
    """Every algorithm that proves something; the key is found by its identifier."""
    assert look(signed(CLAIMS, key, alg, kid=kid)) == ("u1", NOW + 600)
    assert look(signed(CLAIMS, key, alg, kid=kid), offered=("HS256", alg)) == ("u1", NOW + 600)


def test_what_a_header_may_hold() -> None:
    """Parameters of a provider's own, long ones too, are let be; critical ones that nobody knows are not (RFC 7515,
    4.1.11)."""
    assert look(signed(CLAIMS, RSA, "RS256", kid="r", **{"pi.atm": "x", "x5c": ["A" * 1600]}))[0] == "u1"
    assert refused(signed(CLAIMS, RSA, "RS256", kid="r", crit=["exp"], exp=1))


PUBLIC = RSA.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)


@pytest.mark.parametrize(
    "token",
    [
        signed(CLAIMS, None, "none"),
        signed(CLAIMS, None, "none", kid="r"),
        signed(CLAIMS, None, "None", kid="r"),
        signed(CLAIMS, PUBLIC, "HS256", kid="r"),
        signed(CLAIMS, b"mcphub", "HS256"),
        signed(CLAIMS, None, "RS256", kid="r"),
        signed(CLAIMS, OTHER_RSA, "RS256", kid="r"),
        signed(CLAIMS, P256, "ES256", kid="r"),
        signed(CLAIMS, RSA, "RS256", kid="e"),
        signed(CLAIMS, RSA, "RS256", kid="r")[:-8] + "AAAAAAAA",
    ],
)
def test_what_proves_nothing(token: str) -> None:
    """S17: no signature, one by a secret that everybody has (the public key), one by another key."""
    refused(token)


def test_what_was_changed() -> None:
    """The claims are what was signed."""
    head, _, signature = signed(CLAIMS, RSA, "RS256", kid="r").split(".")
    refused(f"{head}.{b64(json.dumps(CLAIMS | {'sub': 'admin'}).encode())}.{signature}")


def test_an_algorithm_that_the_provider_does_not_name() -> None:
    """S17: both must have it."""
    assert "proves nothing" in refused(signed(CLAIMS, RSA, "RS256", kid="r"), offered=("ES256",))
    assert "proves nothing" in refused(signed(CLAIMS, PUBLIC, "HS256", kid="r"), offered=("HS256",))


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"iss": "https://idp.example/"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "other"}, "another client"),
        ({"aud": None}, "another client"),
        ({"aud": []}, "another client"),
        ({"aud": "mcphub2"}, "another client"),
        ({"aud": ["other", "mcphub"]}, "another client"),
        ({"aud": ["other", "mcphub"], "azp": "other"}, "another client"),
        ({"exp": NOW - 61}, "has ended"),
        ({"exp": None}, "has ended"),
        ({"exp": str(NOW + 600)}, "has ended"),
        ({"exp": True}, "has ended"),
        ({"exp": float("nan")}, "has ended"),
        ({"exp": float("inf")}, "has ended"),
        ({"exp": 10**400}, "has ended"),
        ({"exp": [NOW + 600]}, "has ended"),
        ({"iat": NOW + 61}, "of the future"),
        ({"iat": None}, "of the future"),
        ({"iat": float("nan")}, "of the future"),
        ({"nonce": "other"}, "another login"),
        ({"nonce": None}, "another login"),
        ({"sub": ""}, "names nobody"),
        ({"sub": None}, "names nobody"),
        ({"sub": 5}, "names nobody"),
    ],
)
def test_claims_that_do_not_fit(changes: dict[str, Any], part: str) -> None:
    """OpenID Connect Core, 3.1.3.7: issuer as a string, audience, times, nonce and subject."""
    claims = {name: value for name, value in (CLAIMS | changes).items() if value is not None}
    assert part in refused(signed(claims, RSA, "RS256", kid="r"))


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW - 59},
        {"iat": NOW + 59},
        {"iat": NOW - 1e6},
        {"aud": ["mcphub"]},
        {"aud": ["other", "mcphub"], "azp": "mcphub"},
        {"nonce": "n", "email": "x", "more": {"a": [1]}},
    ],
)
def test_claims_that_fit(changes: dict[str, Any]) -> None:
    """S18: two clocks may differ by a minute."""
    assert look(signed(CLAIMS | changes, RSA, "RS256", kid="r"))[0] == "u1"


def test_a_login_without_a_nonce() -> None:
    """A renewed one need not have it."""
    claims = {name: value for name, value in CLAIMS.items() if name != "nonce"}
    assert look(signed(claims, RSA, "RS256", kid="r"), nonce="")[0] == "u1"


def test_a_key_that_is_not_known() -> None:
    """The provider may have changed its keys: that is another thing than a bad token."""
    for token in (signed(CLAIMS, RSA, "RS256", kid="newer"), signed(CLAIMS, RSA, "RS256", kid="new")):
        with pytest.raises(UnknownKey):
            look(token)
    for jwks in (b"", b"[]", b"{}", b'{"keys": 5}', b'{"keys": [5]}', keys()):
        with pytest.raises(UnknownKey):
            look(signed(CLAIMS, RSA, "RS256", kid="r"), jwks)


def test_no_identifier() -> None:
    """Then each of the provider's keys is tried, of whatever kind; one alone too."""
    for key, alg in ((RSA, "RS256"), (P256, "ES256"), (OTHER_RSA, "RS256")):
        assert look(signed(CLAIMS, key, alg))[0] == "u1"
    assert look(signed(CLAIMS, RSA, "RS256"), keys(jwk(RSA.public_key())))[0] == "u1"
    assert "signature is wrong" in refused(signed(CLAIMS, ec.generate_private_key(ec.SECP256R1()), "ES256"))


def test_keys_beside_it() -> None:
    """Two with one identifier, and such as cannot be read, hide no other."""
    bad = [{"kty": "RSA", "kid": "r"}, {"kty": "EC", "crv": "P-1", "kid": "r", "x": "AA", "y": "AA"}, {"kid": "r"}]
    jwks = keys(*bad, jwk(OTHER_RSA.public_key(), kid="r"), jwk(RSA.public_key(), kid="r"))
    assert look(signed(CLAIMS, RSA, "RS256", kid="r"), jwks)[0] == "u1"


def test_a_secret_in_the_keys() -> None:
    """S17: a symmetric key there is no key of ours."""
    shared = {"kty": "oct", "k": base64.urlsafe_b64encode(b"s" * 32).decode(), "kid": "s"}
    refused(signed(CLAIMS, b"s" * 32, "HS256", kid="s"), keys(shared))


@pytest.mark.parametrize("token", ["", "x", "a.b", "a.b.c", "....", "e30.e30.", "ü.e30.e30", b64(b"[]") + ".e30.e30"])
def test_what_is_no_token(token: str) -> None:
    """Nothing is raised but our own failure."""
    assert "not valid" in refused(token) if token else refused("no token")


@given(st.text(max_size=60), st.binary(max_size=60))
def test_any_text(token: str, jwks: bytes) -> None:
    """Nor for anything else."""
    with pytest.raises((SignInFailed, UnknownKey)):
        look(token, jwks)


def test_claims_that_are_no_object() -> None:
    """Nor where the payload is something else."""
    for payload in (b"[]", b"5", b"\xff", b"{", b"[" * 9000):
        head, _, _ = signed({}, RSA, "RS256", kid="r").split(".")
        refused(f"{head}.{b64(payload)}.{b64(b'x')}")

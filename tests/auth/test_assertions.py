"""Assertions of a client with a private key, against a second implementation (RFC 7523)."""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from mcphub.auth.assertions import LIFE, maker
from mcphub.auth.failures import SignInFailed
from mcphub.spec import OAuthSpec, Secret
from tests.auth.jwts import PrivateKey, jwk, number, opened, pem
from tests.auth.stand_in import StandIn
from tests.auth.transcript import NOW

RSA = rsa.generate_private_key(65537, 2048)
P256, P384 = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP384R1())
ED = ed25519.Ed25519PrivateKey.generate()
ISSUER = "https://as.example/t"


def oauth(key: str, algorithm: str = "") -> OAuthSpec:
    return OAuthSpec(client_id="c", private_key=Secret(key), signing_algorithm=algorithm)


@pytest.mark.parametrize(
    ("key", "offered", "configured", "algorithm"),
    [
        (P256, (), "", "ES256"),
        (P384, ("ES256",), "", "ES384"),
        (RSA, (), "", "RS256"),
        (RSA, ("ES256", "PS256", "RS256"), "", "PS256"),
        (RSA, ("RS256",), "", "RS256"),
        (RSA, ("RS256",), "PS256", "PS256"),
        (ED, (), "", "EdDSA"),
        (ED, ("Ed25519",), "", "Ed25519"),
    ],
)
def test_an_assertion(key: PrivateKey, offered: tuple[str, ...], configured: str, algorithm: str) -> None:
    """For the issuer, by and about the client, good for at most five minutes; the algorithm fits key, server, entry."""
    made = maker(oauth(pem(key), configured), ISSUER, StandIn({}), offered)()
    header, claims = opened(made, key.public_key())
    assert header == {"alg": algorithm, "typ": "JWT"}
    assert claims.pop("jti")
    assert claims == {"iss": "c", "sub": "c", "aud": ISSUER, "iat": int(NOW), "exp": int(NOW) + LIFE}
    assert LIFE <= 300


def test_each_is_another_one() -> None:
    """With an identifier of its own."""
    make = maker(oauth(pem(P256)), ISSUER, StandIn({}))
    assert len({opened(make(), P256.public_key())[1]["jti"] for _ in range(20)}) == 20


def test_a_key_as_jwk() -> None:
    """With its identifier, which the server may need to find it."""
    document = jwk(P256.public_key(), kid="k1") | {"d": number(P256.private_numbers().private_value, 32)}
    header, _ = opened(maker(oauth(json.dumps(document)), ISSUER, StandIn({}))(), P256.public_key())
    assert header["kid"] == "k1"


@pytest.mark.parametrize(
    "key",
    [
        "",
        "no key",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        "{",
        "{}",
        '{"kty":"oct","k":"c2VjcmV0"}',
        '{"kty":"EC"}',
        '{"kty":"EC","crv":"P-1","x":"AA","y":"AA","d":"AA"}',
        "[]",
        '{"kty":[]}',
        json.dumps(jwk(P256.public_key())),
    ],
)
def test_what_is_no_private_key(key: str) -> None:
    """The entry's key is named, nothing of its text shown."""
    with pytest.raises(SignInFailed, match="oauth.privateKey is no private key") as caught:
        maker(oauth(key), ISSUER, StandIn({}))
    assert caught.value.reason == "client_unusable" and (not key or key not in str(caught.value))


@pytest.mark.parametrize("algorithm", ["RS256", "EdDSA", "HS256", "none", "x"])
def test_an_algorithm_that_does_not_fit(algorithm: str) -> None:
    """It is a failure with a name, when something is to be signed."""
    with pytest.raises(SignInFailed, match=f"cannot sign with {algorithm}"):
        maker(oauth(pem(P256), algorithm), ISSUER, StandIn({}))()

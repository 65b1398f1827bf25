"""Proofs of possession, against a second implementation (RFC 9449)."""

from __future__ import annotations

import hashlib
import json
import os

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec

from mcphub.auth.dpop import DpopKey
from tests.auth.jwts import b64, opened, public_of, thumbprint
from tests.auth.transcript import NOW

KEY = DpopKey.generate(os.urandom)


def test_a_proof() -> None:
    """Its key stands in its header, the public part alone; URL without query and fragment; no claim too much."""
    proof = KEY.proof("POST", "https://as.example/token?x=1#y", NOW + 0.9)
    public = json.loads(KEY.to_json())
    header, claims = opened(proof, public_of(public))
    assert header == {
        "typ": "dpop+jwt",
        "alg": "ES256",
        "jwk": {name: public[name] for name in ("kty", "crv", "x", "y")},
    }
    assert len(claims.pop("jti")) >= 20
    assert claims == {"htm": "POST", "htu": "https://as.example/token", "iat": int(NOW)}


def test_a_proof_with_a_token() -> None:
    """RFC 9449, 4.2: its hash, and the nonce that the server wants."""
    _, claims = opened(KEY.proof("GET", "https://m/", NOW, access_token="tok", nonce="n"), _public(KEY))
    assert claims["ath"] == b64(hashlib.sha256(b"tok").digest()) and claims["nonce"] == "n"


def test_each_is_another_one() -> None:
    """A proof is good for one request, also where the request is the same."""
    found = {opened(KEY.proof("GET", "https://m/", NOW), _public(KEY))[1]["jti"] for _ in range(20)}
    assert len(found) == 20


def test_the_key_is_kept() -> None:
    """What is kept signs for the same key, and is private; C115: nothing of it is printed."""
    again = DpopKey.from_json(KEY.to_json(), os.urandom)
    opened(again.proof("GET", "https://m/", NOW), _public(KEY))
    assert json.loads(KEY.to_json())["d"]
    assert json.loads(KEY.to_json())["d"] not in repr(KEY) + str(vars(KEY)["_public"])
    with pytest.raises(InvalidSignature):
        opened(DpopKey.generate(os.urandom).proof("GET", "https://m/", NOW), _public(KEY))


def test_the_thumbprint() -> None:
    """RFC 7638, as `cnf.jkt` has it."""
    assert KEY.thumbprint() == thumbprint(json.loads(KEY.to_json()))


def test_the_header() -> None:
    """One, named DPoP."""
    ((name, value),) = KEY.header("GET", "https://m/x", NOW, access_token="t", nonce="n")
    assert name == "DPoP" and opened(value, _public(KEY))[1]["htu"] == "https://m/x"


def _public(key: DpopKey) -> ec.EllipticCurvePublicKey:
    found = public_of(json.loads(key.to_json()))
    assert isinstance(found, ec.EllipticCurvePublicKey)
    return found

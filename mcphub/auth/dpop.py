"""Owns the key that tokens are bound to, and the proofs made with it (RFC 9449).

It must not know where nonces come from, nor keep the key.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

from joserfc import jwt
from joserfc.jwk import ECKey

from mcphub.auth.jose import Registry

ALGORITHM = "ES256"


class DpopKey:
    """A private key; its repr says nothing. `random(n)` gives so many bytes that nobody can guess."""

    def __init__(self, key: ECKey, random: Callable[[int], bytes]) -> None:
        self._key = key
        self._random = random
        self._public = {name: value for name, value in key.as_dict(private=False).items() if name in _PUBLIC}

    @classmethod
    def generate(cls, random: Callable[[int], bytes]) -> DpopKey:
        return cls(ECKey.generate_key("P-256"), random)

    @classmethod
    def from_json(cls, text: str, random: Callable[[int], bytes]) -> DpopKey:
        """From what `to_json` gave."""
        return cls(ECKey.import_key(json.loads(text)), random)

    def to_json(self) -> str:
        """The private key: for the vault alone."""
        return json.dumps({**self._key.as_dict(private=True)})

    def thumbprint(self) -> str:
        """RFC 7638, as `dpop_jkt` and `cnf.jkt` have it."""
        return self._key.thumbprint()

    def proof(self, method: str, url: str, now: float, *, access_token: str = "", nonce: str = "") -> str:
        """A proof for one request at `now` (wall clock seconds), never the same twice."""
        claims: dict[str, str | int] = {
            "jti": self._random(16).hex(),
            "htm": method,
            "htu": urlunsplit(urlsplit(url)._replace(query="", fragment="")),
            "iat": int(now),
        }
        if access_token:
            digest = hashlib.sha256(access_token.encode("ascii")).digest()
            claims["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
        if nonce:
            claims["nonce"] = nonce
        header = {"typ": "dpop+jwt", "alg": ALGORITHM, "jwk": self._public}
        return jwt.encode(header, claims, self._key, registry=_REGISTRY)

    def header(
        self, method: str, url: str, now: float, *, access_token: str = "", nonce: str = ""
    ) -> tuple[tuple[str, str], ...]:
        """The header that carries it."""
        return (("DPoP", self.proof(method, url, now, access_token=access_token, nonce=nonce)),)


_REGISTRY = Registry([ALGORITHM])
_PUBLIC = ("kty", "crv", "x", "y")

"""Owns the assertions by which a client proves who it is with a private key (RFC 7523, 2.2; private_key_jwt).

It must not send them, nor keep the key.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey, import_key

from mcphub.auth.client_authentication import Assertion
from mcphub.auth.failures import FlowFailure, SignInFailed, said
from mcphub.auth.home import Home
from mcphub.auth.jose import Registry
from mcphub.spec import OAuthSpec

#: Seconds for which an assertion is good.
LIFE = 240
#: Those by which a key pair signs.
ALGORITHMS = ("ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA", "Ed25519")
_OF_EC = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}


def maker(oauth: OAuthSpec, issuer: str, home: Home, offered: Sequence[str] = ()) -> Assertion:
    """Makes assertions for the authorization server of this issuer, which is their audience. `offered` are the
    algorithms that it names. Raises SignInFailed (`client_unusable`) where the key is none."""
    try:
        key = _read(str(oauth.private_key))
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        text = "oauth.privateKey is no private key in PEM or JWK form that can be read"
        raise SignInFailed(FlowFailure.CLIENT_UNUSABLE, text) from None
    algorithm = oauth.signing_algorithm or _algorithm(key, offered)
    if algorithm not in ALGORITHMS:
        text = f"cannot sign with {said(algorithm)}: oauth.signingAlgorithm must be one of {', '.join(ALGORITHMS)}"
        raise SignInFailed(FlowFailure.CLIENT_UNUSABLE, text)
    header = {"alg": algorithm, "typ": "JWT"}
    if key.kid:
        header["kid"] = key.kid

    def make() -> str:
        now = int(home.now())
        claims = {
            "iss": oauth.client_id,
            "sub": oauth.client_id,
            "aud": issuer,
            "iat": now,
            "exp": now + LIFE,
            "jti": home.random(16).hex(),
        }
        try:
            return jwt.encode(header, claims, key, registry=Registry([algorithm]))
        except (JoseError, ValueError) as e:
            text = f"oauth.privateKey cannot sign with {algorithm}: {e}"
            raise SignInFailed(FlowFailure.CLIENT_UNUSABLE, text) from None

    return make


def _read(text: str) -> Key:
    if text.lstrip().startswith("{"):
        document = json.loads(text)
        if document.get("kty") not in ("EC", "RSA", "OKP"):
            raise ValueError("no key pair")
        found = import_key(document)
        if not found.is_private:
            raise ValueError("no private key")
        return found
    for kind in (ECKey, RSAKey, OKPKey):
        try:
            key: Key = kind.import_key(text)
        except (JoseError, ValueError, TypeError):
            continue
        if key.is_private:
            return key
    raise ValueError("no private key")


def _algorithm(key: Key, offered: Sequence[str]) -> str:
    """One that fits the key, among those that are offered where any is."""
    if isinstance(key, ECKey):
        return _OF_EC.get(str(key.as_dict(private=False).get("crv")), "ES256")
    if isinstance(key, OKPKey):
        return "Ed25519" if "Ed25519" in offered and "EdDSA" not in offered else "EdDSA"
    return next((one for one in ("PS256", "RS256") if one in offered), "RS256")

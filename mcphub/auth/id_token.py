"""Owns whether an id_token is what an identity provider gave this client for this login (OpenID Connect Core, 3.1.3.7).

It must not fetch keys, nor keep the token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeGuard

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import import_key

from mcphub.auth import documents, unproven
from mcphub.auth.failures import SignInFailed, XaaFailure
from mcphub.auth.jose import Registry
from mcphub.spec import IdpSpec, Secret

#: Algorithms that prove something to a client that shares no secret.
ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA", "Ed25519")
#: Seconds by which two clocks may differ.
SKEW = 60.0
#: The end of the clock, the year 9999.
LAST = 253402300800.0


class UnknownKey(Exception):
    """It was signed with a key that is not among those given."""


def check(
    token: Secret, keys: bytes, idp: IdpSpec, offered: Sequence[str], nonce: str, now: float
) -> tuple[str, float]:
    """(subject, when it ends) of a valid one. `keys` is the provider's JWKS; `offered` are the algorithms that it
    names; `nonce` "" = none was asked for. Raises UnknownKey, SignInFailed (`id_token_invalid`)."""
    allowed = [one for one in ALGORITHMS if not offered or one in offered]
    claims = _claims(token, keys, allowed)
    audience = claims.get("aud")
    listed = audience if isinstance(audience, list) else [audience]
    issued, ends = claims.get("iat"), claims.get("exp")
    subject = claims.get("sub")
    if claims.get("iss") != idp.issuer:
        _fail("it is of another issuer")
    if idp.client_id not in listed or (len(listed) > 1 and claims.get("azp") != idp.client_id):
        _fail("it is for another client")
    if not _is_time(ends) or ends <= now - SKEW:
        _fail("it has ended")
    if not _is_time(issued) or issued > now + SKEW:
        _fail("it is of the future")
    if nonce and claims.get("nonce") != nonce:
        _fail("it is of another login")
    if not isinstance(subject, str) or not subject:
        _fail("it names nobody")
    return str(subject), float(ends)


def _is_time(value: object) -> TypeGuard[float]:
    """Whether it is seconds that a clock can show: not true, nor the NaN that Python reads and that has no end."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LAST


def _claims(token: Secret, keys: bytes, allowed: Sequence[str]) -> dict[str, Any]:
    document = documents.read(keys)
    listed = [one for one in _keys(document) if one.get("kty") in ("RSA", "EC", "OKP")]
    header = unproven.header_of(str(token))
    if header is None:
        raise _invalid("it is no signed token")
    if header.get("alg") not in allowed:
        _fail(f"it is signed with {header.get('alg')!r}, which proves nothing here"[:120])
    wanted = header.get("kid")
    fitting = [one for one in listed if wanted is None or one.get("kid") == wanted]
    if not fitting:
        raise UnknownKey
    registry = Registry(allowed)
    for one in fitting:
        # Each by itself: a key that cannot be read, or is for something else, hides no other.
        try:
            found = jwt.decode(str(token), import_key(one), registry=registry)
        except (JoseError, ValueError, TypeError, KeyError, RecursionError):
            continue
        return dict(found.claims)
    raise _invalid("its signature is wrong")


def _keys(document: documents.Document | None) -> list[dict[str, Any]]:
    found = document.get("keys") if document is not None else None
    return [one for one in found if isinstance(one, dict)][:64] if isinstance(found, list) else []


def _invalid(why: str) -> SignInFailed:
    return SignInFailed(XaaFailure.ID_TOKEN_INVALID, f"the identity provider's id_token is not valid: {why}")


def _fail(why: str) -> NoReturn:
    raise _invalid(why)

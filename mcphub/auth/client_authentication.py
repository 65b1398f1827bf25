"""Owns how this client proves who it is at a token endpoint (RFC 6749, 2.3; RFC 7523, 2.2).

It must not send the request, nor know for which grant it is. Assertions are signed in `assertions`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from urllib.parse import quote_plus

import msgspec

from mcphub.auth.records import Registration

#: Methods in the order in which they are preferred; those that need what is not there are not chosen.
PRIVATE_KEY = "private_key_jwt"
BASIC = "client_secret_basic"
POST = "client_secret_post"
NONE = "none"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

#: Makes a fresh assertion, each with an identifier of its own.
Assertion = Callable[[], str]


class Proof(msgspec.Struct, frozen=True):
    """What is added to the form and to the headers. Holds secrets."""

    fields: Mapping[str, str]
    headers: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return "Proof(***)"


def method_of(registration: Registration, supported: tuple[str, ...] | None, *, key: bool = False) -> str:
    """The method for a client: the one it was registered with, else the best that both sides have. `supported` None =
    the server does not say, which means BASIC (RFC 8414, 2). `key`: there is a private key."""
    if registration.method in (PRIVATE_KEY, BASIC, POST, NONE):
        return registration.method
    offered = supported if supported else (BASIC,)
    if key and PRIVATE_KEY in offered:
        return PRIVATE_KEY
    if registration.secret:
        return next((one for one in (BASIC, POST) if one in offered), BASIC)
    return PRIVATE_KEY if key else NONE


def prove(registration: Registration, method: str, assertion: Assertion | None = None) -> Proof:
    """What is sent with this method."""
    client = registration.client_id
    if method == BASIC and registration.secret:
        # Both are form-encoded before they are joined (RFC 6749, 2.3.1): a blank or a colon would split them wrongly.
        pair = f"{quote_plus(client)}:{quote_plus(str(registration.secret))}"
        encoded = base64.b64encode(pair.encode("utf-8")).decode("ascii")
        return Proof({}, (("Authorization", f"Basic {encoded}"),))
    if method == POST and registration.secret:
        return Proof({"client_id": client, "client_secret": str(registration.secret)})
    if method == PRIVATE_KEY and assertion is not None:
        fields = {"client_id": client, "client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion()}
        return Proof(fields)
    return Proof({"client_id": client})

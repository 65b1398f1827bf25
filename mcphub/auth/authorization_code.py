"""Owns the sign-in of a person in a browser: what is asked of the authorization server, what its callback must be, and
the exchange of the code (OAuth 2.1; RFC 7636, RFC 8252, RFC 8707, RFC 9207).

It must not open a browser, listen or wait. What is checked comes in the order in which it can be trusted: state, then
issuer, and only then what the answer says.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Sequence
from urllib.parse import quote, urlencode

import msgspec

from mcphub.auth import urls
from mcphub.auth.client_authentication import Assertion, method_of, prove
from mcphub.auth.discovery import AuthorizationServer
from mcphub.auth.failures import FlowFailure, SignInFailed, said
from mcphub.auth.flow import Flow, post_form
from mcphub.auth.records import Registration
from mcphub.auth.token_answer import Granted, Lost, Refused, read_token
from mcphub.spec import Secret

#: Seconds that a person has for it.
PATIENCE = 300.0
#: Answers with a state that nobody knows after which a sign-in ends.
MOST_STRANGERS = 5

OFFLINE = "offline_access"
_NAMES = ("code", "state", "iss", "error", "error_description", "error_uri")


class Pending(msgspec.Struct, frozen=True):
    """One sign-in that waits for its callback; in memory only. `issuer` is what an `iss` must be equal to."""

    server: AuthorizationServer
    client: Registration
    redirect_uri: str
    resource: str
    scopes: tuple[str, ...]
    state: Secret
    verifier: Secret
    nonce: str = ""

    @property
    def issuer(self) -> str:
        return self.server.issuer


class Strange(msgspec.Struct, frozen=True):
    """A callback that belongs to no sign-in of ours: it is answered 400, and waited on."""

    detail: str


def scopes_to_ask(
    configured: Sequence[str],
    challenged: Sequence[str],
    resource: Sequence[str],
    server: Sequence[str],
    *,
    refresh: bool = True,
) -> tuple[str, ...]:
    """Of the entry, the challenge and the resource's metadata the first that says any; never the catalogue of the
    authorization server, but for `offline_access`, which it must offer, and which is only for who wants a refresh token
    (`refresh`): a person who signs in, also where the entry says the scopes (case C105). () = the parameter is left
    out: the server gives what it always gives, and alone `offline_access` would take that away."""
    found = tuple(dict.fromkeys(configured or challenged or resource))
    if refresh and found and OFFLINE in server and OFFLINE not in found:
        found += (OFFLINE,)
    return found


def begin(
    server: AuthorizationServer,
    client: Registration,
    redirect_uri: str,
    resource: str,
    scopes: tuple[str, ...],
    random: Callable[[int], bytes],
) -> Pending:
    """A new sign-in; `random(n)` gives so many bytes that nobody can guess. `resource` "" = none is named."""
    nonce = _text(random(16)) if "openid" in scopes else ""
    state, verifier = Secret(_text(random(32))), Secret(_text(random(48)))
    return Pending(server, client, redirect_uri, resource, scopes, state, verifier, nonce)


def authorization_url(pending: Pending, *, dpop_thumbprint: str = "") -> str:
    """Where the person is sent. Holds `state`: not for a log."""
    digest = hashlib.sha256(pending.verifier.encode("ascii")).digest()
    fields = {
        "response_type": "code",
        "client_id": pending.client.client_id,
        "redirect_uri": pending.redirect_uri,
        "scope": " ".join(pending.scopes),
        "state": str(pending.state),
        "code_challenge": _text(digest),
        "code_challenge_method": "S256",
        "resource": pending.resource,
        "nonce": pending.nonce,
        "dpop_jkt": dpop_thumbprint,
        # Without it OpenID providers give no refresh token.
        "prompt": "consent" if OFFLINE in pending.scopes else "",
    }
    query = urlencode({name: value for name, value in fields.items() if value}, quote_via=quote)
    return urls.with_query(pending.server.authorization_endpoint, query)


def code_of(pending: Pending, pairs: Sequence[tuple[str, str]]) -> Secret | Strange:
    """The code that a callback brings, `pairs` being its query. Raises SignInFailed where it is this sign-in's own end:
    `issuer_mismatch`, `denied`, `provider_error`."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in _NAMES:
            if name in found:
                return Strange(f"{name} stands there twice")
            found[name] = value
    state = found.get("state", "")
    if not hmac.compare_digest(state.encode("utf-8", "surrogatepass"), pending.state.encode("ascii")):
        return Strange("its state is of no sign-in that is waited for")
    _check_issuer(pending, found.get("iss"))
    if "error" in found:
        text = said(": ".join(filter(None, (found["error"], found.get("error_description", "")))))
        denied = found["error"] == "access_denied"
        reason = FlowFailure.DENIED if denied else FlowFailure.PROVIDER_ERROR
        raise SignInFailed(reason, f"{said(pending.issuer)} says {text}", error=said(found["error"]))
    if not found.get("code"):
        raise SignInFailed(FlowFailure.PROVIDER_ERROR, f"{said(pending.issuer)} sent neither a code nor an error")
    return Secret(found["code"])


def _check_issuer(pending: Pending, iss: str | None) -> None:
    """RFC 9207: what another server sent is not even read."""
    if iss is None:
        if pending.server.says_iss:
            text = f"the answer does not say who it is from, though {said(pending.issuer)} always does"
            raise SignInFailed(FlowFailure.ISSUER_MISMATCH, text)
    elif iss != pending.issuer:
        text = f"the answer says it is from another server than {said(pending.issuer)}"
        raise SignInFailed(FlowFailure.ISSUER_MISMATCH, text)


def exchange(
    pending: Pending,
    code: Secret,
    assertion: Assertion | None = None,
    dpop: Callable[[str], tuple[tuple[str, str], ...]] | None = None,
) -> Flow[Granted]:
    """The tokens for a code. It is sent once: a code is good for one use. `dpop(nonce)` makes the headers of a proof;
    then a server that wants a nonce is asked a second time, since it has not looked at the code. Raises SignInFailed:
    `exchange_failed`, `token_malformed`."""
    server, client = pending.server, pending.client
    proof = prove(client, method_of(client, server.methods, key=assertion is not None), assertion)
    fields = {
        "grant_type": "authorization_code",
        "code": str(code),
        "redirect_uri": pending.redirect_uri,
        "code_verifier": str(pending.verifier),
        "resource": pending.resource,
        **proof.fields,
    }
    bound = dpop("") if dpop is not None else ()
    found = read_token(
        (yield post_form("token", server.token_endpoint, fields, *proof.headers, *bound)), dpop=dpop is not None
    )
    if dpop is not None and isinstance(found, Refused) and found.error == "use_dpop_nonce" and found.nonce:
        bound = dpop(found.nonce)
        if assertion is not None:
            proof = prove(client, method_of(client, server.methods, key=True), assertion)
            fields |= proof.fields
        found = read_token((yield post_form("token", server.token_endpoint, fields, *proof.headers, *bound)), dpop=True)
    if isinstance(found, Granted):
        return found
    where = f"{said(server.issuer)} gave no token for the code: {found.detail}"
    if isinstance(found, Refused):
        raise SignInFailed(FlowFailure.EXCHANGE_FAILED, where, status=found.status, error=found.error)
    if isinstance(found, Lost):
        raise SignInFailed(FlowFailure.EXCHANGE_FAILED if found.transient else FlowFailure.UNSAFE_URL, where)
    raise SignInFailed(FlowFailure.TOKEN_MALFORMED, where)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")

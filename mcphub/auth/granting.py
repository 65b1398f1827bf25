"""Owns a request for tokens that needs no person: form, proof of the client, the nonce of a binding, the answer.

It must not know which grant it is for, nor keep anything.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mcphub.auth.client_authentication import Assertion, method_of, prove
from mcphub.auth.discovery import AuthorizationServer
from mcphub.auth.failures import FlowFailure, Reason, SignInFailed, said
from mcphub.auth.flow import Flow, post_form
from mcphub.auth.occasion import Occasion
from mcphub.auth.records import Registration, TokenSet
from mcphub.auth.token_answer import Granted, Lost, Malformed, Outcome, Refused, read_token
from mcphub.spec import Secret

#: The grant for an assertion that somebody else made (RFC 7523, 2.1).
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class Binding(msgspec.Struct, frozen=True):
    """A key that the tokens are to be bound to."""

    json: str
    occasion: Occasion

    def __repr__(self) -> str:
        return "Binding(***)"

    def header(self, url: str, nonce: str) -> tuple[tuple[str, str], ...]:
        from mcphub.auth.dpop import DpopKey

        home = self.occasion.home
        return DpopKey.from_json(self.json, home.random).header("POST", url, home.now(), nonce=nonce)


def binding_for(occasion: Occasion) -> Binding | None:
    """The key of the tokens before, a new one where there is none; None where nothing is to be bound."""
    if not occasion.dpop:
        return None
    if occasion.last is not None and occasion.last.dpop_key:
        return Binding(str(occasion.last.dpop_key), occasion)
    from mcphub.auth.dpop import DpopKey

    return Binding(DpopKey.generate(occasion.home.random).to_json(), occasion)


def grant(
    server: AuthorizationServer,
    client: Registration,
    fields: Mapping[str, str],
    assertion: Assertion | None = None,
    binding: Binding | None = None,
    *,
    other: str = "",
) -> Flow[Outcome]:
    """One request (`other`: see read_token), and a second one only where the server wants a nonce, which it says before
    it looks at the rest."""
    nonce = ""
    while True:
        proof = prove(client, method_of(client, server.methods, key=assertion is not None), assertion)
        bound = binding.header(server.token_endpoint, nonce) if binding is not None else ()
        form = {**fields, **proof.fields}
        answer = yield post_form("token", server.token_endpoint, form, *proof.headers, *bound)
        found = read_token(answer, dpop=binding is not None, other=other)
        wants = isinstance(found, Refused) and found.error == "use_dpop_nonce" and found.nonce
        if binding is None or nonce or not wants:
            return found
        nonce = wants


def tokens_of(
    occasion: Occasion, client: Registration, granted: Granted, binding: Binding | None, *, refresh: bool = False
) -> TokenSet:
    """What is kept of an answer; without `refresh` they are asked for anew instead of being renewed. Raises
    SignInFailed (`token_malformed`) where the server wants bound tokens and anybody could use these."""
    server, now = occasion.discovered.server, occasion.home.now()
    required = occasion.discovered.resource.dpop or (occasion.last is not None and occasion.last.token_type == "DPoP")
    if required and granted.token_type != "DPoP":
        text = f"{said(server.issuer)} gave tokens that anybody could use, though the server wants bound ones"
        raise SignInFailed(FlowFailure.TOKEN_MALFORMED, text)
    bound = binding is not None and granted.token_type == "DPoP"
    return TokenSet(
        granted.access_token,
        server.issuer,
        client.client_id,
        server.token_endpoint,
        occasion.discovered.resource.resource,
        granted.token_type,
        now,
        now + granted.expires_in if granted.expires_in is not None else 0.0,
        granted.refresh_token if refresh else Secret(""),
        occasion.scopes,
        granted.scopes if granted.scopes is not None else occasion.scopes,
        server.revocation_endpoint,
        Secret(binding.json) if bound and binding is not None else Secret(""),
        client.source,
        client.method,
    )


class Reasons(msgspec.Struct, frozen=True):
    """What an answer without tokens is called: by its OAuth error, else `other`; `transient` where it may pass."""

    by_error: Mapping[str, Reason]
    other: Reason
    transient: Reason
    malformed: Reason


def failed(what: str, outcome: Refused | Malformed | Lost, reasons: Reasons) -> SignInFailed:
    """The failure that an answer without tokens is; `what` begins the sentence."""
    detail = f"{what}: {said(outcome.detail)}"
    match outcome:
        case Lost(transient=False):
            return SignInFailed(FlowFailure.UNSAFE_URL, detail)
        case Lost():
            return SignInFailed(reasons.transient, detail, retry=True)
        case Malformed():
            return SignInFailed(reasons.malformed, detail, status=outcome.status)
        case Refused(transient=True):
            return SignInFailed(reasons.transient, detail, status=outcome.status, error=outcome.error, retry=True)
    reason = reasons.by_error.get(outcome.error, reasons.other)
    return SignInFailed(reason, detail, status=outcome.status, error=outcome.error)

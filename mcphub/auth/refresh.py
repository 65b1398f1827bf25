"""Owns the renewal of an access token: what is sent, and what an answer means for the tokens that are kept
(RFC 6749, 6; RFC 9700, 4.14).

It must not wait, lock or keep anything. A refresh token that was used once may be dead: nothing is sent twice but where
the server cannot have acted, or has said so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from mcphub.auth.client_authentication import Assertion, method_of, prove
from mcphub.auth.failures import Failure, RefreshFailure
from mcphub.auth.flow import Flow, post_form
from mcphub.auth.quirks import ABOUT_REFRESH_TOKENS
from mcphub.auth.records import Registration, TokenSet
from mcphub.auth.token_answer import Granted, Lost, Malformed, Outcome, Refused, read_token

#: Tries where the trouble may pass, and the most of each rest between them, seconds (full jitter).
TRIES = 3
RESTS = (1.0, 2.0, 4.0)
#: A server's own wish is followed up to so many seconds.
LONGEST_REST = 30.0

Bound = Callable[[str], tuple[tuple[str, str], ...]]


def refresh(
    tokens: TokenSet,
    client: Registration,
    supported: tuple[str, ...] | None,
    assertion: Assertion | None = None,
    dpop: Bound | None = None,
) -> Flow[Outcome]:
    """One request for new tokens; no `scope`: the same is meant. `dpop(nonce)` makes the headers of a proof."""
    nonce = ""
    while True:
        proof = prove(client, method_of(client, supported, key=assertion is not None), assertion)
        fields = {
            "grant_type": "refresh_token",
            "refresh_token": str(tokens.refresh_token),
            "resource": tokens.resource,
            **proof.fields,
        }
        bound = dpop(nonce) if dpop is not None else ()
        answer = yield post_form("token", tokens.token_endpoint, fields, *proof.headers, *bound)
        found = read_token(answer, dpop=dpop is not None)
        wants = isinstance(found, Refused) and found.error == "use_dpop_nonce" and found.nonce
        if dpop is not None and not nonce and wants:
            nonce = wants
            continue
        if isinstance(found, Granted) and tokens.token_type == "DPoP" != found.token_type:
            return Malformed("it is not bound to the key any more, so that anybody could use it")
        return found


def renewed(tokens: TokenSet, granted: Granted, now: float) -> TokenSet:
    """The tokens after a renewal: what the answer leaves out stays as it was."""
    return msgspec.structs.replace(
        tokens,
        access_token=granted.access_token,
        token_type=granted.token_type,
        obtained_at=now,
        expires_at=now + granted.expires_in if granted.expires_in is not None else 0.0,
        refresh_token=granted.refresh_token or tokens.refresh_token,
        granted=granted.scopes if granted.scopes is not None else tokens.granted,
    )


class Next(msgspec.Struct, frozen=True):
    """What follows from an answer. `do`: `keep` the new tokens; `again` after `rest` seconds; `give_up` for now, the
    old tokens stay; `forget` the tokens, a person must sign in; `ask` the person, the tokens stay."""

    do: Literal["keep", "again", "give_up", "forget", "ask"]
    failure: Failure | None = None
    rest: float = 0.0


def after(outcome: Outcome, attempt: int, *, resent: bool, odd_before: bool, chance: float) -> Next:
    """What follows from the answer to try number `attempt` (1 is the first). `resent`: an answer was lost before and
    the same was sent again; `odd_before`: the answer before this one was an `invalid_request` or unusable too, for the
    same refresh token. `chance` is between 0 and 1."""
    match outcome:
        case Granted():
            return Next("keep")
        case Lost(sent=sent):
            # Where the server may have acted, only the very next moment is left: later, the old token is a theft to it.
            if not outcome.transient:
                failure = Failure(RefreshFailure.TRANSIENT_EXHAUSTED, outcome.detail, retry=True)
                return Next("give_up", failure)
            if sent:
                return Next("again") if not resent else _gone("the answer was lost twice", outcome)
            return _later(attempt, 0.0, chance, outcome.detail)
        case Malformed():
            failure = Failure(RefreshFailure.MALFORMED_ANSWER, outcome.detail, outcome.status)
            return Next("ask" if odd_before else "give_up", failure)
        case Refused(transient=True):
            return _later(attempt, outcome.retry_after, chance, outcome.detail, outcome)
    error = outcome.error
    if error == "invalid_request" and (odd_before or _about_refresh_token(outcome)):
        error = "invalid_grant"
    reason = _REASONS.get(error, RefreshFailure.REQUEST_REJECTED)
    failure = Failure(reason, outcome.detail, outcome.status, outcome.error)
    if reason is RefreshFailure.GRANT_REJECTED:
        return Next("forget", failure)
    if error == "invalid_request":
        return Next("again", failure)
    return Next("ask", failure)


def _later(attempt: int, wished: float, chance: float, detail: str, refused: Refused | None = None) -> Next:
    if attempt < TRIES and wished <= LONGEST_REST:
        return Next("again", rest=max(wished, RESTS[attempt - 1] * chance))
    status, error = (refused.status, refused.error) if refused is not None else (0, "")
    return Next("give_up", Failure(RefreshFailure.TRANSIENT_EXHAUSTED, detail, status, error, retry=True))


def _gone(what: str, lost: Lost) -> Next:
    failure = Failure(RefreshFailure.GRANT_REJECTED, f"{what}: {lost.detail}; the refresh token may be used up")
    return Next("ask", failure)


def _about_refresh_token(refused: Refused) -> bool:
    text = refused.detail.lower()
    return any(word in text for word in ABOUT_REFRESH_TOKENS)


_REASONS = {
    "invalid_grant": RefreshFailure.GRANT_REJECTED,
    "invalid_client": RefreshFailure.CLIENT_REJECTED,
    "unauthorized_client": RefreshFailure.CLIENT_REJECTED,
    "invalid_scope": RefreshFailure.SCOPE_REJECTED,
    "invalid_target": RefreshFailure.SCOPE_REJECTED,
}


def revoke(endpoint: str, token: str, hint: str, client: Registration, supported: tuple[str, ...] | None) -> Flow[bool]:
    """Tell the authorization server that a token is not used any more (RFC 7009); whether it took that."""
    proof = prove(client, method_of(client, supported))
    fields = {"token": token, "token_type_hint": hint, **proof.fields}
    answer = yield post_form("revocation", endpoint, fields, *proof.headers)
    return getattr(answer, "ok", False) is True

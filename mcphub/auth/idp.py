"""Owns the organisation's login while the daemon runs: what is kept of it, its renewal, its exchange for an assertion
that one authorization server takes (SEP-990; RFC 8693).

It must not know MCP servers' tokens. What the provider gave goes to the provider alone, never to a server.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mcphub.auth import discovery, documents, granting, id_token
from mcphub.auth.discovery import AuthorizationServer, Rules
from mcphub.auth.drive import drive
from mcphub.auth.failures import NOBODY_YET, FlowFailure, SignInFailed, XaaFailure, said
from mcphub.auth.flow import Unanswered, get
from mcphub.auth.home import Home
from mcphub.auth.records import Account, IdpSession, Registration, decoded, encoded, idp_key
from mcphub.auth.token_answer import Granted, Lost, Malformed, Refused
from mcphub.auth.unproven import claims_of, type_of
from mcphub.auth.urls import local
from mcphub.spec import IdpSpec, OAuthSpec, Secret
from mcphub.store.vault_state import GenerationConflict

#: Kind of records in the vault.
IDP = "idp"

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_SUBJECTS = {
    "id_token": "urn:ietf:params:oauth:token-type:id_token",
    "refresh_token": "urn:ietf:params:oauth:token-type:refresh_token",
}

_DENIED = ("invalid_target", "access_denied", "unauthorized_client", "invalid_scope")
_EXCHANGE = granting.Reasons(
    dict.fromkeys(_DENIED, XaaFailure.POLICY_DENIED),
    XaaFailure.EXCHANGE_REJECTED,
    XaaFailure.IDP_UNAVAILABLE,
    XaaFailure.EXCHANGE_REJECTED,
)


Unhad = Refused | Malformed | Lost


class StaleSubject(Exception):
    """The provider does not take the token that was exchanged; another one may do."""

    def __init__(self, failure: SignInFailed) -> None:
        super().__init__()
        self.failure = failure


def client_of(idp: IdpSpec, issuer: str) -> Registration:
    return Registration(idp.client_id, "config", issuer, idp.client_secret)


def _account(idp: IdpSpec) -> Account:
    """As which places are judged: the provider's own is where it is configured."""
    return Account(idp.issuer, Secret(idp.issuer), OAuthSpec(), "")


async def metadata(home: Home, idp: IdpSpec) -> AuthorizationServer:
    """What the provider says of itself. Raises SignInFailed (`idp_unavailable`, `issuer_mismatch`, `unsafe_url`)."""
    try:
        flow = discovery.find_server(idp.issuer, Rules(local(idp.issuer), browser=True, missing_pkce=True))
        found = await drive(flow, home.idp_sender(idp))
    except SignInFailed as e:
        if e.failure.retry:
            raise SignInFailed(XaaFailure.IDP_UNAVAILABLE, e.failure.detail, status=e.failure.http_status) from None
        raise
    for name, url in (("token_endpoint", found.token_endpoint), ("jwks_uri", found.jwks_uri)):
        if url and (why := await home.forbidden(_account(idp), url)):
            raise SignInFailed(FlowFailure.UNSAFE_URL, f"{name} of {said(idp.issuer)}: {why}")
    if found.issuer != idp.issuer:
        text = f"it says that it is {said(found.issuer)}, xaaIdp.issuer is {said(idp.issuer)}"
        raise SignInFailed(FlowFailure.ISSUER_MISMATCH, text)
    return found


async def session(home: Home, idp: IdpSpec, *, not_this: str = "") -> IdpSession:
    """The login, renewed where it has ended or is `not_this`. Raises SignInFailed (`idp_login_required`,
    `idp_unavailable`), VaultUnavailable."""
    key = idp_key(idp.issuer, idp.client_id)
    kept = await _kept(home, key)
    if kept is not None and kept.id_token != not_this and kept.usable(home.now()):
        return kept
    async with home.turn(key):
        record = await home.safe.get(IDP, key)
        kept = decoded(record.data, IdpSession) if record is not None else None
        if kept is not None and kept.id_token != not_this and kept.usable(home.now()):
            return kept
        if record is None or kept is None or not kept.refresh_token:
            why = NOBODY_YET if kept is None else "the login has ended"
            raise SignInFailed(XaaFailure.IDP_LOGIN_REQUIRED, f"{why} at {said(idp.issuer)}")
        return await _renewed(home, idp, kept, record.gen)


async def _put(home: Home, login: IdpSession, gen: int) -> int:
    """Keep it in place of that of this generation; returns its own. Raises SignInFailed where a person has signed in
    meanwhile, or out: that counts, and is found at the next try."""
    home.hide(*(str(one) for one in (login.id_token, login.refresh_token) if one), owner=login.issuer)
    try:
        return await home.safe.put(IDP, idp_key(login.issuer, login.client_id), encoded(login), gen)
    except GenerationConflict:
        text = f"the login at {said(login.issuer)} is another one now"
        raise SignInFailed(XaaFailure.IDP_UNAVAILABLE, text) from None


async def may_serve(home: Home, idp: IdpSpec) -> bool:
    """Whether there is a login, or something that gives one without a person. Raises VaultUnavailable."""
    kept = await _kept(home, idp_key(idp.issuer, idp.client_id))
    return kept is not None and (bool(kept.refresh_token) or kept.usable(home.now()))


async def _kept(home: Home, key: str) -> IdpSession | None:
    record = await home.safe.get(IDP, key)
    return decoded(record.data, IdpSession) if record is not None else None


async def _renewed(home: Home, idp: IdpSpec, kept: IdpSession, gen: int) -> IdpSession:
    server = await metadata(home, idp)
    fields = {"grant_type": "refresh_token", "refresh_token": str(kept.refresh_token)}
    for last in (False, True):
        found = await drive(granting.grant(server, client_of(idp, server.issuer), fields), home.idp_sender(idp))
        if last or not (isinstance(found, Lost) and found.sent):
            break  # where the answer was lost it is sent again at once, or never: later it looks like a theft
    if not isinstance(found, Granted):
        found = _without(found, kept.refresh_token, idp.client_secret)
        if isinstance(found, Refused) and not found.transient:
            if found.error == "invalid_grant":
                await _put(home, msgspec.structs.replace(kept, refresh_token=Secret("")), gen)
            text = f"{said(idp.issuer)} wants a new login: {found.detail}"
            raise SignInFailed(XaaFailure.IDP_LOGIN_REQUIRED, text, status=found.status, error=found.error)
        raise granting.failed(f"{said(idp.issuer)} did not renew the login", found, _EXCHANGE)
    token = Secret(documents.text(found.document, "id_token"))
    refresh = found.refresh_token or kept.refresh_token
    if refresh != kept.refresh_token:  # whatever comes of the rest, the old one is dead
        kept = msgspec.structs.replace(kept, refresh_token=refresh)
        gen = await _put(home, kept, gen)
    if not token:
        if idp.subject == "refresh_token":
            kept = msgspec.structs.replace(kept, expires_at=home.now() + 3600.0)
            await _put(home, kept, gen)
            return kept
        text = f"{said(idp.issuer)} renews the login without an id_token; xaaIdp.subject = \"refresh_token\" may help"
        raise SignInFailed(XaaFailure.IDP_LOGIN_REQUIRED, text)
    subject, ends = await checked(home, idp, server, token, "")
    if subject != kept.subject:
        raise SignInFailed(XaaFailure.ID_TOKEN_INVALID, "the renewed login is another person's")
    renewed = IdpSession(idp.issuer, idp.client_id, token, subject, ends, server.token_endpoint, refresh)
    await _put(home, renewed, gen)
    return renewed


def _without(found: Unhad, *secrets: str) -> Unhad:
    """The same, where it repeats nothing of what was sent."""
    detail = found.detail
    for secret in filter(None, secrets):
        detail = detail.replace(str(secret), "***")
    return msgspec.structs.replace(found, detail=detail)


async def checked(
    home: Home, idp: IdpSpec, server: AuthorizationServer, token: Secret, nonce: str
) -> tuple[str, float]:
    """(subject, when it ends) of an id_token. Raises SignInFailed (`id_token_invalid`, `idp_unavailable`)."""
    if not server.jwks_uri:
        raise SignInFailed(XaaFailure.ID_TOKEN_INVALID, f"{said(idp.issuer)} names no keys (jwks_uri)")
    for last in (False, True):
        answer = await home.idp_sender(idp)(get("keys", server.jwks_uri))
        if isinstance(answer, Unanswered) or not answer.ok:
            what = answer.detail if isinstance(answer, Unanswered) else f"HTTP {answer.status}"
            raise SignInFailed(XaaFailure.IDP_UNAVAILABLE, f"cannot get the keys of {said(idp.issuer)}: {what}")
        try:
            return id_token.check(token, answer.body, idp, server.id_token_algorithms, nonce, home.now())
        except id_token.UnknownKey:
            if last:
                break
    text = f"{said(idp.issuer)} signed the id_token with a key that it does not publish"
    raise SignInFailed(XaaFailure.ID_TOKEN_INVALID, text)


async def assertion_for(
    home: Home, idp: IdpSpec, login: IdpSession, audience: str, resource: str, scopes: tuple[str, ...], client_id: str
) -> Secret:
    """An assertion (ID-JAG) for one authorization server and one resource. Used at once, never kept. Raises
    SignInFailed (`policy_denied`, `exchange_rejected`, `idp_unavailable`), StaleSubject."""
    server = await metadata(home, idp)
    subject = login.refresh_token if idp.subject == "refresh_token" else login.id_token
    fields: Mapping[str, str] = {
        "grant_type": EXCHANGE,
        "requested_token_type": ID_JAG,
        "audience": audience,
        "resource": resource,
        "subject_token": str(subject),
        "subject_token_type": _SUBJECTS[idp.subject],
        "scope": " ".join(scopes),
    }
    what = f"{said(idp.issuer)} gave no assertion for {said(audience)}"
    flow = granting.grant(server, client_of(idp, server.issuer), fields, other="N_A")
    found = await drive(flow, home.idp_sender(idp))
    if not isinstance(found, Granted):
        found = _without(found, subject, idp.client_secret)
    if isinstance(found, Refused) and found.error == "invalid_grant":
        raise StaleSubject(granting.failed(what, found, _EXCHANGE))
    if not isinstance(found, Granted):
        raise granting.failed(what, found, _EXCHANGE)
    home.hide(str(found.access_token), owner=f"{idp.issuer} {audience} {resource}")
    if documents.text(found.document, "issued_token_type") != ID_JAG:
        raise SignInFailed(XaaFailure.EXCHANGE_REJECTED, f"{what}: what it gave is of another kind")
    _look_through(str(found.access_token), audience, resource, client_id, what)
    return found.access_token


def _look_through(token: str, audience: str, resource: str, client_id: str, what: str) -> None:
    """What would be refused, or taken by another, is not sent: for a clear message, without any trust in it."""
    claims = claims_of(token)
    if claims is None:
        return  # opaque assertions are the authorization server's to judge
    if (kind := type_of(token)) != "oauth-id-jag+jwt":
        raise SignInFailed(XaaFailure.EXCHANGE_REJECTED, f"{what}: what it gave is a JWT of the type {said(kind)!r}")
    listed = claims.get("aud")
    if audience not in (listed if isinstance(listed, list) else [listed]):
        raise SignInFailed(XaaFailure.EXCHANGE_REJECTED, f"{what}: what it gave is for {said(ascii(listed)[1:-1])}")
    if "resource" in claims and resource not in (
        claims["resource"] if isinstance(claims["resource"], list) else [claims["resource"]]
    ):
        raise SignInFailed(XaaFailure.EXCHANGE_REJECTED, f"{what}: what it gave is for another resource")
    if client_id and claims.get("client_id") not in (None, client_id):
        raise SignInFailed(XaaFailure.EXCHANGE_REJECTED, f"{what}: what it gave is for another client")

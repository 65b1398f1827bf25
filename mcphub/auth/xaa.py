"""Owns tokens that a server gives for the organisation's login (SEP-990): an exchange at the provider, then one at the
server's own authorization server (RFC 7523).

It must not open a browser: without a login it says that one is needed. A failure here stays with its server.
"""

from __future__ import annotations

from mcphub.auth import granting, idp
from mcphub.auth.client_authentication import method_of
from mcphub.auth.client_credentials import refuse_unpinned
from mcphub.auth.drive import drive
from mcphub.auth.failures import FlowFailure, RefreshFailure, SignInFailed, XaaFailure, said
from mcphub.auth.occasion import Occasion
from mcphub.auth.records import Registration, TokenSet
from mcphub.auth.token_answer import Granted, Refused
from mcphub.auth.urls import origin
from mcphub.spec import IdpSpec, Secret

_REASONS = granting.Reasons(
    {
        "invalid_grant": XaaFailure.ASSERTION_REJECTED,
        "invalid_client": RefreshFailure.CLIENT_REJECTED,
        "unauthorized_client": RefreshFailure.CLIENT_REJECTED,
        "access_denied": XaaFailure.POLICY_DENIED,
        "invalid_scope": XaaFailure.POLICY_DENIED,
        "invalid_target": XaaFailure.POLICY_DENIED,
    },
    XaaFailure.ASSERTION_REJECTED,
    RefreshFailure.TRANSIENT_EXHAUSTED,
    RefreshFailure.MALFORMED_ANSWER,
)


async def obtain(occasion: Occasion) -> TokenSet:
    """Raises SignInFailed, VaultUnavailable."""
    provider = occasion.home.idp()
    if provider is None:
        text = "its entry says `xaa`, and no identity provider is named: set [xaaIdp] in settings.toml"
        raise SignInFailed(FlowFailure.CLIENT_REQUIRED, text)
    client = _client(occasion)
    for last in (False, True):
        assertion = await _assertion(occasion, provider)
        fields = {
            "grant_type": granting.JWT_BEARER,
            "assertion": str(assertion),
            "resource": occasion.discovered.resource.resource,
            "scope": " ".join(occasion.scopes),
        }
        binding = granting.binding_for(occasion)
        flow = granting.grant(occasion.discovered.server, client, fields, None, binding)
        found = await drive(flow, occasion.home.sender(occasion.account))
        if isinstance(found, Granted):
            return granting.tokens_of(occasion, client, found, binding)
        # It may have been a moment too old: a fresh one is worth one try.
        if last or not (isinstance(found, Refused) and found.error == "invalid_grant"):
            issuer = said(occasion.discovered.server.issuer)
            raise granting.failed(f"{issuer} gave no token for the organisation's assertion", found, _REASONS)
    raise AssertionError("unreachable")


def _client(occasion: Occasion) -> Registration:
    """Who this client is at the server's own authorization server. Raises SignInFailed (`client_required`,
    `client_unusable`)."""
    oauth, server = occasion.account.oauth, occasion.discovered.server
    if not oauth.client_id:
        text = "its entry says `xaa`: oauth.clientId must be its client id at the server's authorization server"
        raise SignInFailed(FlowFailure.CLIENT_REQUIRED, text)
    if oauth.client_secret:
        refuse_unpinned(occasion)
        hosts = {host.partition(":")[0] for host in oauth.hosts}
        where, home = origin(server.token_endpoint), origin(server.issuer)
        if where != home and where[1] not in hosts:
            text = f"{said(server.issuer)} has its token endpoint at {said(where[1])}: list that in oauth.hosts"
            raise SignInFailed(FlowFailure.CLIENT_UNUSABLE, text)
    client = Registration(oauth.client_id, "config", server.issuer, oauth.client_secret)
    method = method_of(client, server.methods)
    return Registration(oauth.client_id, "config", server.issuer, oauth.client_secret, method)


async def _assertion(occasion: Occasion, provider: IdpSpec) -> Secret:
    home, found = occasion.home, occasion.discovered
    login = await idp.session(home, provider)
    for last in (False, True):
        try:
            return await idp.assertion_for(
                home,
                provider,
                login,
                found.server.issuer,
                found.resource.resource,
                occasion.scopes,
                occasion.account.oauth.client_id,
            )
        except idp.StaleSubject as stale:
            if last:
                raise stale.failure from None
        login = await idp.session(home, provider, not_this=login.id_token)
    raise AssertionError("unreachable")

"""Owns tokens that a client gets for itself, with its secret or its key (RFC 6749, 4.4; SEP-1046).

It must not know a person, a browser or a registration: the id stands in the entry, and so does the issuer that may see
its secret.
"""

from __future__ import annotations

from mcphub.auth import assertions, granting
from mcphub.auth.client_authentication import method_of
from mcphub.auth.discovery import same_issuer
from mcphub.auth.drive import drive
from mcphub.auth.failures import FlowFailure, RefreshFailure, SignInFailed, said
from mcphub.auth.occasion import Occasion
from mcphub.auth.records import Registration, TokenSet
from mcphub.auth.token_answer import Granted

REASONS = granting.Reasons(
    {
        "invalid_client": RefreshFailure.CLIENT_REJECTED,
        "unauthorized_client": RefreshFailure.CLIENT_REJECTED,
        "invalid_scope": RefreshFailure.SCOPE_REJECTED,
        "invalid_target": RefreshFailure.SCOPE_REJECTED,
        "invalid_grant": RefreshFailure.GRANT_REJECTED,
    },
    RefreshFailure.REQUEST_REJECTED,
    RefreshFailure.TRANSIENT_EXHAUSTED,
    RefreshFailure.MALFORMED_ANSWER,
)


async def obtain(occasion: Occasion) -> TokenSet:
    """Raises SignInFailed."""
    oauth, server = occasion.account.oauth, occasion.discovered.server
    if not oauth.client_id or not (oauth.client_secret or oauth.private_key):
        text = "oauth.clientId and one of oauth.clientSecret and oauth.privateKey must be set for this grant"
        raise SignInFailed(FlowFailure.CLIENT_REQUIRED, text)
    refuse_unpinned(occasion)
    client = Registration(oauth.client_id, "config", server.issuer, oauth.client_secret)
    assertion = None
    if oauth.private_key:
        assertion = assertions.maker(oauth, server.issuer, occasion.home, server.signing_algorithms)
    method = method_of(client, server.methods, key=assertion is not None)
    client = Registration(oauth.client_id, "config", server.issuer, oauth.client_secret, method)
    fields = {
        "grant_type": "client_credentials",
        "resource": occasion.discovered.resource.resource,
        "scope": " ".join(occasion.scopes),
    }
    binding = granting.binding_for(occasion)
    found = await drive(
        granting.grant(server, client, fields, assertion, binding), occasion.home.sender(occasion.account)
    )
    if isinstance(found, Granted):
        return granting.tokens_of(occasion, client, found, binding)
    raise granting.failed(f"{said(server.issuer)} gave this client no token", found, REASONS)


def refuse_unpinned(occasion: Occasion) -> None:
    """A secret goes to the one authorization server that the entry names. Otherwise any server could name one of its
    own and collect it. Raises SignInFailed (`client_unusable`)."""
    oauth, server = occasion.account.oauth, occasion.discovered.server
    if not oauth.issuer:
        text = f"oauth.issuer must say who may see this client's credentials; the server names {said(server.issuer)}"
        raise SignInFailed(FlowFailure.CLIENT_UNUSABLE, text)
    if not same_issuer(server.issuer, oauth.issuer):
        text = f"the sign-in is at {said(server.issuer)}, oauth.issuer is {said(oauth.issuer)}: nothing is sent"
        raise SignInFailed(FlowFailure.CLIENT_UNUSABLE, text)

"""Owns what a person's sign-in to one server is: metadata, this client's identity there, the tokens that come of it.

It must not listen, wait for a person, or know another server. Implements sign_in.Plan.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from mcphub.auth import authorization_code, registration
from mcphub.auth.authorization_code import Pending
from mcphub.auth.client_authentication import PRIVATE_KEY, Assertion
from mcphub.auth.credential import Credential
from mcphub.auth.discovery import Discovered, same_issuer
from mcphub.auth.drive import drive
from mcphub.auth.failures import FlowFailure, SignInFailed, said
from mcphub.auth.home import Home
from mcphub.auth.records import Registration, TokenSet
from mcphub.auth.registration import Clients
from mcphub.auth.sign_in import Question
from mcphub.spec import Secret

Bound = Callable[[str], tuple[tuple[str, str], ...]]


class ServerPlan:
    """`document_url` is this client's own metadata document, "" = none."""

    def __init__(self, credential: Credential, document_url: str = "") -> None:
        self.credential = credential
        self._document_url = document_url
        self._found: Discovered | None = None
        self._kept: Registration | None = None
        self._key: _Key | None = None

    @property
    def name(self) -> str:
        return self.credential.account.name

    @property
    def place(self) -> tuple[str, int, int]:
        oauth = self.credential.account.oauth
        return oauth.callback_host, oauth.callback_port, _port_of(self._kept)

    def log(self, level: str, text: str) -> None:
        self.credential.home.log(level, text)

    async def begin(self) -> None:
        credential = self.credential
        await credential.load()
        await credential.home.safe.ready()  # before a person is sent anywhere
        credential.count_sign_in()
        self._found = await credential.discovered(again=True)
        self._kept = await credential.registration(self._found.server.issuer)

    async def ask(self, redirect_uri: str) -> Question:
        found = self._found
        assert found is not None
        credential = self.credential
        client = await self._identity(found, redirect_uri)
        pending = authorization_code.begin(
            found.server,
            client,
            _as_registered(client, redirect_uri),
            found.resource.resource,
            credential.wanted_scopes(found),
            credential.home.random,
        )
        self._key = self._binding(found)
        thumbprint = self._key.thumbprint if self._key is not None else ""
        return Question(pending, authorization_code.authorization_url(pending, dpop_thumbprint=thumbprint))

    async def finish(self, pending: Pending, code: Secret) -> None:
        credential, key, server = self.credential, self._key, pending.server
        home = credential.home
        proof: Bound | None = None
        if key is not None:
            proof = key.proof("POST", server.token_endpoint, home)
        flow = authorization_code.exchange(pending, code, self._assertion(pending), proof)
        granted = await drive(flow, home.sender(credential.account))
        if key is not None and granted.token_type != "DPoP" and key.required:
            text = "the sign-in gave tokens that anybody could use, though the server wants bound ones"
            raise SignInFailed(FlowFailure.TOKEN_MALFORMED, text)
        now = home.now()
        bound = key is not None and granted.token_type == "DPoP"
        tokens = TokenSet(
            granted.access_token,
            server.issuer,
            pending.client.client_id,
            server.token_endpoint,
            pending.resource,
            granted.token_type,
            now,
            now + granted.expires_in if granted.expires_in is not None else 0.0,
            granted.refresh_token,
            pending.scopes,
            granted.scopes if granted.scopes is not None else pending.scopes,
            server.revocation_endpoint,
            Secret(key.json) if bound and key is not None else Secret(""),
            pending.client.source,
            pending.client.method,
        )
        await credential.take(tokens)

    async def _identity(self, found: Discovered, redirect_uri: str) -> Registration:
        credential, kept = self.credential, self._kept
        if kept is not None and redirect_uri not in kept.redirect_uris:
            kept = None  # registered with another port, which is taken today (case C101)
        scopes = credential.wanted_scopes(found)
        if kept is not None and not frozenset(scopes) <= frozenset(kept.scopes):
            # Some servers let a client ask only for what it registered with. What several servers want of one issuer
            # comes together, so that they do not take turns in replacing it.
            scopes, kept = tuple(dict.fromkeys((*kept.scopes, *scopes))), None
        document_url = credential.account.oauth.client_metadata_url or self._document_url
        clients = Clients(credential.account.oauth, document_url, kept)
        flow = registration.identity(
            found.server, clients, (redirect_uri,), scopes, credential.home.now()
        )
        client = await drive(flow, credential.home.sender(credential.account))
        if client.source == "dcr" and client is not kept:
            await credential.keep_registration(client)
        if client.source == "config" and not credential.account.oauth.issuer:
            await self._refuse_another_issuer(client)
        return client

    async def _refuse_another_issuer(self, client: Registration) -> None:
        """An id was registered with one authorization server; what names another one is not believed."""
        first = await self.credential.bound_issuer(client.client_id, client.issuer)
        if not same_issuer(first, client.issuer):
            text = (
                f"oauth.clientId was used at {said(first)}, and the server names {said(client.issuer)} now; nothing is "
                "sent there. If that is right, say so: set oauth.issuer of the entry to it"
            )
            raise SignInFailed(FlowFailure.CLIENT_UNUSABLE, text)

    def _assertion(self, pending: Pending) -> Assertion | None:
        oauth = self.credential.account.oauth
        if not oauth.private_key or pending.client.method not in ("", PRIVATE_KEY):
            return None
        from mcphub.auth import assertions

        return assertions.maker(oauth, pending.issuer, self.credential.home, pending.server.signing_algorithms)

    def _binding(self, found: Discovered) -> _Key | None:
        required = found.resource.dpop or self.credential.challenge.scheme == "dpop"
        if not (required or self.credential.account.oauth.dpop):
            return None
        from mcphub.auth.dpop import DpopKey

        key = DpopKey.generate(self.credential.home.random)
        return _Key(key.thumbprint(), key.to_json(), required)


class _Key(msgspec.Struct, frozen=True):
    """The key that tokens are to be bound to; `json` is the private one. `required`: the server takes no others."""

    thumbprint: str
    json: str
    required: bool

    def __repr__(self) -> str:
        return "_Key(***)"

    def proof(self, method: str, url: str, home: Home) -> Bound:
        from mcphub.auth.dpop import DpopKey

        key = DpopKey.from_json(self.json, home.random)
        return lambda nonce: key.header(method, url, home.now(), nonce=nonce)


def _port_of(kept: Registration | None) -> int:
    """The port that a client is registered with, 0 = none."""
    for uri in kept.redirect_uris if kept is not None else ():
        try:
            return urlsplit(uri).port or 0
        except ValueError:
            continue
    return 0


def _as_registered(client: Registration, redirect_uri: str) -> str:
    """The spelling of the callback that the server has registered: what it answered wins."""
    if not client.redirect_uris or redirect_uri in client.redirect_uris:
        return redirect_uri
    port = urlsplit(redirect_uri).port
    for uri in client.redirect_uris:
        try:
            parts = urlsplit(uri)
            if parts.hostname in ("127.0.0.1", "localhost") and parts.port == port:
                return uri
        except ValueError:
            continue
    return redirect_uri

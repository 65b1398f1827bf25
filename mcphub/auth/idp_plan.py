"""Owns what a person's login at the organisation's identity provider is, once for all servers that take it.

It must not know any of those servers. Implements sign_in.Plan.
"""

from __future__ import annotations

from mcphub.auth import authorization_code, documents, idp
from mcphub.auth.authorization_code import OFFLINE, Pending
from mcphub.auth.client_authentication import method_of
from mcphub.auth.discovery import AuthorizationServer
from mcphub.auth.drive import drive
from mcphub.auth.failures import SignInFailed, XaaFailure, said
from mcphub.auth.home import Home
from mcphub.auth.records import IdpSession, Registration, encoded, idp_key
from mcphub.auth.sign_in import Question
from mcphub.spec import IdpSpec, Secret


class IdpPlan:
    """See the module."""

    def __init__(self, home: Home, provider: IdpSpec) -> None:
        self.provider = provider
        self._home = home
        self._server: AuthorizationServer | None = None

    @property
    def name(self) -> str:
        return said(self.provider.issuer)

    @property
    def place(self) -> tuple[str, int, int]:
        return self.provider.callback_host, self.provider.callback_port, 0

    def log(self, level: str, text: str) -> None:
        self._home.log(level, text)

    async def begin(self) -> None:
        await self._home.safe.ready()
        self._server = await idp.metadata(self._home, self.provider)

    async def ask(self, redirect_uri: str) -> Question:
        server, provider = self._server, self.provider
        assert server is not None
        client = idp.client_of(provider, server.issuer)
        method = method_of(client, server.methods)
        client = Registration(client.client_id, "config", server.issuer, client.secret, method)
        scopes = tuple(dict.fromkeys(("openid", *provider.scopes)))
        if OFFLINE in server.scopes and OFFLINE not in scopes:
            scopes += (OFFLINE,)
        pending = authorization_code.begin(server, client, redirect_uri, "", scopes, self._home.random)
        return Question(pending, authorization_code.authorization_url(pending))

    async def finish(self, pending: Pending, code: Secret) -> None:
        home, provider = self._home, self.provider
        granted = await drive(authorization_code.exchange(pending, code), home.idp_sender(provider))
        token = Secret(documents.text(granted.document, "id_token"))
        if not token:
            raise SignInFailed(XaaFailure.ID_TOKEN_INVALID, f"{said(provider.issuer)} gave no id_token")
        home.hide(*(str(one) for one in (token, granted.refresh_token, granted.access_token) if one))
        subject, ends = await idp.checked(home, provider, pending.server, token, pending.nonce)
        login = IdpSession(
            provider.issuer,
            provider.client_id,
            token,
            subject,
            ends,
            pending.server.token_endpoint,
            granted.refresh_token,
        )
        await home.safe.put(idp.IDP, idp_key(provider.issuer, provider.client_id), encoded(login))

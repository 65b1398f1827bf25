"""Owns what people are answered who sign in or out: the stream of one sign-in, the handing over of an address, the end.

It must not know HTTP, nor which servers there are: it is given how to find them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence

import anyio

from mcphub.auth.credential import TOKENS, Credential
from mcphub.auth.failures import Failure, said
from mcphub.auth.home import BROWSER, IDP_LOGIN
from mcphub.auth.sign_in import SignIn
from mcphub.errors import ControlError
from mcphub.login.logins import Logins
from mcphub.spec import HttpSpec, IdpSpec, ServerSpec, WsSpec
from mcphub.status import LoginReport, LogoutReport, PasteReport, SignedOutStatus
from mcphub.store.vault_state import VaultUnavailable

#: Nobody is needed.
NONE = "none"
#: Characters of an address that is handed over.
LONGEST = 16 * 1024

#: The servers of a workspace that may run, or the one of this name. Raises ControlError 404, 409.
Find = Callable[[str, str | None], Sequence[ServerSpec]]


class Answers:
    """See the module. All on the event loop's thread."""

    def __init__(self, logins: Logins, find: Find) -> None:
        self._logins = logins
        self._find = find

    async def login(self, workspace: str, name: str, heartbeat: float) -> AsyncGenerator[LoginReport | None, None]:
        """Ends with the sign-in; whoever closes it before cancels that. Raises ControlError 404, 409 at the first."""
        credential = self._credential(workspace, name)
        if credential.silent and credential.account.oauth.mode != "xaa":
            self._logins.again()
            yield LoginReport(name=name, state="done", how=NONE, detail="it signs in by itself, and is tried again")
            return
        how = IDP_LOGIN if credential.silent else BROWSER
        sign_in = (
            self._logins.at_idp(self._provider(name)) if credential.silent else self._logins.to_server(credential)
        )
        try:
            yield LoginReport(name=name, state="starting", how=how)
            while not await _within(heartbeat, sign_in.begun):
                yield None
            if not sign_in.over.is_set():
                report = LoginReport(name=name, state="waiting", how=how, url=sign_in.url, host=sign_in.host)
                report["client"] = sign_in.client
                yield report
            while not await _within(heartbeat, sign_in.over):
                yield None
            yield _ended(name, how, sign_in)
        finally:
            if not sign_in.over.is_set():
                sign_in.cancel()

    def paste(self, workspace: str, name: str, url: str) -> PasteReport:
        """Raises ControlError 404, 409."""
        credential = self._credential(workspace, name)
        logins = self._logins
        sign_in = logins.of_idp(self._provider(name)) if credential.silent else logins.of_server(credential)
        if sign_in is None or not sign_in.url or sign_in.over.is_set():
            raise ControlError(f"cannot take the address: no sign-in to {name} waits for it", status=409)
        if len(url) > LONGEST:
            raise ControlError(f"cannot take the address: it is longer than {LONGEST} characters", status=409)
        sign_in.paste(url)
        return PasteReport(name=name)

    async def logout(self, workspace: str, name: str | None) -> LogoutReport:
        """Of one server; with None of all, of the organisation, and of what no entry has any more. Raises ControlError
        404, 409."""
        try:
            if name is not None:
                credential = self._credential(workspace, name)
                return LogoutReport(signed_out=await self._out_of(name, credential))
            return await self._out_of_all(workspace)
        except (VaultUnavailable, OSError) as error:
            raise ControlError(f"cannot forget the tokens: {error}", status=409) from None

    async def _out_of(self, name: str, credential: Credential) -> list[SignedOutStatus]:
        done = await self._logins.out_of(credential)
        if not done.was:
            return []
        one = SignedOutStatus(name=name, revoked=done.revoked)
        if credential.silent:
            await credential.without_login(ended=True)
            one["again"] = credential.need is None
        return [one]

    async def _out_of_all(self, workspace: str) -> LogoutReport:
        credentials = self._logins.credentials
        found: dict[str, Credential] = {}
        for spec in self._find(workspace, None):
            if (credential := credentials.of(spec)) is not None:
                found[credential.account.key] = credential
        report = LogoutReport(signed_out=[])
        if (provider := credentials.idp()) is not None:  # first, so that nothing is had for it again meanwhile
            done = await self._logins.out_of_idp(provider)
            if done.was:
                report["idp"] = SignedOutStatus(name=said(provider.issuer), revoked=done.revoked)
        for credential in found.values():
            report["signed_out"] += await self._out_of(credential.account.name, credential)
        for credential in credentials.of_organisation():
            await credential.without_login(ended=False)
        left = await credentials.safe.list(TOKENS)
        for key in left:
            await credentials.safe.delete(TOKENS, key)
        report["others"] = len(left)
        return report

    def _credential(self, workspace: str, name: str) -> Credential:
        [spec] = self._find(workspace, name)
        credential = self._logins.credentials.of(spec)
        if credential is None:
            raise ControlError(f"cannot sign in to {name}: {_why_not(spec)}", status=409)
        return credential

    def _provider(self, name: str) -> IdpSpec:
        provider = self._logins.credentials.idp()
        if provider is None:
            text = "its entry says xaa, and no identity provider is named; set [xaaIdp] in settings.toml"
            raise ControlError(f"cannot sign in to {name}: {text}", status=409)
        return provider


def _why_not(spec: ServerSpec) -> str:
    """Why nobody signs in to a server."""
    transport = spec.transport
    if not isinstance(transport, HttpSpec):
        return "it is a program, which gets its credentials by its environment"
    if isinstance(transport, WsSpec):
        return "it is at a WebSocket, whose credentials stand in its headers"
    if transport.oauth.mode == "none":
        return 'its entry says "oauth": false'
    if transport.helper is not None:
        return "the program at headersHelper gives its credentials"
    return "its entry brings its credentials, in an Authorization header or in its URL"


def _ended(name: str, how: str, sign_in: SignIn) -> LoginReport:
    if sign_in.superseded:
        return LoginReport(name=name, state="superseded", how=how, detail="another sign-in took its place")
    if (failure := sign_in.failure) is None:
        return LoginReport(name=name, state="done", how=how)
    return failed(name, how, failure)


def failed(name: str, how: str, failure: Failure) -> LoginReport:
    return LoginReport(
        name=name,
        state="failed",
        how=how,
        detail=failure.detail,
        reason=str(failure.reason),
        http_status=failure.http_status,
        oauth_error=failure.oauth_error,
        retry=failure.retry,
    )


async def _within(seconds: float, event: anyio.Event) -> bool:
    with anyio.move_on_after(seconds):
        await event.wait()
    return event.is_set()

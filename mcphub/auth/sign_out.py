"""Owns the end of a sign-in: its tokens are revoked where that can be done, and forgotten here in any case (S19).

It must not know connections: who is told of a change hears of it as of any other. What is under way is waited for, so
that no renewal brings back what was just given up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio
import msgspec

from mcphub.auth import idp
from mcphub.auth.credential import Credential
from mcphub.auth.drive import Sender, drive
from mcphub.auth.failures import SignInFailed
from mcphub.auth.home import Home
from mcphub.auth.records import IdpSession, Registration, decoded, idp_key
from mcphub.auth.refresh import revoke
from mcphub.spec import IdpSpec
from mcphub.store.vault_state import VaultUnavailable

#: Seconds for all that the authorization server is told.
TELL = 10.0


class SignedOut(msgspec.Struct, frozen=True):
    """`was`: there was something to forget. `revoked`: the authorization server said that it has forgotten it too; None
    = it has no place to be told, or there was nothing to tell."""

    was: bool
    revoked: bool | None = None


async def sign_out(credential: Credential) -> SignedOut:
    """Give up the tokens of one account, here and there. Raises VaultUnavailable, OSError where they are still here.
    Whoever asks for it may leave: it is done to its end."""

    async def all_of_it() -> SignedOut:
        await credential.landed()
        async with credential.home.turn(credential.key):
            await credential.load()
            tokens, revoked = credential.tokens, None
            if tokens is not None and tokens.revocation_endpoint:
                given = [("refresh_token", tokens.refresh_token), ("access_token", tokens.access_token)]
                client = await credential.client_of(tokens)
                if client is not None:
                    sender = credential.home.sender(credential.account)
                    revoked = await _told(sender, tokens.revocation_endpoint, given, client)
            return SignedOut(await credential.drop() is not None, revoked)

    return await _to_its_end(credential.home, all_of_it)


async def sign_out_of_idp(home: Home, provider: IdpSpec) -> SignedOut:
    """Give up the organisation's login. What servers gave for it stays theirs. Raises as `sign_out` does."""

    async def all_of_it() -> SignedOut:
        key = idp_key(provider.issuer, provider.client_id)
        async with home.turn(key):
            record = await home.safe.get(idp.IDP, key)
            login = decoded(record.data, IdpSession) if record is not None else None
            revoked = None
            if login is not None and login.refresh_token:
                revoked = await _revoked_there(home, provider, login)
            return SignedOut(await home.safe.delete(idp.IDP, key), revoked)

    return await _to_its_end(home, all_of_it)


async def _revoked_there(home: Home, provider: IdpSpec, login: IdpSession) -> bool | None:
    with anyio.move_on_after(TELL):
        try:
            server = await idp.metadata(home, provider)
        except SignInFailed:
            return False
        if not server.revocation_endpoint:
            return None
        client = idp.client_of(provider, server.issuer)
        given = [("refresh_token", login.refresh_token)]
        return await _told(home.idp_sender(provider), server.revocation_endpoint, given, client)
    return False


async def _told(sender: Sender, endpoint: str, given: Sequence[tuple[str, str]], client: Registration) -> bool:
    """Whether it took all of them. The one that gets others is the first: with it the others may end."""
    taken: list[bool] = []
    with anyio.move_on_after(TELL) as telling:
        for hint, token in given:
            if token:
                taken.append(await drive(revoke(endpoint, str(token), hint, client, None), sender))
    return all(taken) and not telling.cancelled_caught


async def _to_its_end(home: Home, work: Callable[[], Awaitable[SignedOut]]) -> SignedOut:
    over = anyio.Event()
    came: list[SignedOut | VaultUnavailable | OSError] = []

    async def done() -> None:
        try:
            came.append(await work())
        except (VaultUnavailable, OSError) as e:
            came.append(e)
        finally:
            over.set()

    home.start(done)
    await over.wait()
    if not came:
        raise OSError("mcphub is stopping")
    if not isinstance(came[0], SignedOut):
        raise came[0]
    return came[0]

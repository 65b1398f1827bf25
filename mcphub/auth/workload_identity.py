"""Owns tokens that a workload gets for the token that its platform gave it (RFC 7523, 2.1; SEP-1933).

It must not keep that token, nor ask for anything else when it is refused: one request, one answer.
"""

from __future__ import annotations

import os

import anyio
import anyio.to_thread

from mcphub.auth import granting
from mcphub.auth.client_credentials import REASONS
from mcphub.auth.drive import drive
from mcphub.auth.failures import FlowFailure, RefreshFailure, SignInFailed, said
from mcphub.auth.occasion import Occasion
from mcphub.auth.records import Registration, TokenSet
from mcphub.auth.token_answer import Granted
from mcphub.auth.unproven import claims_of
from mcphub.spec import AssertionSpec

#: Bytes of a token, and seconds for a program to print it.
MOST = 64 << 10
WITHIN = 10.0


async def obtain(occasion: Occasion) -> TokenSet:
    """Raises SignInFailed."""
    oauth, server = occasion.account.oauth, occasion.discovered.server
    if oauth.assertion is None:
        text = "oauth.assertion must say where the workload's token is: file, env or command"
        raise SignInFailed(FlowFailure.CLIENT_REQUIRED, text)
    assertion = await _read(oauth.assertion, occasion)
    occasion.home.hide(assertion, owner=f"workload {occasion.account.key}")
    _check(assertion, server.issuer, occasion.home.now())
    client = Registration(oauth.client_id, "config", server.issuer, oauth.client_secret)
    fields = {
        "grant_type": granting.JWT_BEARER,
        "assertion": assertion,
        "resource": occasion.discovered.resource.resource,
        "scope": " ".join(occasion.scopes),
    }
    binding = granting.binding_for(occasion)
    found = await drive(
        granting.grant(server, client, fields, None, binding), occasion.home.sender(occasion.account)
    )
    if isinstance(found, Granted):
        return granting.tokens_of(occasion, client, found, binding)
    raise granting.failed(f"{said(server.issuer)} gave no token for the workload's", found, REASONS)


def _check(token: str, issuer: str, now: float) -> None:
    """What would be refused anyway is not sent, above all not to a server that it is not for."""
    claims = claims_of(token)
    if claims is None:
        raise SignInFailed(RefreshFailure.GRANT_REJECTED, "what oauth.assertion names is no JWT")
    audience = claims.get("aud")
    if issuer not in (audience if isinstance(audience, list) else [audience]):
        text = f"the workload's token is for {said(ascii(audience)[1:-1])}, not for {said(issuer)}: it is not sent"
        raise SignInFailed(RefreshFailure.GRANT_REJECTED, text)
    ends = claims.get("exp")
    if isinstance(ends, int | float) and ends <= now:
        raise SignInFailed(RefreshFailure.GRANT_REJECTED, "the workload's token has ended: its platform must renew it")


async def _read(source: AssertionSpec, occasion: Occasion) -> str:
    if source.words:
        text = await occasion.home.printed(source.words, WITHIN, MOST)
    elif source.env:
        text = occasion.home.environment().get(source.env, "")
        if not text:
            raise SignInFailed(FlowFailure.CLIENT_REQUIRED, f"the variable {source.env} of oauth.assertion is not set")
    else:
        text = await anyio.to_thread.run_sync(_file, source)
    return text.strip()


def _file(source: AssertionSpec) -> str:
    try:
        descriptor = os.open(source.file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            with open(descriptor, "rb", closefd=False) as file:
                return (file.read(MOST) or b"").decode("ascii")
        finally:
            os.close(descriptor)
    except OSError as e:
        text = f"cannot read oauth.assertion.file {source.shown or source.file}: {e.strerror or e}"
        raise SignInFailed(FlowFailure.CLIENT_REQUIRED, text) from None
    except UnicodeDecodeError:
        raise SignInFailed(RefreshFailure.GRANT_REJECTED, "oauth.assertion.file holds no JWT") from None

"""Owns the routes of the noun sign-in: begin one and follow it, hand over what a browser was sent to, end it.

It must not open a browser, nor know how tokens are had. Where a person goes holds a secret of that sign-in: it is for
its owner only.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from mcphub.control.hub import Hub
from mcphub.control.wire import LoginBody, LogoutBody, PasteBody, Reply, Request, read_body

#: Seconds without news after which a stream sends an empty line, so that either side notices a dead one.
HEARTBEAT = 15.0


async def post_login(hub: Hub, request: Request) -> AsyncGenerator[object, None]:
    """Sign in to a server, as a stream of NDJSON: where the browser must go, and then how it ended. Hanging up cancels.

    A sign-in that was under way is superseded; what was signed in stays so until this one is done. A server whose entry
    says `xaa` is signed in to at the organisation's identity provider, for all of them.

    Body: `workspace` (default none).
    Answers: lines of `LoginReport`, the last with `done` or `failed`, with an empty one as a heartbeat; 404 for an
    unknown name, 409 where nobody can sign in to it.
    """
    body = read_body(request.body, LoginBody)
    workspace = body.workspace or request.workspace
    async with aclosing(hub.login(workspace, request.path["name"], HEARTBEAT)) as reports:
        async for report in reports:
            yield report


async def post_paste(hub: Hub, request: Request) -> Reply:
    """Hand over the address that the browser was sent to, where it could not get here by itself.

    Body: `url`, `workspace` (default none).
    Answers: `PasteReport`; 404 for an unknown name, 409 where no sign-in waits for it.
    """
    body = read_body(request.body, PasteBody)
    return Reply(hub.paste(body.workspace or request.workspace, request.path["name"], body.url))


async def post_logout(hub: Hub, request: Request) -> Reply:
    """Give up the tokens of a server: they are revoked where its authorization server has a place for that, and
    forgotten here in any case. The organisation's login stays.

    Body: `workspace` (default none).
    Answers: `LogoutReport`; 404 for an unknown name, 409 where nobody can sign in to it, or the vault is locked.
    """
    body = read_body(request.body, LogoutBody)
    return Reply(await hub.logout(body.workspace or request.workspace, request.path["name"]))


async def post_logout_all(hub: Hub, request: Request) -> Reply:
    """The same for every server of the workspace that somebody is signed in to, and for the organisation's login.

    Body: `workspace` (default none).
    Answers: `LogoutReport`; 409 where the vault is locked.
    """
    body = read_body(request.body, LogoutBody)
    return Reply(await hub.logout(body.workspace or request.workspace, None))

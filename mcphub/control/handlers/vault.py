"""Owns the routes of the nouns vault and secret: how it stands, unlock, rotate; names, set, remove.

It must not know files, keys or servers. A value comes in by a body and never goes out again.
"""

from __future__ import annotations

from mcphub.control.hub import Hub
from mcphub.control.wire import Reply, Request, RotateBody, SecretBody, UnlockBody, read_body


async def get_vault(hub: Hub, request: Request) -> Reply:
    """Whether tokens and secrets can be had, and if not, why and what to do.

    Query: none.
    Answers: `VaultReport`.
    """
    return Reply(await hub.vault())


async def post_unlock(hub: Hub, request: Request) -> Reply:
    """Ask the source of the vault's key again; every server that waited for it is tried at once.

    Body: `passphrase` where the key is made from one; `start_over` (default false) sets a vault aside that cannot be
    opened, and begins with an empty one.
    Answers: `VaultReport`, also where it is locked still; 409 where a passphrase is wrong, or there is nothing to start
    over.
    """
    body = read_body(request.body, UnlockBody)
    return Reply(await hub.unlock_vault(body.passphrase, body.start_over))


async def post_rotate(hub: Hub, request: Request) -> Reply:
    """Seal everything with a new key, and keep that where the old one was.

    Body: `passphrase`, the new one, where the key is made from one.
    Answers: `VaultReport`; 409 where it cannot be done.
    """
    body = read_body(request.body, RotateBody)
    return Reply(await hub.rotate_vault(body.passphrase))


async def get_secrets(hub: Hub, request: Request) -> Reply:
    """The names of all secrets, and which servers refer to each.

    Query: `workspace` (whose servers are looked at too, default none).
    Answers: `SecretsReport`; 409 while the vault is locked.
    """
    return Reply(await hub.secrets(request.workspace))


async def post_secret(hub: Hub, request: Request) -> Reply:
    """Keep a secret, or another value for it: servers whose entries refer to it are started again, no others.

    Body: `name`, `value` (text), `workspace` (default none).
    Answers: `SecretReport`; 400 for a name that no reference can have, 409 while the vault is locked.
    """
    body = read_body(request.body, SecretBody)
    return Reply(await hub.set_secret(body.workspace or request.workspace, body.name, body.value))


async def delete_secret(hub: Hub, request: Request) -> Reply:
    """Take a secret away; servers whose entries refer to it stop.

    Query: `workspace` (default none).
    Answers: `SecretReport`; 404 where there is none of this name, 409 while the vault is locked.
    """
    return Reply(await hub.remove_secret(request.workspace, request.path["name"]))

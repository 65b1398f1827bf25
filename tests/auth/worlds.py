"""Owns an authorization server, a server that it guards and a hub for one test, and what is done with them.

It must not know what is tested.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcphub.auth.credential import Credential
from mcphub.auth.records import TokenSet, decoded
from mcphub.errors import TransportError
from mcphub.store.vault_file import VaultFile
from tests.auth.homes import Clock, Hub, call, client, hub, server, tokens
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_as import Family, Guarded, RudeAs
from tests.fakes.rude_http import RudeHttp


class World:
    """An authorization server, a server that it guards, a hub, and a sign-in of it."""

    def __init__(self, auth: RudeAs, guarded: Guarded, mcp: RudeHttp, home: Hub, clock: Clock, path: Path) -> None:
        self.auth, self.guarded, self.mcp, self.hub, self.clock, self.path = auth, guarded, mcp, home, clock, path
        self.spec = server(mcp.url)
        self.credential = home.of(self.spec)
        self.family: Family | None = None

    async def sign_in(self, **more: Any) -> Family:
        self.family = self.auth.signed_in(scopes=more.pop("scopes", ""))
        await self.credential.take(tokens(self.auth, self.family, self.clock, **more))
        return self.family

    @asynccontextmanager
    async def restarted(self) -> AsyncIterator[Credential]:
        """The credential as another daemon has it, on the same files."""
        async with hub(self.path, self.clock) as other:
            yield other.of(self.spec)

    async def calls(self, credential: Credential | None = None) -> int:
        """One call over a connection of its own."""
        async with client(credential or self.credential) as made:
            return await call(made)

    async def kept(self) -> str:
        """The refresh token in the vault, "" = there are none."""
        record = await self.hub.vault.get("tokens", self.credential.key)
        return "" if record is None else self.decoded(record.data)

    def on_disk(self) -> str:
        """The same, as another process finds it."""
        file = VaultFile(str(self.path / "vault" / "vault"), f"file:{self.path / 'vault.key'}", {})
        record = file.get("tokens", self.credential.key)
        return "" if record is None else self.decoded(record.data)

    @staticmethod
    def decoded(data: bytes) -> str:
        found = decoded(data, TokenSet)
        assert found is not None
        return str(found.refresh_token)


@asynccontextmanager
async def made(path: Path) -> AsyncIterator[World]:
    """All of it, until the end of the test."""
    clock = Clock()
    async with RudeAs(clock) as auth:
        guarded = Guarded(auth, OrdinaryMcp(sessions=False))
        async with RudeHttp(guarded) as mcp, hub(path, clock) as home:
            auth.protects(mcp.url)
            yield World(auth, guarded, mcp, home, clock, path)


async def refusal(world: World, credential: Credential | None = None) -> TransportError:
    with pytest.raises(TransportError) as caught:
        await world.calls(credential)
    return caught.value

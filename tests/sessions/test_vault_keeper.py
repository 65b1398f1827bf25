"""What follows from news of the vault."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from mcphub.connection.machine import Connected, NeedsAuth
from mcphub.sessions import vault_keeper
from mcphub.sessions.vault_keeper import VaultKeeper
from mcphub.store.vault_file import VaultFile
from mcphub.store.vault_state import Trouble, VaultState
from tests.connection.workers import fake
from tests.sessions.house import House, house

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def kept() -> AsyncIterator[House]:
    """A house whose vault has a secret that the server `a` needs; its key is away, and its keeper runs."""
    async with house() as home:
        file = VaultFile(home.places.vault, f"file:{home.root}/vault.key", {})
        file.put("secret", "gh", b"tok-12345")
        (home.root / "vault.key").rename(home.root / "away")
        transport = fake({}).transport
        entries = {
            name: {"command": transport.command, "args": list(map(str, transport.args)), "env": env}  # type: ignore[union-attr]
            for name, env in (("a", {"TOKEN": "${secret:gh}"}), ("b", {}))
        }
        (home.root / "config" / "mcp.json").write_text(json.dumps({"mcpServers": entries}), "utf-8")
        async with anyio.create_task_group() as tasks:
            quiet = anyio.Event()  # it never is: the secret that is asked for has the vault opened
            tasks.start_soon(VaultKeeper(home.vault, home.workspaces, home.supervisor, home.log).run, quiet)
            await home.workspaces.tick(again=True)
            await home.vault.newer_than(1)
            yield home
            tasks.cancel_scope.cancel()


async def test_a_locked_vault_stops_nobody_else() -> None:
    """Who refers to a secret fails by its name, the other runs; once it is open, only the first one is started."""
    async with kept() as home:
        await home.up("b")
        assert home.state("a") == ""
        outcome = home.workspaces.loaded[""].resolved.servers["a"].outcome
        assert "${secret:gh}: cannot open the vault" in outcome.message  # type: ignore[union-attr]
        assert any("its key is not there" in line for line in home.logged)
        (before,) = [worker for worker in home.supervisor.workers.values() if worker.name == "b"]
        (home.root / "away").rename(home.root / "vault.key")
        await home.vault.unlock()
        await home.up("a", "b")
        (after,) = [worker for worker in home.supervisor.workers.values() if worker.name == "b"]
        assert after is before
        assert "tok-12345" in home.hidden
        assert not any("tok-12345" in line for line in home.logged)


async def test_who_waits_for_a_person_is_tried_again() -> None:
    """What a server misses may be in the vault that was just opened."""
    async with kept() as home:
        await home.up("b")
        (worker,) = [worker for worker in home.supervisor.workers.values() if worker.name == "b"]
        worker.state = NeedsAuth("sign in")
        (home.root / "away").rename(home.root / "vault.key")
        await home.vault.unlock()
        await home.until(lambda: isinstance(worker.state, Connected))


async def test_a_key_that_comes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to tell that the key is there again."""
    monkeypatch.setattr(vault_keeper, "RETRY", 0.05)
    async with kept() as home:
        await home.up("b")
        (home.root / "away").rename(home.root / "vault.key")
        await home.up("a", "b")
        assert sum("its key is not there" in line for line in home.logged) == 1


async def test_a_secret_that_changes() -> None:
    """Another process changed it: the server that refers to it is another one, the others are the same."""
    async with kept() as home:
        (home.root / "away").rename(home.root / "vault.key")
        await home.vault.unlock()
        await home.up("a", "b")
        before = dict(home.supervisor.workers)
        VaultFile(home.places.vault, f"file:{home.root}/vault.key", {}).put("secret", "gh", b"tok-67890")
        await home.vault.list("secret")
        await home.until(lambda: home.supervisor.workers.keys() != before.keys())
        await home.up("a", "b")
        assert {key.name for key in before.keys() - home.supervisor.workers.keys()} == {"a"}
        assert "tok-67890" in home.hidden


async def test_nobody_asks_for_a_secret() -> None:
    """The vault is opened when the start is over."""
    async with house() as home:
        VaultFile(home.places.vault, f"file:{home.root}/vault.key", {}).put("tokens", "a", b"x")
        quiet = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(VaultKeeper(home.vault, home.workspaces, home.supervisor, home.log).run, quiet)
            await anyio.wait_all_tasks_blocked()
            assert home.vault.state.trouble is Trouble.OPENING
            quiet.set()
            await home.vault.newer_than(1)
            assert home.vault.state == VaultState(home.vault.file.source)
            tasks.cancel_scope.cancel()

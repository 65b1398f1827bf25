"""The daemon's way to its vault."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from mcphub.store.key_sources.os_store import OsStore
from mcphub.store.sealed_file import Head, Key
from mcphub.store.vault import GenerationConflict, Trouble, Vault, VaultUnavailable

pytestmark = pytest.mark.anyio


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Vault]:
    return lambda **more: Vault(str(tmp_path / "s" / "vault"), f"file:{tmp_path / 'key'}", {}, **more)


async def test_records(make: Callable[..., Vault]) -> None:
    """All of the interface, from coroutines."""
    vault = make()
    assert (await vault.open()).usable
    await vault.ready()
    gen = await vault.put("tokens", "a", b"1", 0)
    assert (await vault.list("tokens"))["a"].gen == gen
    with pytest.raises(GenerationConflict):
        await vault.put("tokens", "a", b"2", gen + 5)
    assert not await vault.delete("tokens", "a", gen + 5)
    await vault.rotate()
    again = make()
    await again.open()
    found = await again.get("tokens", "a")
    assert found is not None and (found.data, found.gen) == (b"1", gen)
    assert await vault.delete("tokens", "a", gen) and await again.get("tokens", "a") is None


async def test_news(make: Callable[..., Vault], tmp_path: Path) -> None:
    """Another state or another secret is news; tokens that were renewed are none."""
    vault = make()
    before = vault.revision
    await vault.open()
    assert vault.revision > before
    for change, news in (
        (lambda: vault.put("tokens", "a", b""), False),
        (lambda: vault.put("secret", "a", b""), True),
        (lambda: vault.get("secret", "a"), False),
        (lambda: vault.delete("secret", "a"), True),
    ):
        before = vault.revision
        await change()
        assert (vault.revision > before) == news
    (tmp_path / "s" / "vault").write_bytes(b"x")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(vault.newer_than, vault.revision)
        with pytest.raises(VaultUnavailable):
            await vault.get("tokens", "a")
    assert vault.state.trouble is Trouble.DAMAGED


async def test_sought(make: Callable[..., Vault]) -> None:
    """A secret that a thread asks for too early is told to the loop."""
    await make().put("secret", "gh", b"tok")
    vault = make()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, vault.file.secret, "gh")
            await vault.sought()
            await vault.open()
    assert vault.file.secret("gh") == "tok" and not vault.file.refused


async def test_retry(make: Callable[..., Vault], tmp_path: Path) -> None:
    """What came by itself is found; a source that would ask a person is let alone."""
    await make().put("tokens", "a", b"")
    (tmp_path / "key").rename(tmp_path / "away")
    vault = make()
    await vault.open()
    revision = vault.revision
    await vault.retry()
    assert vault.revision == revision and vault.state.trouble is Trouble.NO_KEY
    (tmp_path / "away").rename(tmp_path / "key")
    await vault.retry()
    assert vault.state.usable and vault.revision > revision
    locked = Vault(vault.file.path, "passphrase", {})
    await locked.retry()
    assert locked.state.trouble is Trouble.OPENING


class Slow:
    """A source of keys that blocks until it is let go. Implements KeySource."""

    label = "the key ring"
    makes = True

    def __init__(self) -> None:
        self.free = threading.Event()
        self.kept: Key | None = None

    def missing(self) -> None:
        pass

    def quiet(self) -> bool:
        return False

    def keys(self, head: Head | None) -> tuple[Key, ...]:
        self.free.wait(30)
        return (self.kept,) if self.kept is not None else ()

    def keep_next(self, key: Key) -> None:
        self.kept = key

    def promote(self, key: Key) -> None:
        self.kept = key


async def test_a_key_ring_that_asks(make: Callable[..., Vault]) -> None:
    """Nobody waits longer than the deadline, nothing is asked twice; what the person says later still counts."""
    source = Slow()
    source.free.set()
    first = make()
    first.file._source = source
    await first.put("secret", "gh", b"tok")
    source.free.clear()

    vault = make(deadline=0.1)
    vault.file._source, vault.file.source = source, OsStore.label
    began = time.monotonic()
    state = await vault.open()
    assert state.trouble is Trouble.WAITING and "on your screen" in state.detail
    for _ in range(3):
        with pytest.raises(VaultUnavailable) as caught:
            await vault.get("secret", "gh")
        assert caught.value.trouble is Trouble.WAITING
    with pytest.raises(VaultUnavailable, match="did not answer"):
        vault.file.secret("gh")
    assert time.monotonic() - began < 5
    revision = vault.revision
    source.free.set()
    with anyio.fail_after(5):
        await vault.newer_than(revision)
    assert vault.state.usable and vault.file.secret("gh") == "tok"
    assert (await vault.get("secret", "gh")) is not None


async def test_a_caller_that_leaves(make: Callable[..., Vault]) -> None:
    """A put that was begun is on the disk, whoever still waits for it."""
    vault = make()
    source = vault.file._source = Slow()
    with anyio.move_on_after(0.05):
        await vault.put("tokens", "a", b"1")
    source.free.set()
    found = await vault.get("tokens", "a")
    assert found is not None and found.data == b"1"

"""The key in the system's key ring, against a real one: unlocked, locked with and without a screen, absent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcphub.store.key_sources import os_store
from mcphub.store.key_sources.os_store import CURRENT, NEXT, SERVICE, OsStore
from mcphub.store.sealed_file import Head, Key
from mcphub.store.vault import Trouble, VaultUnavailable
from mcphub.store.vault_file import VaultFile
from tests.fakes.key_ring import Session, key_ring

KEY, OTHER = Key(b"k" * 32), Key(b"o" * 32)
HEAD = Head(1, KEY.mark, bytes(16))


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests keeps their own key ring to themselves."""
    for name in ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with a key ring that has a vault's key in it; what is asked of it comes with every answer."""
    root = tmp_path_factory.mktemp("ring")
    with key_ring(root, "unlocked") as leads, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DBUS_SESSION_BUS_ADDRESS", leads.variables["DBUS_SESSION_BUS_ADDRESS"])
        patch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
        source = OsStore()
        assert source.keys(HEAD) == ()
        source.promote(KEY)
        source.keep_next(OTHER)
        assert source.keys(HEAD) == (KEY, OTHER) and source.keys(None) == (KEY,)
        source.promote(OTHER)
        assert OsStore().keys(HEAD) == (OTHER,)
        # As a daemon that a host started whose own environment was cut down.
        address = leads.variables["DBUS_SESSION_BUS_ADDRESS"]
        (root / "bus").symlink_to(address.removeprefix("unix:path=").partition(",")[0])
        patch.delenv("DBUS_SESSION_BUS_ADDRESS")
        patch.setenv("XDG_RUNTIME_DIR", str(root))
        assert OsStore().keys(HEAD) == (OTHER,)
        patch.setenv("DBUS_SESSION_BUS_ADDRESS", address)
        vault = VaultFile(str(root / "state" / "vault"), "os", {})
        vault.put("secret", "gh", b"tok")
        vault.rotate()
        again = VaultFile(vault.path, "os", {})
        assert again.secrets_mark == 0 and again.get("secret", "gh") is not None
    yield root


def test_unlocked(root: Path) -> None:
    """Kept, found by another process, replaced; nothing chooses another backend, and the file has no word of it."""
    sealed = (root / "state" / "vault").read_bytes()
    assert b"tok" not in sealed and b"gh" not in sealed


def child(root: Path, leads: Session, script: str) -> dict[str, object]:
    """What a process of its own says; it ends, whatever its threads wait for."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[3]), **leads.variables}
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN + script, str(root / "state" / "vault")],
        env=environment,
        capture_output=True,
        timeout=20,
        check=True,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


#: A process of its own, since keyring leaves the connection open over which it was refused.
_BEGIN = """\
import anyio, json, sys, time
from mcphub.store.vault import Vault, VaultUnavailable
vault = Vault(sys.argv[1], "os", {}, deadline=10)
said = {}
async def refused(call):
    try:
        await call()
    except VaultUnavailable as error:
        return str(error.trouble)
"""


def test_locked_without_a_screen(root: Path) -> None:
    """The vault is locked and says what to do; its file is left alone, and no other key is made."""
    before = (root / "state" / "vault").read_bytes()
    script = """\
async def main():
    state = await vault.open()
    said.update(open=state.trouble, detail=state.detail)
    said["put"] = await refused(lambda: vault.put("secret", "gh", b""))
anyio.run(main)
print(json.dumps(said))
"""
    with key_ring(root, "locked") as leads:
        said = child(root, leads, script)
        quiet = "print(json.dumps({'quiet': vault.file._source.quiet()}))"
        assert child(root, leads, quiet) == {"quiet": False}
        leads.unlock()
        assert child(root, leads, quiet) == {"quiet": True}
    assert (said["open"], said["put"]) == ("locked", "locked")
    assert "it is locked" in str(said["detail"]) and "mcphub vault unlock" in str(said["detail"])
    assert (root / "state" / "vault").read_bytes() == before


def test_locked_with_a_screen(root: Path) -> None:
    """While a window asks a person, nobody waits beyond the deadline, the key ring is asked once, and a process can
    end; when the window is closed, the state follows."""
    script = """\
async def main():
    vault.deadline = 0.5
    began = time.monotonic()
    said["open"] = (await vault.open()).trouble
    said["next"] = [await refused(lambda: vault.get("secret", "gh")) for _ in range(3)]
    said["seconds"] = time.monotonic() - began
    if len(sys.argv) > 2:
        revision = vault.revision
        import os
        os.close(os.open(sys.argv[2], os.O_WRONLY))
        with anyio.fail_after(10):
            await vault.newer_than(revision)
        said["then"] = vault.state.trouble
anyio.run(main)
print(json.dumps(said))
"""
    with key_ring(root, "locked", asks=True) as leads:
        said = child(root, leads, script)
        assert (said["open"], said["next"]) == ("waiting", ["waiting"] * 3)
        assert isinstance(said["seconds"], float) and said["seconds"] < 5
        leads.dismiss()
        said = child(root, leads, f"sys.argv.append({str(leads.pipe)!r})\n" + script)
        assert (said["open"], said["then"]) == ("waiting", "locked")


def test_absent(root: Path) -> None:
    """Without a bus, or with one that has no key ring, it is said which other sources there are."""
    assert not OsStore().quiet()
    with pytest.raises(VaultUnavailable, match=r'\[vault\] key = "file:PATH"') as caught:
        OsStore().keys(None)
    assert caught.value.trouble is Trouble.NO_STORE
    with key_ring(root, "absent") as leads:
        said = child(root, leads, "print(json.dumps({'open': anyio.run(vault.open).trouble}))")
    assert said == {"open": "no_store"}


def test_backends_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """None that keeps plain text, keeps nothing, asks on a terminal or chooses among others is ever taken."""
    names = {f"{module}.{name}" for _, module, name in os_store.BACKENDS}
    assert names == {
        "keyring.backends.SecretService.Keyring",
        "keyring.backends.kwallet.DBusKeyring",
        "keyring.backends.macOS.Keyring",
        "keyring.backends.Windows.WinVaultKeyring",
    }
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    with pytest.raises(VaultUnavailable, match="cannot find a key ring"):
        OsStore().keys(None)


class Ring:
    """A backend that does as it is told, for what a real one does not do on demand."""

    priority = 1.0
    answers: dict[str, str]
    raises: Exception | None = None
    forgets = False

    def get_password(self, service: str, name: str) -> str | None:
        assert service == SERVICE
        if self.raises is not None:
            raise self.raises
        return self.answers.get(name)

    def set_password(self, service: str, name: str, value: str) -> None:
        if not self.forgets:
            self.answers[name] = value


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> type[Ring]:
    kind = type("Ring", (Ring,), {"answers": {}})
    module = types.ModuleType("some_ring")
    module.Keyring = kind  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "some_ring", module)
    monkeypatch.setattr(os_store, "BACKENDS", ((sys.platform, "some_ring", "Keyring"),))
    return kind


def test_a_ring_that_fails(ring: type[Ring]) -> None:
    """Whatever it raises, what it held is in no message; an entry that is no key is not written over."""
    ring.raises = RuntimeError("D-Bus\nsaid " + "x" * 500)
    with pytest.raises(VaultUnavailable, match="cannot use the key ring: D-Bus said x") as caught:
        OsStore().keys(None)
    assert len(str(caught.value)) < 400 and caught.value.__context__ is None
    ring.raises = None
    for name in (CURRENT, NEXT):
        ring.answers = {name: "somebody's password"}
        with pytest.raises(VaultUnavailable, match=f"mcphub/{name}") as caught:
            OsStore().keys(HEAD)
        assert "somebody" not in str(caught.value)
    ring.answers, ring.forgets = {}, True
    with pytest.raises(VaultUnavailable, match="does not have it"):
        OsStore().promote(KEY)

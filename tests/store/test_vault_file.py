"""The vault's file: records, generations, its key, and what becomes of it when something is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mcphub.store import atomicfile, vault_file
from mcphub.store.key_sources import passphrase
from mcphub.store.key_sources.key_file import KeyFile
from mcphub.store.sealed_file import Key
from mcphub.store.vault_file import VaultFile
from mcphub.store.vault_state import GenerationConflict, Record, Trouble, VaultUnavailable


class Home:
    """A directory for a vault whose key is in a file."""

    def __init__(self, root: Path) -> None:
        self.directory = root / "state"
        self.path = self.directory / "vault"
        self.key = root / "key"

    def vault(self, choice: str = "") -> VaultFile:
        return VaultFile(str(self.path), choice or f"file:{self.key}", {})


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def trouble(call: Callable[[], object]) -> tuple[Trouble, str]:
    with pytest.raises(VaultUnavailable) as caught:
        call()
    return caught.value.trouble, str(caught.value)


# --- records ---------------------------------------------------------------------------------------------------------


def test_records(home: Home) -> None:
    """By kind and key, any bytes; what is kept is there for the next process; the directory is its owner's alone."""
    vault = home.vault()
    vault.open()
    assert vault.state.usable and not vault.exists() and not home.key.exists()
    assert vault.get("tokens", "a") is None and vault.list("tokens") == {}
    first = vault.put("tokens", "a", b"\x00\xff")
    second = vault.put("secret", "../**\n", b"")
    assert 0 < first < second
    again = home.vault()
    assert again.get("tokens", "a") == Record(b"\x00\xff", first)
    assert again.list("secret") == {"../**\n": Record(b"", second)}
    assert again.get("secret", "a") is None
    assert home.directory.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in home.directory.iterdir())


def test_an_umask_opens_nothing(home: Home) -> None:
    """C115: under umask 0 all of it is still its owner's alone."""
    before = os.umask(0)
    try:
        home.vault().put("tokens", "a", b"x")
    finally:
        os.umask(before)
    paths = [home.directory, home.key, *home.directory.iterdir()]
    assert [path.stat().st_mode & 0o077 for path in paths] == [0] * len(paths)


def test_generations(home: Home) -> None:
    """A put or delete that expects another generation changes nothing; one that was deleted never comes again."""
    vault = home.vault()
    first = vault.put("tokens", "a", b"1", 0)
    with pytest.raises(GenerationConflict) as caught:
        vault.put("tokens", "a", b"2", 0)
    assert caught.value.current == Record(b"1", first)
    second = vault.put("tokens", "a", b"2", first)
    before = home.path.read_bytes()
    with pytest.raises(GenerationConflict):
        vault.put("tokens", "a", b"3", first)
    assert not vault.delete("tokens", "a", first)
    assert not vault.delete("tokens", "b")
    assert home.path.read_bytes() == before
    assert vault.get("tokens", "a") == Record(b"2", second)
    assert vault.delete("tokens", "a", second)
    with pytest.raises(GenerationConflict) as caught:
        vault.put("tokens", "a", b"4", second)
    assert caught.value.current is None
    assert vault.put("tokens", "a", b"4", 0) > second


def test_the_file_says_nothing_without_its_key(home: Home) -> None:
    """S12: names, kinds and values are in no file but sealed, and in no text of an object; every writing is another."""
    vault = home.vault()
    vault.put("secret", "github-token", b"ghp_value")
    first = home.path.read_bytes()
    vault.put("secret", "github-token", b"ghp_value")
    assert home.path.read_bytes()[54:66] != first[54:66]
    texts = [path.read_bytes() for path in home.directory.iterdir()]
    texts.append((repr(vars(vault)) + repr(vault.get("secret", "github-token"))).encode())
    for word in (b"github-token", b"ghp_value", b"secret'", home.key.read_bytes().strip()):
        assert not any(word in text for text in texts)


def test_many_writers_lose_nothing(home: Home) -> None:
    """Two daemons on one store: each change reads what the other wrote before."""
    home.vault().put("tokens", "start", b"")

    def write(name: str) -> None:
        vault = home.vault()
        for number in range(8):
            vault.put("tokens", f"{name}{number}", name.encode())
            assert vault.get("tokens", f"{name}{number}") is not None
            warnings.add(vault.state.warning)

    warnings: set[str] = set()
    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(home.vault().list("tokens")) == 25
    assert warnings == {""}


def test_one_of_two_wins(home: Home) -> None:
    """Compare-and-set holds between processes: of two that saw the same generation one is told of the other."""
    one, two = home.vault(), home.vault()
    gen = one.put("tokens", "a", b"0")
    assert two.get("tokens", "a") == Record(b"0", gen)
    one.put("tokens", "a", b"1", gen)
    with pytest.raises(GenerationConflict) as caught:
        two.put("tokens", "a", b"2", gen)
    assert caught.value.current is not None and caught.value.current.data == b"1"


def test_two_that_make_the_first_key(home: Home) -> None:
    """Whoever comes second takes the key of the first, whatever both saw before."""
    one, two = home.vault(), home.vault()
    one.open()
    two.open()
    one.ready()
    two.ready()
    two.put("tokens", "b", b"2")
    one.put("tokens", "a", b"1")
    assert set(home.vault().list("tokens")) == {"a", "b"}


def test_killed_at_any_moment(home: Home) -> None:
    """What was kept before is there, and the next writer is not hindered by what a killed one left."""
    home.vault().put("tokens", "kept", b"x")
    script = (
        "import sys; from mcphub.store.vault_file import VaultFile\n"
        "vault = VaultFile(sys.argv[1], sys.argv[2], {})\n"
        "print('ready', flush=True)\n"
        "for number in range(10**9): vault.put('tokens', 'n', str(number).encode())\n"
    )
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", script, str(home.path), f"file:{home.key}"], stdout=subprocess.PIPE
        )
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        while not home.path.exists():
            pass
        child.kill()
        child.wait()
        child.stdout.close()
        vault = home.vault()
        vault.put("tokens", "after", b"y")
        assert vault.state.warning == ""
        assert {"kept", "after"} <= set(vault.list("tokens"))


# --- what is wrong with the file -------------------------------------------------------------------------------------


def test_a_damaged_file_stays(home: Home) -> None:
    """C115: it is never taken for empty and never written over; a person may set it aside, and it is still there."""
    vault = home.vault()
    last = vault.put("tokens", "a", b"x")
    data = bytearray(home.path.read_bytes())
    data[-1] ^= 1
    for content in (bytes(data), b"", b"x", bytes(data[:40])):
        home.path.write_bytes(content)
        for call in (
            vault.open,
            lambda: vault.get("tokens", "a"),
            lambda: vault.put("tokens", "a", b"y"),
            lambda: vault.delete("tokens", "a"),
            lambda: vault.list("tokens"),
            vault.rotate,
            vault.ready,
        ):
            kind, message = trouble(call)
            assert kind is Trouble.DAMAGED and str(home.path) in message and "--start-over" in message
        assert home.path.read_bytes() == content
        assert vault.state.trouble is Trouble.DAMAGED
    vault.unlock(start_over=True)
    home.path.write_bytes(b"again")
    vault.unlock(start_over=True)
    assert vault.state.usable and vault.list("tokens") == {}
    assert Path(f"{home.path}.set-aside-1").read_bytes() == bytes(data[:40])
    assert Path(f"{home.path}.set-aside-2").read_bytes() == b"again"
    assert vault.put("tokens", "a", b"z") > last
    home.path.write_bytes(b"once more")
    fresh = home.vault()
    fresh.unlock(start_over=True)
    assert fresh.put("tokens", "a", b"z") > last


def test_what_can_be_opened_is_not_set_aside(home: Home) -> None:
    """A person who is wrong loses nothing."""
    vault = home.vault()
    vault.put("tokens", "a", b"x")
    assert "can be opened" in trouble(lambda: vault.unlock(start_over=True))[1]
    assert home.vault().get("tokens", "a") is not None


def test_a_lost_key(home: Home) -> None:
    """No other key is made while a file waits for its own; put back, it opens."""
    vault = home.vault()
    vault.put("tokens", "a", b"x")
    key = home.key.read_bytes()
    home.key.unlink()
    new = home.vault()
    assert trouble(new.open)[0] is Trouble.NO_KEY
    assert trouble(lambda: new.put("tokens", "b", b""))[0] is Trouble.NO_KEY
    assert not home.key.exists()
    KeyFile(str(home.key)).promote(Key(b"o" * 32))
    assert trouble(new.open)[0] is Trouble.WRONG_KEY
    home.key.write_bytes(key)
    new.unlock()
    assert new.state.usable and new.get("tokens", "a") is not None


@pytest.mark.parametrize("mode", [0o640, 0o644, 0o660, 0o602])
def test_a_file_that_others_may_use(home: Home, mode: int) -> None:
    """C115: refused with what to do, not closed in silence; S20."""
    vault = home.vault()
    vault.put("tokens", "a", b"x")
    home.path.chmod(mode)
    kind, message = trouble(lambda: vault.get("tokens", "a"))
    assert kind is Trouble.PERMISSIONS and f"chmod 600 {home.path}" in message
    assert trouble(lambda: vault.put("tokens", "a", b"y"))[0] is Trouble.PERMISSIONS
    assert home.path.stat().st_mode & 0o777 == mode
    home.path.chmod(0o600)
    assert vault.get("tokens", "a") is not None


def test_a_directory_that_others_may_use(home: Home) -> None:
    """S20: its mode counts as the file's does."""
    home.directory.mkdir(mode=0o755)
    home.directory.chmod(0o755)
    kind, message = trouble(lambda: home.vault().put("tokens", "a", b"x"))
    assert kind is Trouble.PERMISSIONS and f"chmod 700 {home.directory}" in message


def test_a_file_of_somebody_else(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """S20: what another user put there is not ours, whatever its mode."""
    home.vault().put("tokens", "a", b"x")
    uid = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    kind, message = trouble(lambda: home.vault().get("tokens", "a"))
    assert kind is Trouble.PERMISSIONS and "belongs to uid" in message


def test_what_stands_in_its_place(home: Home) -> None:
    """C115: a link, a directory, a FIFO are refused at once and left alone."""
    home.directory.mkdir(mode=0o700)
    makes: list[Callable[[], None]] = [
        lambda: home.path.symlink_to(home.directory / "x"),
        home.path.mkdir,
        lambda: os.mkfifo(home.path),
    ]
    for make in makes:
        make()
        for call in (home.vault().open, lambda: home.vault().put("tokens", "a", b"x")):
            assert trouble(call)[0] is Trouble.PERMISSIONS
        home.path.rmdir() if home.path.is_dir() else home.path.unlink()


def test_a_newer_version(home: Home) -> None:
    """What only a newer mcphub knows is not lost."""
    home.vault().put("tokens", "a", b"x")
    data = bytearray(home.path.read_bytes())
    data[13] = 9
    home.path.write_bytes(data)
    assert trouble(home.vault().open)[0] is Trouble.NEWER
    assert trouble(lambda: home.vault().put("tokens", "b", b""))[0] is Trouble.NEWER
    assert home.path.read_bytes() == bytes(data)


def test_an_older_file_is_noticed(home: Home) -> None:
    """One that was put back is used, and said; generations go on from the higher one, also in the next process."""
    vault = home.vault()
    vault.put("tokens", "a", b"1")
    older = home.path.read_bytes()
    last = vault.put("tokens", "a", b"2")
    home.path.write_bytes(older)
    for seen in (vault, home.vault()):
        found = seen.get("tokens", "a")
        assert found is not None and found.data == b"1"
        assert "older one" in seen.state.warning and seen.state.usable
    assert home.vault().put("tokens", "a", b"3") > last
    fresh = home.vault()
    fresh.open()
    assert fresh.state.warning == ""


def test_a_disk_that_takes_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A put that failed says so, what was there stays, and it is no older file afterwards."""
    vault = home.vault()
    vault.put("tokens", "a", b"1")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(atomicfile, "_replace", full)
        kind, message = trouble(lambda: vault.put("tokens", "a", b"2"))
    assert kind is Trouble.IO and "No space left" in message
    found = vault.get("tokens", "a")
    assert found is not None and found.data == b"1" and vault.state.warning == ""


# --- keys ------------------------------------------------------------------------------------------------------------


def test_rotate(home: Home) -> None:
    """Another key, the same records; one that had the old key in hand finds the new one; the old opens nothing."""
    vault, other = home.vault(), home.vault()
    gen = vault.put("tokens", "a", b"x")
    assert other.get("tokens", "a") is not None
    old, sealed = home.key.read_bytes(), home.path.read_bytes()
    vault.rotate()
    assert home.key.read_bytes() != old and not Path(f"{home.key}.next").exists()
    for one in (vault, other, home.vault()):
        assert one.get("tokens", "a") == Record(b"x", gen)
    assert home.path.read_bytes()[22:30] != sealed[22:30]
    home.key.write_bytes(old)
    assert trouble(home.vault().open)[0] is Trouble.WRONG_KEY


@pytest.mark.parametrize("step", ["before", "after"])
def test_rotate_that_was_cut_short(home: Home, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At no moment is the key of the file nowhere; the next rotation clears up."""
    vault = home.vault()
    vault.put("tokens", "a", b"x")

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if step == "before":
            replace = atomicfile._replace
            patch.setattr(
                atomicfile, "_replace", lambda path, *rest: dies() if path == str(home.path) else replace(path, *rest)
            )
        else:
            patch.setattr(VaultFile, "_promote", dies)
        with pytest.raises(KeyboardInterrupt):
            vault.rotate()
    assert home.vault().get("tokens", "a") is not None
    assert vault.get("tokens", "a") is not None
    assert Path(f"{home.key}.next").exists()
    again = home.vault()
    again.rotate()
    assert home.vault().get("tokens", "a") is not None and not Path(f"{home.key}.next").exists()


def test_a_passphrase(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """It opens what it made, is asked for anew in each process, and a wrong one neither opens nor locks."""
    monkeypatch.setattr(passphrase, "MEMORY_KIB", 1024)  # a dozen of them in full would take seconds
    vault = home.vault("passphrase")
    vault.open()
    assert vault.state.usable
    assert trouble(lambda: vault.put("tokens", "a", b"x"))[0] is Trouble.PASSPHRASE
    vault.unlock("correct horse")
    vault.put("tokens", "a", b"x")
    again = home.vault("passphrase")
    assert trouble(again.open)[0] is Trouble.PASSPHRASE
    assert trouble(lambda: again.unlock("wrong"))[0] is Trouble.WRONG_KEY
    assert trouble(lambda: again.get("tokens", "a"))[0] is Trouble.PASSPHRASE
    again.unlock("correct horse")
    assert again.get("tokens", "a") is not None
    assert trouble(lambda: again.unlock("wrong"))[0] is Trouble.WRONG_KEY
    assert again.state.usable and again.get("tokens", "a") is not None
    assert trouble(again.rotate)[0] is Trouble.PASSPHRASE
    again.rotate("another")
    assert again.get("tokens", "a") is not None
    assert trouble(lambda: vault.get("tokens", "a"))[0] is Trouble.PASSPHRASE
    assert trouble(lambda: vault.unlock("correct horse"))[0] is Trouble.WRONG_KEY
    vault.unlock("another")
    assert vault.get("tokens", "a") is not None
    assert "can be opened" in trouble(lambda: vault.unlock("another", start_over=True))[1]
    vault.unlock("forgotten the other", start_over=True)
    assert vault.state.usable and vault.list("tokens") == {}
    assert "[vault] key" in trouble(lambda: home.vault().unlock("x"))[1]


# --- secrets of entries ----------------------------------------------------------------------------------------------


def test_a_secret(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name; it is never asked for at the source of the key, and who could not be told is remembered."""
    vault = home.vault()
    monkeypatch.setattr(vault_file, "PATIENCE", 0.0)
    assert vault.secret("gh") is None
    home.vault().put("secret", "gh", "tök".encode())
    assert trouble(lambda: vault.secret("gh"))[0] is Trouble.OPENING
    assert vault.refused
    vault.open()
    mark = vault.secrets_mark
    assert vault.secret("gh") == "tök" and vault.secret("other") is None
    vault.put("tokens", "gh", b"x")
    assert vault.secrets_mark == mark
    vault.put("secret", "other", b"x")
    assert vault.secrets_mark != mark
    vault.refused = False
    home.vault().rotate()
    assert "mcphub vault unlock" in trouble(lambda: vault.secret("other"))[1]
    assert vault.refused and vault.secret("gh") == "tök"
    vault.unlock()
    assert vault.secret("gh") == "tök"
    vault.delete("secret", "gh")
    assert vault.secret("gh") is None
    home.path.write_bytes(b"damaged")
    assert "damaged" in trouble(lambda: vault.secret("gh"))[1]


def test_the_first_reader_waits_a_moment(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that refers to a secret is not refused because the vault is just being opened."""
    home.vault().put("secret", "gh", b"tok")
    vault = home.vault()
    monkeypatch.setattr(vault_file, "PATIENCE", 20.0)
    found: list[str | None] = []
    sought = threading.Event()
    vault.when_sought(sought.set)
    reader = threading.Thread(target=lambda: found.append(vault.secret("gh")))
    reader.start()
    assert sought.wait(10)
    vault.open()
    reader.join(10)
    assert found == ["tok"] and not vault.refused
    late = home.vault()
    monkeypatch.setattr(vault_file, "PATIENCE", 0.0)
    trouble(lambda: late.secret("gh"))
    sought.clear()
    late.when_sought(sought.set)
    assert sought.is_set()

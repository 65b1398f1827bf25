"""The key in a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mcphub.store.key_sources.key_file import KeyFile
from mcphub.store.sealed_file import Head, Key
from mcphub.store.vault_state import Trouble, VaultUnavailable

KEY, OTHER = Key(b"k" * 32), Key(b"o" * 32)
HEAD = Head(1, KEY.mark, bytes(16))


def test_kept_and_replaced(tmp_path: Path) -> None:
    """The next key stands beside the current one until it takes its place; the files are their owner's alone."""
    path = tmp_path / "keys" / "key"
    source = KeyFile(str(path))
    assert source.keys(HEAD) == ()
    source.promote(KEY)
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    source.keep_next(OTHER)
    assert source.keys(HEAD) == (KEY, OTHER)
    assert source.keys(None) == (KEY,)
    source.promote(OTHER)
    assert KeyFile(str(path)).keys(HEAD) == (OTHER,)
    assert not (path.parent / "key.next").exists()


def test_a_home_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~/` is the person's home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    KeyFile("~/k").promote(KEY)
    assert (tmp_path / "k").exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_others_may_use(tmp_path: Path, mode: int) -> None:
    """C115: it is refused with what to do, and not closed in silence."""
    path = tmp_path / "key"
    KeyFile(str(path)).promote(KEY)
    path.chmod(mode)
    with pytest.raises(VaultUnavailable, match="chmod 600") as caught:
        KeyFile(str(path)).keys(None)
    assert caught.value.trouble is Trouble.PERMISSIONS
    assert path.stat().st_mode & 0o777 == mode


def test_what_is_no_key(tmp_path: Path) -> None:
    """Garbage, a link, a directory, a FIFO: each is refused at once, and none is an empty place for a new key."""
    path = tmp_path / "key"
    path.write_text("no key")
    path.chmod(0o600)
    with pytest.raises(VaultUnavailable, match="44 characters"):
        KeyFile(str(path)).keys(None)
    makes: list[Callable[[], None]] = [lambda: path.symlink_to(tmp_path / "x"), path.mkdir, lambda: os.mkfifo(path)]
    for make in makes:
        path.unlink()
        make()
        with pytest.raises(VaultUnavailable):
            KeyFile(str(path)).keys(None)
        if path.is_dir():
            path.rmdir()
            path.touch()


def test_a_place_that_cannot_be_written() -> None:
    """The cause is said."""
    with pytest.raises(VaultUnavailable, match="cannot keep the vault's key"):
        KeyFile("/dev/null/key").promote(KEY)


def test_what_is_to_be_done_about_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of another owner is not mended by its mode; a link is named with where it leads."""
    path = tmp_path / "key"
    KeyFile(str(path)).promote(KEY)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(VaultUnavailable, match=f"chown {other} {path}") as caught:
        KeyFile(str(path)).keys(None)
    assert caught.value.trouble is Trouble.PERMISSIONS and "chmod" not in str(caught.value)
    monkeypatch.undo()
    path.rename(tmp_path / "real")
    path.symlink_to(tmp_path / "real")
    with pytest.raises(VaultUnavailable, match="it is a link") as caught:
        KeyFile(str(path)).missing()
    assert caught.value.trouble is Trouble.PERMISSIONS
    assert f'[vault] key = "file:{tmp_path / "real"}"' in str(caught.value)

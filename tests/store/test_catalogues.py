"""The files of what servers offer."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from mcphub.errors import ConfigError
from mcphub.store import catalogues as module
from mcphub.store.catalogues import CatalogueStore

KEY = bytes(range(32))
ONE = "digest\0/w\0one"


@pytest.fixture
def store(tmp_path: Path) -> CatalogueStore:
    return CatalogueStore(str(tmp_path / "state" / "catalogues"), KEY)


def test_nothing_is_saved_at_first(store: CatalogueStore, tmp_path: Path) -> None:
    """No file is nothing and no problem; looking, dropping and pruning make none."""
    assert store.load(ONE) == (None, "")
    store.drop(ONE)
    store.prune()
    assert not (tmp_path / "state").exists()


def test_what_was_saved_comes_back(store: CatalogueStore) -> None:
    """Byte for byte, for its owner alone, also by another daemon with the same key; the next one takes its place."""
    content = bytes(range(256))
    store.save(ONE, content)
    store.save("another", b"")
    assert store.load(ONE) == (content, "")
    assert store.load("another") == (b"", "")
    store.save(ONE, b"new")
    path = Path(store.path(ONE))
    assert CatalogueStore(str(path.parent), KEY).load(ONE) == (b"new", "")
    store.drop(ONE)
    assert store.load(ONE) == (None, "")


def test_nobody_else_may_look(store: CatalogueStore) -> None:
    """The files are the person's alone, whatever the mode was, and no name says whose they are."""
    store.save(ONE, b"x")
    path = Path(store.path(ONE))
    path.chmod(0o644)
    store.save(ONE, b"y")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "digest" not in path.name and "one" not in path.name
    assert Path(CatalogueStore(str(path.parent), bytes(32)).path(ONE)).name != path.name


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data[:-1], id="cut"),
        pytest.param(lambda data: data[:20], id="cut in its line"),
        pytest.param(lambda data: data + b"x", id="longer"),
        pytest.param(lambda data: data[:-1] + bytes([data[-1] ^ 1]), id="one bit"),
        pytest.param(lambda data: b"mcphub catalogue 3\n" + data[19:], id="newer"),
        pytest.param(lambda data: b"{}", id="foreign"),
        pytest.param(lambda data: bytes(1 << 24), id="huge"),
    ],
)
def test_what_cannot_be_trusted_counts_as_none(store: CatalogueStore, damage: Callable[[bytes], bytes]) -> None:
    """It is named, says nothing about others, and the next one takes its place."""
    store.save(ONE, b"content")
    store.save("another", b"good")
    path = Path(store.path(ONE))
    path.write_bytes(damage(path.read_bytes()))
    content, problem = store.load(ONE)
    assert content is None
    assert str(path) in problem
    assert store.load("another") == (b"good", "")
    store.save(ONE, b"again")
    assert store.load(ONE) == (b"again", "")


def test_a_file_of_another_owner_or_key(store: CatalogueStore) -> None:
    """One that was renamed, or sealed elsewhere, is not taken for this owner's."""
    store.save(ONE, b"content")
    os.rename(store.path(ONE), store.path("another"))
    assert store.load("another")[0] is None
    elsewhere = CatalogueStore(os.path.dirname(store.path(ONE)), bytes(32))
    elsewhere.save(ONE, b"content")
    os.rename(elsewhere.path(ONE), store.path(ONE))
    assert store.load(ONE)[0] is None


def test_what_is_no_file(store: CatalogueStore, tmp_path: Path) -> None:
    """A FIFO is not waited for, a link not followed; what a link leads to is not written."""
    store.save("another", b"")
    os.mkfifo(store.path(ONE))
    assert "not a regular file" in store.load(ONE)[1]
    os.unlink(store.path(ONE))
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    os.symlink(victim, store.path(ONE))
    assert store.load(ONE)[0] is None
    with pytest.raises(ConfigError, match="link"):
        store.save(ONE, b"x")
    assert victim.read_bytes() == b"mine"


def test_one_that_is_too_long(store: CatalogueStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not kept, and what was there before is not kept in its place."""
    store.save(ONE, b"old")
    monkeypatch.setattr(module, "MAX_FILE", 100)
    with pytest.raises(ConfigError, match="larger"):
        store.save(ONE, bytes(100))
    assert store.load(ONE) == (None, "")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """It is said, and nothing else is."""
    (tmp_path / "file").write_bytes(b"")
    store = CatalogueStore(str(tmp_path / "file"), KEY)
    with pytest.raises(ConfigError, match="cannot write"):
        store.save(ONE, b"x")
    assert store.load(ONE)[0] is None
    store.prune()


@pytest.mark.parametrize(("limit", "most", "left"), [("MAX_FILES", 2, "cd"), ("MAX_BYTES", 130, "d")])
def test_the_oldest_of_too_many_go(
    store: CatalogueStore, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, left: str
) -> None:
    """By number and by size; one that was read lately counts as new."""
    for age, owner in enumerate("dcba"):
        store.save(owner, bytes(50))
        os.utime(store.path(owner), (10**9 - age, 10**9 - age))
    store.prune()
    assert all(store.load(owner)[0] is not None for owner in "c")
    os.utime(store.path("c"), (10**9 - 1, 10**9 - 1))
    monkeypatch.setattr(module, limit, most)
    store.prune()
    assert [owner for owner in "abcd" if os.path.exists(store.path(owner))] == list(left)
    for owner in left:
        store.load(owner)
        assert os.stat(store.path(owner)).st_mtime > 10**9

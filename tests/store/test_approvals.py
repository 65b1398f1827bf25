"""The file of decisions about servers of projects."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mcphub.errors import ConfigError
from mcphub.store.approvals import REMEMBERED, ApprovalStore, Approved, Decision

ONE = Approved("d1", ("echo", "hi"), "/w", ("K",))
TWO = Approved("d2", ("sh",), "/w")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "approvals.json"


@pytest.fixture
def store(path: Path) -> ApprovalStore:
    return ApprovalStore(str(path))


def test_nothing_is_decided_at_first(store: ApprovalStore, path: Path) -> None:
    """No file is no decision and no problem, and looking makes no file."""
    assert store.load() == ({}, ())
    assert not path.exists()


def test_decisions_are_kept(store: ApprovalStore, path: Path) -> None:
    """Every kind of decision comes back as it was made, by directory and name, from a private file with a version."""
    store.approve("/w", "a", ONE)
    store.approve("/w", "a", TWO)
    store.approve("/v", "a", ONE)
    store.reject("/w", "b")
    decisions, problems = ApprovalStore(str(path)).load()
    assert problems == ()
    assert decisions == {
        ("/w", "a"): Decision((ONE, TWO)),
        ("/v", "a"): Decision((ONE,)),
        ("/w", "b"): Decision(rejected=True),
    }
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_bytes())["version"] == 1


def test_a_decision_replaces_the_one_before(store: ApprovalStore) -> None:
    """Rejecting forgets approvals, approving takes a rejection back, forgetting leaves nothing."""
    store.approve("/w", "a", ONE)
    store.reject("/w", "a")
    assert store.load()[0] == {("/w", "a"): Decision(rejected=True)}
    store.approve("/w", "a", TWO)
    assert store.load()[0] == {("/w", "a"): Decision((TWO,))}
    store.approve("/w", "a", TWO)
    assert store.load()[0] == {("/w", "a"): Decision((TWO,))}
    store.forget("/w", "a")
    store.forget("/w", "never")
    assert store.load()[0] == {}


def test_old_approvals_are_forgotten(store: ApprovalStore) -> None:
    """The newest few contents of one server stay approved, so a list cannot grow for ever."""
    for number in range(REMEMBERED + 3):
        store.approve("/w", "a", Approved(str(number)))
    kept = [one.digest for one in store.load()[0]["/w", "a"].approved]
    assert kept == [str(number) for number in range(3, REMEMBERED + 3)]


def test_a_newer_version_is_left_alone(store: ApprovalStore, path: Path) -> None:
    """What a newer mcphub wrote approves nothing here and is not touched."""
    path.parent.mkdir()
    content = b'{"version": 2, "somethingElse": true}'
    path.write_bytes(content)
    decisions, problems = store.load()
    assert decisions == {}
    assert "it has version 2 and this mcphub knows up to 1" in problems[0]
    with pytest.raises(ConfigError, match="version 2"):
        store.approve("/w", "a", ONE)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        b'{"version": "1"}',
        b'{"version": 1, "approvals": {}}',
        b'{"version": 1, "approvals": [{"directory": "/w", "name": "a", "rejected": "no"}]}',
        b'{"version": 1, "approvals": ' + b"[" * 100_000,
    ],
)
def test_a_damaged_file_approves_nothing(store: ApprovalStore, path: Path, content: bytes) -> None:
    """A damaged file is named, approves nothing, and is kept aside when the next decision is made."""
    path.parent.mkdir()
    path.write_bytes(content)
    decisions, problems = store.load()
    assert decisions == {}
    assert "it is damaged" in problems[0]
    assert "no server of a project is approved" in problems[0]
    store.approve("/w", "a", ONE)
    assert store.load() == ({("/w", "a"): Decision((ONE,))}, ())
    assert (path.parent / "approvals.json.damaged").read_bytes() == content


def test_what_cannot_be_read_approves_nothing(store: ApprovalStore, path: Path) -> None:
    """A directory in the place of the file is a problem, not a crash."""
    os.makedirs(path)
    decisions, problems = store.load()
    assert decisions == {}
    assert problems[0].startswith(f"cannot read {path}: ")
    with pytest.raises(ConfigError, match=f"cannot write {path}: "):
        store.reject("/w", "a")

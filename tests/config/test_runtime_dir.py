"""Where the sockets are, and what it costs to know."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcphub.config import runtime_dir
from mcphub.errors import ConfigError


def test_the_runtime_directory_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sockets lie below XDG_RUNTIME_DIR, in directories of their own."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7/")
    assert runtime_dir.agent_socket() == "/run/user/7/mcphub/agent/agent.sock"
    assert runtime_dir.control_socket() == "/run/user/7/mcphub/control/control.sock"


@pytest.mark.parametrize("value", [None, "", "relative/dir"])
def test_without_a_session_both_ends_agree(value: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """C164: without a usable variable the path depends on the user alone, whatever TMPDIR says."""
    monkeypatch.setattr(runtime_dir, "_temporary", lambda: str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    if value is not None:
        monkeypatch.setenv("XDG_RUNTIME_DIR", value)
    first = runtime_dir.runtime_dir()
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    assert runtime_dir.runtime_dir() == first
    assert first in (f"/run/user/{os.getuid()}/mcphub", f"{tmp_path}/mcphub-{os.getuid()}")


def test_the_shared_fallback_is_private(tmp_path: Path) -> None:
    """C164: a directory below a shared one is made with mode 0700 and accepted again."""
    path = tmp_path / "mcphub-1"
    runtime_dir.private_directory(str(path))
    assert path.stat().st_mode & 0o777 == 0o700
    runtime_dir.private_directory(str(path))


def test_a_planted_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C164: a link, a file, a directory that others write to, and one of another owner are refused by name."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o770)
    for name, cause in (
        ("link", "not a real directory"),
        ("file", "cannot create"),
        ("open", "others can write to it"),
        ("file/below", "cannot create"),
    ):
        with pytest.raises(ConfigError, match=cause) as caught:
            runtime_dir.private_directory(str(tmp_path / name))
        assert str(tmp_path / name) in str(caught.value)
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    with pytest.raises(ConfigError, match=f"it belongs to uid {uid}"):
        runtime_dir.private_directory(str(tmp_path / "real"))


def test_a_path_too_long_for_a_socket_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """C164: the limit of the system counts in bytes, and the message says which directory to change."""
    fits = "/" + "x" * (runtime_dir.MAX_SOCKET_PATH - len("//mcphub/control/control.sock"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", fits)
    assert len(runtime_dir.control_socket()) == runtime_dir.MAX_SOCKET_PATH
    monkeypatch.setenv("XDG_RUNTIME_DIR", fits[:-1] + "é")
    with pytest.raises(ConfigError, match="set XDG_RUNTIME_DIR to a shorter directory"):
        runtime_dir.control_socket()


def test_it_imports_nothing_else() -> None:
    """The command line pays for `os` and `sys` only."""
    code = (
        "import sys; before = set(sys.modules); import mcphub.config.runtime_dir;"
        "print(*sorted(set(sys.modules) - before))"
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(root)!r}); {code}"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    assert set(result.stdout.split()) <= {"__future__", "mcphub", "mcphub.config", "mcphub.config.runtime_dir"}


@pytest.mark.parametrize(("given", "said"), [("", False), ("/run/x", False), ("run", True), ("./run", True)])
def test_a_variable_that_does_not_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str, said: bool
) -> None:
    """A relative XDG_RUNTIME_DIR is passed over, and the message names what is used."""
    monkeypatch.setattr(runtime_dir, "_temporary", lambda: str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", given)
    assert bool(found := runtime_dir.unused()) is said
    assert not said or (repr(given) in found and runtime_dir.runtime_dir() in found)

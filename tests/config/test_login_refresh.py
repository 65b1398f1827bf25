"""When the login shell is asked again, and what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcphub.config.login_refresh import FRESH, due, refreshed
from mcphub.store.login_path import LoginPath

NOW = 1_000_000.0
BASH = {"SHELL": "/bin/bash"}


@pytest.mark.parametrize(
    ("known", "env", "expected"),
    [
        (LoginPath(), BASH, True),
        (LoginPath("/a", "/bin/bash", int(NOW) - 10), BASH, False),
        (LoginPath("", "/bin/bash", int(NOW) - 10, "it did not say"), BASH, False),
        (LoginPath("/a", "/bin/bash", int(NOW) - FRESH), BASH, True),
        (LoginPath("/a", "/bin/bash", int(NOW) + 10), BASH, True),
        (LoginPath("/a", "/bin/zsh", int(NOW) - 10), BASH, True),
        (LoginPath(), {"SHELL": "/usr/sbin/nologin"}, False),
    ],
)
def test_due(known: LoginPath, env: dict[str, str], expected: bool) -> None:
    """Once a day, and for another shell at once; a shell that hangs is not tried at every start."""
    assert due(known, env, NOW) is expected


def test_refreshed(tmp_path: Path) -> None:
    """What a shell says is kept with its name and the time."""
    (tmp_path / ".bash_profile").write_text("PATH=/h/bin:$PATH\n")
    known = refreshed(LoginPath(), {**BASH, "HOME": str(tmp_path)})
    assert known.path.startswith("/h/bin:")
    assert (known.shell, known.error) == ("/bin/bash", "")
    assert known.asked > NOW


@pytest.mark.parametrize(("shell", "kept"), [("/bin/bash", "/a"), ("/bin/zsh", "")])
def test_no_answer(tmp_path: Path, shell: str, kept: str) -> None:
    """C027: the last good answer of the same shell stays, with the reason why there is no newer one."""
    (tmp_path / ".bash_profile").write_text("exit 1\n")
    known = refreshed(LoginPath("/a", shell, 5), {**BASH, "HOME": str(tmp_path)})
    assert known.path == kept
    assert "/bin/bash" in known.error
    assert known.asked > NOW


def test_an_account_without_a_shell() -> None:
    """Nothing is run."""
    assert "has none" in refreshed(LoginPath("/a", "/bin/bash", 5), {"SHELL": "/usr/sbin/nologin"}).error

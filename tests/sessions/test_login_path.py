"""The daemon has the login shell asked, once it is quiet, by a program that leaves nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from mcphub.config.places import Places
from mcphub.sessions.login_path import LoginPathRefresher
from mcphub.store.login_path import LoginPath, login_path_file
from mcphub.transport.process import Launcher
from tests.transport.peers import clean

pytestmark = pytest.mark.anyio


async def run(tmp_path: Path, profile: str, known: LoginPath | None = None) -> tuple[LoginPath, list[str]]:
    """What is kept after one daemon's start, and what was logged."""
    (tmp_path / ".bash_profile").write_text(profile)
    state = tmp_path / "state" / "mcphub"
    where = Places(str(tmp_path), str(tmp_path / "config" / "mcphub"), str(state))
    file = login_path_file(where.login_path)
    if known is not None:
        file.change(lambda _: known)
    env = {
        "HOME": str(tmp_path),
        "SHELL": "/bin/bash",
        "PATH": os.environ["PATH"],
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_RUNTIME_DIR": str(tmp_path),
    }
    logged: list[str] = []
    quiet = anyio.Event()
    quiet.set()
    async with clean(), Launcher() as launcher:
        with anyio.fail_after(30):
            await LoginPathRefresher(launcher, where, env, lambda _, text: logged.append(text)).run(quiet)
    return file.load()[0], logged


async def test_the_first_start(tmp_path: Path) -> None:
    """C027: without a file the shell is asked; what its profile left running is gone."""
    known, logged = await run(tmp_path, "PATH=/h/.nvm/bin:$PATH\n(setsid sleep 1000 >/dev/null 2>&1 &)\n")
    assert known.path.startswith("/h/.nvm/bin:")
    assert logged == []


async def test_a_later_start(tmp_path: Path) -> None:
    """An answer of today is not asked for again."""
    from time import time_ns

    before = LoginPath("/kept", "/bin/bash", time_ns() // 10**9 - 60)
    known, _ = await run(tmp_path, "PATH=/h/.nvm/bin:$PATH\n", before)
    assert known == before


async def test_a_profile_that_does_not_work(tmp_path: Path) -> None:
    """C027: it is said in the log, and kept, so that the next start does not try again."""
    known, logged = await run(tmp_path, "exit 4\n")
    assert "status 4" in known.error
    assert logged == [known.error]

"""Asking a login shell for its PATH: real shells, with profiles as people have them."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from mcphub.config.login_shell import SYSTEM_PATH, ask_path, login_shell
from mcphub.errors import ConfigError


def home(directory: Path, profile: str) -> dict[str, str]:
    """An environment whose HOME has this profile, for bash and for a plain sh."""
    (directory / ".bash_profile").write_text(profile)
    (directory / ".profile").write_text(profile)
    return {"HOME": str(directory), "PATH": "/somewhere/else", "SECRET_TOKEN": "s3cret-value"}


def ended(pid: int) -> bool:
    """Whether this process is gone within five seconds, or has nobody who waits for it."""
    try:
        process = psutil.Process(pid)
        return process.status() == psutil.STATUS_ZOMBIE or process.wait(5) is None
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return process.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("shell", ["/bin/bash", "/bin/sh"])
def test_what_a_profile_adds(tmp_path: Path, shell: str) -> None:
    """C027: what the profile adds is found, whatever else is printed; the caller's own PATH is not there."""
    profile = "echo 'Welcome to /evil/bin:/x'; printf '\\033[1mhello'; echo oops >&2\nPATH=/h/.nvm/bin:$PATH\n"
    found = ask_path(shell, home(tmp_path, profile)).split(":")
    assert found[0] == "/h/.nvm/bin"
    assert "/somewhere/else" not in found
    assert not any("evil" in part for part in found)


def test_an_interactive_profile(tmp_path: Path) -> None:
    """C027: what stands behind the usual test for an interactive shell counts, since nvm and pyenv write it there."""
    env = home(tmp_path, "case $- in *i*) ;; *) return;; esac\nPATH=/h/.pyenv/shims:$PATH\n")
    assert ask_path("/bin/bash", env).startswith("/h/.pyenv/shims:")


def test_what_the_shell_gets(tmp_path: Path) -> None:
    """Of the environment it gets what servers get, a plain PATH, and a sign by which a profile can do less."""
    env = home(tmp_path, f"env > {tmp_path}/seen\n")
    ask_path("/bin/bash", env)
    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_text().splitlines() if "=" in line)
    assert seen["MCPHUB_LOGIN_SHELL"] == "1"
    assert seen["SHELL"] == "/bin/bash"
    assert "SECRET_TOKEN" not in seen


@pytest.mark.parametrize(
    ("profile", "cause"),
    [
        ("exit 3\n", "ended with status 3"),
        ("while :; do :; done\n", "did not say it within 0.5 s"),
        ("sleep 1000 & echo $! > $HOME/pid; sleep 1000\n", "did not say it within 0.5 s"),
        ("exec >&-; sleep 1000\n", "did not say it within 0.5 s"),
        ("yes | head -c 5000000; exit 0\n", "ended with status 0"),
        ("export PATH=bin\n", "it is empty there"),
    ],
    ids=["exits", "loops", "sleeps", "closes", "floods", "relative"],
)
def test_a_profile_that_does_not_work(tmp_path: Path, profile: str, cause: str) -> None:
    """C027: it ends in bounded time with a message that names the shell, and nothing that it started is left."""
    env = home(tmp_path, profile)
    begun = time.monotonic()
    patience = 10.0 if "status" in cause or "empty" in cause else 0.5
    with pytest.raises(ConfigError, match=f"login shell /bin/bash: {cause}") as raised:
        ask_path("/bin/bash", env, patience)
    assert time.monotonic() - begun < patience + 5
    assert "mcphub env set PATH" in str(raised.value)
    pid = tmp_path / "pid"
    assert not pid.exists() or ended(int(pid.read_text()))


def test_something_of_the_profile_stays_and_holds_the_output(tmp_path: Path) -> None:
    """The answer is not waited for any longer than it takes to come, whoever else holds the stream."""
    begun = time.monotonic()
    assert ask_path("/bin/bash", home(tmp_path, "sleep 1000 &\nPATH=/q:$PATH\n")).startswith("/q:")
    assert time.monotonic() - begun < 8


def test_a_shell_that_is_not_there(tmp_path: Path) -> None:
    """The cause is the system's word."""
    with pytest.raises(ConfigError, match="/no/such/shell: No such file"):
        ask_path("/no/such/shell", {"HOME": str(tmp_path)})


def test_a_shell_that_shows_what_it_runs(tmp_path: Path) -> None:
    """A shell that prints the command it was given does not thereby answer."""
    shell = tmp_path / "loud"
    shell.write_text('#!/bin/sh\necho "$@"\nPATH=/loud:$PATH; export PATH\neval "$4"\n')
    shell.chmod(0o755)
    assert ask_path(str(shell), {"HOME": str(tmp_path)}) == f"/loud:{SYSTEM_PATH}"


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"SHELL": "/bin/zsh"}, "/bin/zsh"),
        ({"SHELL": "/usr/sbin/nologin"}, ""),
        ({"SHELL": "/bin/false"}, ""),
    ],
)
def test_which_shell(env: dict[str, str], expected: str) -> None:
    """SHELL says which one; an account that cannot log in has none."""
    assert login_shell(env) == expected


@pytest.mark.parametrize("env", [{}, {"SHELL": ""}, {"SHELL": "bash"}], ids=repr)
def test_the_shell_that_the_system_knows(env: dict[str, str]) -> None:
    """Where SHELL names no file, the system's own record counts."""
    import pwd

    known = pwd.getpwuid(os.getuid()).pw_shell
    assert login_shell(env) in (known, "/bin/sh", "")


def test_the_interpreter_that_prints_needs_no_path() -> None:
    """The answer is printed by this very interpreter, since a profile may leave a PATH without any."""
    assert os.path.isabs(sys.executable)

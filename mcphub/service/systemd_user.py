"""Owns asking a person's service manager of systemd, through systemctl, and reading what it says.

It must not know what is asked for, nor write files. Every call is bounded in time and never asks for a password.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping

from mcphub.errors import ConfigError

#: Seconds that a job of the manager's may take: the unit has TimeoutStartSec and TimeoutStopSec of its own.
PATIENCE = 100.0
#: Seconds that a question may take.
QUICK = 10.0
NO_SYSTEMCTL = "this system has no systemctl"


def environment() -> dict[str, str]:
    """This process's, in which the manager can be found: hosts start their children without XDG_RUNTIME_DIR."""
    env = dict(os.environ)
    own = f"/run/user/{os.getuid()}"
    if not env.get("XDG_RUNTIME_DIR", "").startswith("/") and os.path.isdir(own):
        env["XDG_RUNTIME_DIR"] = own
    return env


def absent() -> str:
    """Why no manager of this person can be asked, "" = one answers."""
    if shutil.which("systemctl") is None:
        return NO_SYSTEMCTL
    status, output = _run("show", "--property=Version", timeout=QUICK)
    if status == 0 and output.strip():
        return ""
    return output.strip().splitlines()[-1] if output.strip() else f"systemctl --user ended with status {status}"


def show(unit: str) -> Mapping[str, str]:
    """What the manager knows of a unit: LoadState, ActiveState, UnitFileState, FragmentPath, MainPID, ... Nothing where
    none answers."""
    wanted = "LoadState,ActiveState,SubState,UnitFileState,FragmentPath,DropInPaths,MainPID,Result,StatusText"
    status, output = _run("show", f"--property={wanted},NeedDaemonReload", unit, timeout=QUICK)
    pairs = (line.partition("=") for line in output.splitlines()) if status == 0 else ()
    return {name: value for name, equals, value in pairs if equals}


def ask(*words: str) -> None:
    """Run `systemctl --user` with these words. Raises ConfigError with what it said."""
    status, output = _run(*words, timeout=PATIENCE)
    if status != 0:
        said = " ".join(output.split()) or f"it ended with status {status}"
        raise ConfigError(f"cannot run systemctl --user {' '.join(words)}: {said}")


def lingers() -> bool | None:
    """Whether services of this person run without a login; None where nobody says so."""
    try:
        done = subprocess.run(
            ["loginctl", "show-user", str(os.getuid()), "--property=Linger"],
            capture_output=True, text=True, errors="replace", timeout=QUICK, stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {"Linger=yes": True, "Linger=no": False}.get(done.stdout.strip())


def _run(*words: str, timeout: float) -> tuple[int, str]:
    try:
        done = subprocess.run(
            ["systemctl", "--user", "--no-ask-password", "--no-pager", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            env=environment(),
        )
    except subprocess.TimeoutExpired:
        return 1, f"no answer within {timeout:g} s"
    except OSError as error:
        return 1, f"cannot run systemctl: {error.strerror or error}"
    return done.returncode, done.stdout

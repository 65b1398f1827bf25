"""Owns asking launchd of macOS, through launchctl, to load, start and forget the service.

It must not know what the service is, nor write files.
"""

from __future__ import annotations

import os
import subprocess

from mcphub.errors import ConfigError

from .names import LABEL

#: Seconds that a request may take.
PATIENCE = 60.0


def domain() -> str:
    """Where agents of this person live."""
    return f"gui/{os.getuid()}"


def loaded() -> bool:
    return _run("print", f"{domain()}/{LABEL}")[0] == 0


def pid() -> int:
    """Of the process that runs, 0 = none."""
    for line in _run("print", f"{domain()}/{LABEL}")[1].splitlines():
        name, _, value = line.strip().partition(" = ")
        if name == "pid" and value.isdigit():
            return int(value)
    return 0


def load(path: str) -> None:
    """Load the file anew, which starts the service. Raises ConfigError."""
    unload()
    _ask("bootstrap", domain(), path)


def unload() -> None:
    """End the service, and forget it; nothing where it is not loaded."""
    if loaded():
        _ask("bootout", f"{domain()}/{LABEL}")


def start(path: str) -> None:
    """Start the service, if it does not run. Raises ConfigError."""
    if not loaded():
        _ask("bootstrap", domain(), path)
    _ask("kickstart", f"{domain()}/{LABEL}")


def _ask(*words: str) -> None:
    status, output = _run(*words)
    if status != 0:
        raise ConfigError(f"cannot run launchctl {' '.join(words)}: {' '.join(output.split()) or status}")


def _run(*words: str) -> tuple[int, str]:
    try:
        done = subprocess.run(
            ["launchctl", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return 1, f"no answer within {PATIENCE:g} s"
    except OSError as error:
        return 1, f"cannot run launchctl: {error.strerror or error}"
    return done.returncode, done.stdout + done.stderr

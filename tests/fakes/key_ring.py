"""Owns a real key ring for one test: a session bus, gnome-keyring on it, unlocked or not, and nothing of it left.

It must not know what is kept there. The session has a home of its own, so a person's key ring is never touched.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

PASSWORD = "key ring's own"

#: The last line says that the daemon serves; then the session lives for as long as its stdin is open.
_SESSION = """\
if [ "$1" = unlocked ]; then
    printf '%s' "$PASSWORD" | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1
elif [ "$1" = locked ]; then
    gnome-keyring-daemon --start --components=secrets >/dev/null 2>&1
fi
unset PASSWORD
printf '%s\\n' "$DBUS_SESSION_BUS_ADDRESS"
exec cat >/dev/null
"""

#: Stands in for the window that asks a person for the password: it waits until somebody opens its pipe.
_PROMPT = """\
[D-BUS Service]
Name=org.gnome.keyring.SystemPrompter
Exec=/bin/sh -c "cat '{pipe}'; exit 1"
"""


@dataclass(frozen=True)
class Session:
    """`variables` lead to it."""

    variables: dict[str, str]
    pipe: Path
    environment: dict[str, str]

    def unlock(self) -> None:
        """As the person does by logging in, or in some window of the desktop."""
        subprocess.run(
            ["gnome-keyring-daemon", "--replace", "--unlock", "--components=secrets"],
            input=PASSWORD.encode(),
            env=self.environment | self.variables,
            check=True,
            capture_output=True,
            timeout=20,
        )

    def dismiss(self) -> None:
        """Close the window that asks, where it is open."""
        with suppress(OSError):
            os.close(os.open(self.pipe, os.O_WRONLY | os.O_NONBLOCK))


@contextmanager
def key_ring(root: Path, how: str, *, asks: bool = False) -> Iterator[Session]:
    """A session whose key ring is `unlocked`, `locked` or `absent` (a bus without one).

    What an unlocked one keeps is in `root`, where a later, locked one has it too. `asks`: a locked one waits for a
    person, as with a screen; else it has nobody to ask, as without one.
    """
    home, data, run = root / "ring-home", root / "ring-data", root / "ring-run"
    for directory in (home, data, run):
        directory.mkdir(mode=0o700, exist_ok=True)
    services = data / "dbus-1" / "services"
    services.mkdir(parents=True, exist_ok=True)
    pipe = root / "ring-prompt"
    if not pipe.exists():
        os.mkfifo(pipe)
    prompt = _PROMPT.format(pipe=pipe) if asks else _PROMPT.format(pipe="/dev/null")
    (services / "org.gnome.keyring.SystemPrompter.service").write_text(prompt)
    if how == "absent":
        # Else the bus would start the one that is installed.
        text = "[D-BUS Service]\nName=org.freedesktop.secrets\nExec=/bin/false\n"
        (services / "org.freedesktop.secrets.service").write_text(text)
    else:
        (services / "org.freedesktop.secrets.service").unlink(missing_ok=True)
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        "LANG": "C.UTF-8",
        "HOME": str(home),
        "XDG_DATA_HOME": str(data),
        "XDG_RUNTIME_DIR": str(run),
    }
    session = subprocess.Popen(
        ["dbus-run-session", "--", "sh", "-c", _SESSION, "sh", how],
        env={**environment, "PASSWORD": PASSWORD},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert session.stdin is not None and session.stdout is not None
    try:
        address = session.stdout.readline().strip()
        assert address, "no session bus: are dbus and gnome-keyring installed?"
        yield Session({"DBUS_SESSION_BUS_ADDRESS": address}, pipe, environment)
    finally:
        Session({}, pipe, {}).dismiss()
        session.stdin.close()
        session.stdout.close()
        session.wait(20)
        _gone(str(run))


def _gone(run: str) -> None:
    """Wait until nothing of the session is left; the daemon ends when its bus does."""
    deadline = time.monotonic() + 10
    while left := [one for one in psutil.process_iter() if _belongs(one, run)]:
        if time.monotonic() > deadline:
            for one in left:
                one.kill()
            raise AssertionError(f"still running: {left}")
        psutil.wait_procs(left, timeout=0.1)


def _belongs(process: psutil.Process, run: str) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get("XDG_RUNTIME_DIR") == run
    except psutil.Error:
        return False

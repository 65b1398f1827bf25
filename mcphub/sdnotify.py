"""Owns what the service manager is told, over NOTIFY_SOCKET (sd_notify(3), sd_watchdog_enabled(3)).

It must not know what the daemon does, nor when. Without a service manager nothing happens; telling it never fails.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, MutableMapping

#: Addressed to this process alone; a child that had them would answer in its name.
VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
#: Characters of a status line.
MAX_STATUS = 500


def taken(environ: MutableMapping[str, str]) -> dict[str, str]:
    """The service manager's variables, which are not in `environ` any more. The functions below take them."""
    return {name: environ.pop(name) for name in VARIABLES if name in environ}


def ready(environ: Mapping[str, str], status: str = "") -> bool:
    """The sockets answer, or a reload is done. Returns whether somebody was told."""
    return _notify(environ, "READY=1", *_status(status))


def status(environ: Mapping[str, str], text: str) -> bool:
    """One line that `systemctl status` shows."""
    return _notify(environ, *_status(text))


def reloading(environ: Mapping[str, str]) -> bool:
    """Files are read anew; `ready` says that it is done."""
    return _notify(environ, "RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")


def alive(environ: Mapping[str, str]) -> bool:
    """The watchdog's question is answered before it is asked again."""
    return _notify(environ, "WATCHDOG=1")


def stopping(environ: Mapping[str, str], text: str = "", seconds: float = 0) -> bool:
    """The shutdown began, and may take so many seconds, even where the unit allows fewer."""
    more = [f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}"] if seconds > 0 else []
    return _notify(environ, "STOPPING=1", *more, *_status(text))


def watchdog_interval(environ: Mapping[str, str], pid: int) -> float | None:
    """Seconds within which the process with this pid must say that it is alive; None = nobody waits for it."""
    usec, whose = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not (usec.isascii() and usec.isdigit()) or int(usec) == 0 or whose not in ("", str(pid)):
        return None
    return int(usec) / 1e6


def _status(text: str) -> list[str]:
    return [f"STATUS={' '.join(text.split())[:MAX_STATUS]}"] if text else []


def _notify(environ: Mapping[str, str], *assignments: str) -> bool:
    address = environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return False
    if address[0] == "@":  # abstract, unix(7)
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto("\n".join(assignments).encode("utf-8", "replace"), address)
    except (OSError, ValueError):
        return False
    return True

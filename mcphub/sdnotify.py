"""Owns what the service manager is told, over NOTIFY_SOCKET (sd_notify(3)).

It must not know what the daemon does. Without a service manager nothing happens; telling it never fails.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping


def ready(environ: Mapping[str, str], status: str = "") -> bool:
    """The sockets answer. Returns whether somebody was told."""
    return _notify(environ, "READY=1", *_status(status))


def status(environ: Mapping[str, str], text: str) -> bool:
    """One line that `systemctl status` shows."""
    return _notify(environ, *_status(text))


def stopping(environ: Mapping[str, str], text: str = "") -> bool:
    """The shutdown began."""
    return _notify(environ, "STOPPING=1", *_status(text))


def _status(text: str) -> list[str]:
    return [f"STATUS={' '.join(text.split())}"] if text else []


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
    except OSError:
        return False
    return True

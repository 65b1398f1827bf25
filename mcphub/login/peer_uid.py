"""Owns the question of whose process is at the other end of a TCP connection on this machine, where the kernel says so.

It must not know what that user may do.
"""

from __future__ import annotations

import socket
import sys

_TABLES = {4: "/proc/net/tcp", 6: "/proc/net/tcp6"}


def peer_uid(peer: tuple[str, int], own: tuple[str, int]) -> int | None:
    """The uid of the process that has the connection from `peer` to `own`, None where the system does not say.
    Blocking, briefly. Raises LookupError where it should know, and does not."""
    if sys.platform != "linux":
        return None
    for version, table in _TABLES.items():
        try:
            with open(table, encoding="ascii") as file:
                uid = find_uid(file.read(), _ends(peer, version), _ends(own, version))
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            continue
        if uid is not None:
            return uid
    raise LookupError(f"no process has the connection from {peer[0]}:{peer[1]}")


def find_uid(table: str, local: str, remote: str) -> int | None:
    """The uid in the row of /proc/net/tcp with these two ends, as the table writes them (proc(5))."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[1] == local and fields[2] == remote:
            return int(fields[7])
    return None


def _ends(end: tuple[str, int], version: int) -> str:
    """An address and port as the table writes them: 32-bit words in the byte order of the machine."""
    host, port = end
    if version == 6 and ":" not in host:
        host = f"::ffff:{host}"  # a socket of IPv6 that speaks IPv4
    packed = socket.inet_pton(socket.AF_INET6 if version == 6 else socket.AF_INET, host)
    words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
    shown = "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
    return f"{shown}:{port:04X}"

"""Owns the question of who is at the other end of a Unix socket, answered by the kernel.

It must not know what the peer may do.
"""

from __future__ import annotations

import socket
import struct
import sys

import msgspec

#: Linux, `struct ucred` of socket(7): pid, uid, gid.
_UCRED = struct.Struct("iII")
#: macOS, `struct xucred` of sys/ucred.h: version, uid, number of groups, padding, 16 groups; the first is the gid.
_XUCRED = struct.Struct("IIh2x16I")
_XUCRED_VERSION = 0
_SOL_LOCAL = 0
_LOCAL_PEERCRED = 0x001
_LOCAL_PEERPID = 0x002


class Peer(msgspec.Struct, frozen=True):
    """The process at the other end as the kernel reports it; `pid` is None where the system does not say."""

    uid: int
    gid: int
    pid: int | None


def read_ucred(data: bytes) -> Peer:
    """The peer in Linux's `struct ucred`. A pid of 0 means a process that this PID namespace does not show."""
    pid, uid, gid = _UCRED.unpack(data)
    return Peer(uid, gid, pid or None)


def read_xucred(data: bytes, pid: int | None) -> Peer | None:
    """The peer in macOS's `struct xucred`; None where the structure is of a version that is not known here."""
    if len(data) < _XUCRED.size:
        return None
    version, uid, count, *groups = _XUCRED.unpack(data[: _XUCRED.size])
    if version != _XUCRED_VERSION or count < 1:
        return None
    return Peer(uid, groups[0], pid)


def peer_of(sock: socket.socket) -> Peer | None:
    """The process that connected `sock`; None where the kernel does not say, which callers treat as a stranger."""
    try:
        if sys.platform == "darwin":
            data = sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED.size)
            return read_xucred(data, sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID))
        return read_ucred(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    except OSError:
        return None

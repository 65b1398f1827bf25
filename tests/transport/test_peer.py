"""Who is at the other end, as the kernel says."""

from __future__ import annotations

import os
import socket
import struct

from mcphub.transport.peer import Peer, peer_of, read_ucred, read_xucred


def test_the_kernel_names_this_process() -> None:
    """Both ends of a pair are this process."""
    left, right = socket.socketpair()
    with left, right:
        assert peer_of(left) == Peer(os.geteuid(), os.getegid(), os.getpid())


def test_a_socket_without_credentials_is_a_stranger() -> None:
    """What the kernel does not answer is None, not an error."""
    sock = socket.socket(socket.AF_UNIX)
    sock.close()
    assert peer_of(sock) is None


def test_linux_credentials() -> None:
    """A uid is unsigned, and pid 0 means a process outside this namespace."""
    assert read_ucred(struct.pack("iII", 0, 4294967294, 5)) == Peer(4294967294, 5, None)
    assert read_ucred(struct.pack("iII", 12, 1000, 100)) == Peer(1000, 100, 12)


def test_macos_credentials() -> None:
    """The first group is the effective gid; an unknown version, no group or a short answer is a stranger."""
    groups = [20, 12] + [0] * 14
    assert read_xucred(struct.pack("IIh2x16I", 0, 501, 2, *groups), 77) == Peer(501, 20, 77)
    assert read_xucred(struct.pack("IIh2x16I", 1, 501, 2, *groups), 77) is None
    assert read_xucred(struct.pack("IIh2x16I", 0, 501, 0, *groups), 77) is None
    assert read_xucred(b"\0" * 12, 77) is None

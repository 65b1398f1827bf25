"""Whose process is at the other end of a TCP connection."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from mcphub.login.peer_uid import find_uid, peer_uid

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0 20 4 30 10 -1
   2: short
"""


@pytest.mark.parametrize(
    ("local", "remote", "uid"),
    [
        ("0100007F:C350", "0100007F:1F90", 1001),
        ("0100007F:1F90", "00000000:0000", 0),
        ("0100007F:1F90", "0100007F:C350", None),
        ("0100007F:C351", "0100007F:1F90", None),
    ],
)
def test_the_table_of_the_kernel(local: str, remote: str, uid: int | None) -> None:
    """As proc(5) has it; the row of one end alone counts."""
    assert find_uid(TABLE, local, remote) == uid


@pytest.mark.parametrize(
    ("family", "listen", "to"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
    ],
)
def test_a_real_connection(family: socket.AddressFamily, listen: str, to: str) -> None:
    """It is ours; one that is not there is nobody's."""
    if sys.platform != "linux":
        assert peer_uid(("127.0.0.1", 1), ("127.0.0.1", 2)) is None
        return
    with socket.create_server((listen, 0), family=family) as server, socket.create_connection(
        (to, server.getsockname()[1])
    ) as client:
        taken, peer = server.accept()
        with taken:
            assert peer_uid(peer[:2], taken.getsockname()[:2]) == os.geteuid()
            assert peer_uid(client.getpeername()[:2], client.getsockname()[:2]) == os.geteuid()
            with pytest.raises(LookupError):
                peer_uid((to, 1), taken.getsockname()[:2])


def test_an_old_socket_of_both_families() -> None:
    """A browser's IPv6 socket that speaks IPv4 stands in the other table."""
    if sys.platform != "linux":
        return
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.socket(socket.AF_INET6)
        client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        with client:
            client.connect(("::ffff:127.0.0.1", server.getsockname()[1]))
            taken, peer = server.accept()
            with taken:
                assert peer_uid(peer[:2], taken.getsockname()[:2]) == os.geteuid()

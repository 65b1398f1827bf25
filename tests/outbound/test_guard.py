"""Which addresses may be connected to where another server chose the place."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.outbound.guard import Forbidden, Guard, range_of
from tests.tables import Row, label, rows

TEN = frozenset(["10.0.0.0/8"])


@pytest.mark.parametrize("row", rows("auth", "addresses"), ids=label)
def test_which_kind_of_place_it_is(row: Row) -> None:
    """S3: what carries another address inside is what that is; only a public one is let through without a word."""
    _, address, kind = row.columns
    assert range_of(ipaddress.ip_address(address)) == kind
    if kind == "global":
        Guard().check("as.example", 443, address)
    else:
        with pytest.raises(Forbidden, match=f"as.example leads to .*, a {kind} address"):
            Guard().check("as.example", 443, address)


@given(st.ip_addresses())
def test_any_address(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """S3: nothing is public that Python knows to be none."""
    if range_of(address) == "global":
        assert address.is_global or isinstance(address, ipaddress.IPv6Address)
        assert not address.is_loopback and not address.is_multicast and not address.is_link_local


@given(st.ip_addresses(v=4))
def test_what_is_inside(address: ipaddress.IPv4Address) -> None:
    """S3: in whichever way an address is written inside of one of version 6, it is not public where it is not."""
    inner = int(address)
    teredo = 0x20010000 << 96 | inner ^ 0xFFFFFFFF
    for way in (0x64FF9B << 96 | inner, 0x2002 << 112 | inner << 80, 0xFFFF << 32 | inner, teredo):
        found = range_of(ipaddress.IPv6Address(way))
        assert found == "global" if range_of(address) == "global" else found != "global"


@pytest.mark.parametrize(
    ("guard", "host", "port", "address", "allowed"),
    [
        (Guard(networks=TEN), "as.example", 443, "10.0.0.5", True),
        (Guard(networks=TEN), "as.example", 443, "::ffff:10.0.0.5", True),
        (Guard(networks=TEN), "as.example", 443, "127.0.0.1", False),
        (Guard(networks=TEN), "as.example", 443, "169.254.169.254", False),
        (Guard(networks=TEN), "as.example", 443, "64:ff9b::a00:5", False),
        (Guard(networks=TEN), "as.example", 443, "172.16.0.5", False),
        (Guard(networks=TEN), "as.example", 443, "192.168.0.5", False),
        (Guard(networks=TEN), "as.example", 443, "100.64.0.5", False),
        (Guard(networks=TEN), "as.example", 443, "fd00::5", False),
        (Guard(networks=frozenset(["100.64.0.0/10"])), "as.example", 443, "100.64.0.5", True),
        (Guard(networks=frozenset(["fc00::/7"])), "as.example", 443, "fd00::5", True),
        (Guard(frozenset(["loopback"])), "localhost", 80, "127.0.0.1", True),
        (Guard(frozenset(["loopback"])), "localhost", 80, "10.0.0.5", False),
        (Guard(hosts=frozenset(["as.corp.example"])), "AS.corp.example", 8443, "10.0.0.5", True),
        (Guard(hosts=frozenset(["as.corp.example:8443"])), "as.corp.example", 8443, "10.0.0.5", True),
        (Guard(hosts=frozenset(["as.corp.example:8443"])), "as.corp.example", 443, "10.0.0.5", False),
        (Guard(hosts=frozenset(["corp.example"])), "as.corp.example", 443, "10.0.0.5", False),
        (Guard(hosts=frozenset(["as.corp.example"])), "as.corp.example", 443, "0.0.0.0", False),
        (Guard(hosts=frozenset(["as.corp.example"])), "as.corp.example", 443, "fe80::1%eth0", True),
        (Guard(), "as.corp.example", 443, "fe80::1%eth0", False),
    ],
)
def test_who_may_say_more(guard: Guard, host: str, port: int, address: str, allowed: bool) -> None:
    """B87, S3: ranges that the configured server is in, and hosts that the entry names; never what is no place at
    all."""
    try:
        guard.check(host, port, address)
    except Forbidden:
        assert not allowed
    else:
        assert allowed


@pytest.mark.parametrize("host", ["127.0.0.1", "0x7f000001", "2130706433", "127.1", "0177.0.0.1", "0", "::1"])
def test_other_ways_to_write_this_machine(host: str) -> None:
    """S3: the system reads more than Python does; what it makes of a host is what is judged."""
    for *_, where in socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST):
        with pytest.raises(Forbidden):
            Guard().check(host, 443, str(where[0]))

"""The messages of rtnetlink(7), as Linux has them."""

from __future__ import annotations

import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.outage import rtnetlink as nl


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def text(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


def link(index: int, flags: int, *attributes: bytes) -> bytes:
    return struct.pack("=BxHiII", 0, 1, index, flags, 0) + b"".join(attributes)


def address(family: int, index: int, *attributes: bytes, flags: int = 0, scope: int = 0) -> bytes:
    return struct.pack("=BBBBI", family, 24, flags, scope, index) + b"".join(attributes)


def route(family: int, *attributes: bytes, kind: int = 1, flags: int = 0) -> bytes:
    return struct.pack("=BBBBBBBBI", family, 32, 0, 0, 254, 0, 0, kind, flags) + b"".join(attributes)


def oif(index: int) -> bytes:
    return attribute(4, struct.pack("=I", index))


def test_requests() -> None:
    """A question is a head and a body; that for a route names the whole address."""
    assert nl.all_links(1) == bytes.fromhex("20000000 1200 0103 01000000 00000000") + bytes(16)
    assert nl.all_addresses(2) == bytes.fromhex("18000000 1600 0103 02000000 00000000") + bytes(8)
    asked = nl.route_to("10.1.2.3", 7)
    assert asked == bytes.fromhex("24000000 1a00 0100 07000000 00000000 02200000 00000000 00000000 08000100 0a010203")
    asked = nl.route_to("2001:db8::1", 8)
    assert asked[16:18] == bytes([10, 128]) and asked.endswith(text("2001:db8::1"))
    with pytest.raises(ValueError, match="example"):
        nl.route_to("example.org", 1)


def test_messages() -> None:
    """Several come in one datagram, each padded to four bytes."""
    first, second = struct.pack("=IHHII", 19, 16, 0, 5, 0) + b"abc\0", struct.pack("=IHHII", 16, 3, 0, 5, 0)
    assert list(nl.messages(first + second)) == [nl.Message(16, 5, b"abc"), nl.Message(3, 5, b"")]
    assert list(nl.messages(b"")) == []
    assert list(nl.messages(struct.pack("=IHHII", 3, 16, 0, 5, 0))) == []


@pytest.mark.parametrize(
    ("flags", "carries"),
    [(0x11043, True), (0x10041, True), (0x1 | 0x40, False), (0x10001, False), (0x10040, False), (0, False)],
)
def test_links(flags: int, carries: bool) -> None:
    """A link that is up without anybody at its other end (a cable that was pulled) carries nothing."""
    assert nl.link(link(3, flags)) == nl.Link(3, carries)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (address(2, 2, attribute(1, text("192.168.1.5"))), nl.Address("192.168.1.5", 2)),
        # of a point-to-point link, whose IFA_ADDRESS is that of the other end
        (address(2, 5, attribute(1, text("10.8.0.1")), attribute(2, text("10.8.0.2"))), nl.Address("10.8.0.2", 5)),
        (address(10, 2, attribute(1, text("2001:db8::5"))), nl.Address("2001:db8::5", 2)),
        # of one link, of the loopback
        (address(10, 2, attribute(1, text("fe80::1")), scope=253), None),
        (address(2, 1, attribute(1, text("127.0.0.1")), scope=254), None),
        # not in use yet; found on another machine; old, but in use
        (address(10, 2, attribute(1, text("2001:db8::5")), flags=0x40), None),
        (address(10, 2, attribute(1, text("2001:db8::5")), flags=0x08), None),
        (address(10, 2, attribute(1, text("2001:db8::5")), flags=0x20), nl.Address("2001:db8::5", 2)),
        # the flags that have no room in a byte stand in an attribute, and count
        (address(10, 2, attribute(1, text("2001:db8::5")), attribute(8, struct.pack("=I", 0x340))), None),
        (address(2, 2), None),
        (address(2, 2, attribute(1, b"\1")), None),
        (b"\2\0", None),
    ],
)
def test_addresses(body: bytes, expected: nl.Address | None) -> None:
    """Only those count at which the machine can be answered from elsewhere."""
    assert nl.address(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (route(2, oif(2), attribute(7, text("192.168.1.5"))), nl.Route("192.168.1.5", 2)),
        (route(10, oif(2), attribute(7, text("2001:db8::5"))), nl.Route("2001:db8::5", 2)),
        (route(2, oif(1), attribute(7, text("127.0.0.1")), kind=2), nl.Route("127.0.0.1", 1)),
        (route(2, oif(6)), nl.Route("", 6)),
        # blackhole, unreachable, prohibit
        *((route(10, oif(1), kind=kind), None) for kind in (6, 7, 8)),
        (route(2), None),
        (b"", None),
    ],
)
def test_routes(body: bytes, expected: nl.Route | None) -> None:
    """A route that says that there is none is none."""
    assert nl.route(body) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (nl.Message(nl.NEWLINK, 0, link(2, 0x41)), True),
        (nl.Message(17, 0, link(2, 0)), True),
        # a radio that looked around (IFLA_WIRELESS)
        (nl.Message(nl.NEWLINK, 0, link(2, 0x41, attribute(11, b"scan"))), False),
        (nl.Message(nl.NEWADDR, 0, address(2, 2)), True),
        (nl.Message(21, 0, address(2, 2)), True),
        (nl.Message(nl.NEWROUTE, 0, route(2, oif(2))), True),
        (nl.Message(25, 0, route(10, oif(2))), True),
        # what the kernel remembers of one destination (RTM_F_CLONED)
        (nl.Message(nl.NEWROUTE, 0, route(10, oif(2), flags=0x200)), False),
        (nl.Message(nl.DONE, 0, b""), False),
    ],
)
def test_news(message: nl.Message, expected: bool) -> None:
    """C189: what comes every minute on a machine where nothing changes wakes nobody."""
    assert nl.is_news(message) is expected


@given(st.binary(max_size=200))
def test_anything(data: bytes) -> None:
    """Whatever the bytes are, reading them ends, and raises nothing."""
    for message in nl.messages(data):
        nl.is_news(message)
    for read in (nl.link, nl.address, nl.route):
        read(data)

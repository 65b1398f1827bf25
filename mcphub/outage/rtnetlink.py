"""Owns the messages by which Linux is asked for links, addresses and routes, and tells that they changed.

It must not open a socket. Source: netlink(7), rtnetlink(7), <linux/rtnetlink.h>, <linux/if_addr.h>. What cannot be
read is passed over.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from typing import NamedTuple

#: To be told of: links, IPv4 and IPv6 addresses, and routes (RTMGRP_*).
GROUPS = 0x1 | 0x10 | 0x40 | 0x100 | 0x400

ERROR, DONE = 0x2, 0x3
NEWLINK, GETLINK, NEWADDR, GETADDR, NEWROUTE, GETROUTE = 16, 18, 20, 22, 24, 26
_REQUEST, _DUMP = 0x1, 0x300
_INET, _INET6 = 2, 10

_HEAD = struct.Struct("=IHHII")  # struct nlmsghdr
_LINK = struct.Struct("=BxHiII")  # struct ifinfomsg
_ADDRESS = struct.Struct("=BBBBI")  # struct ifaddrmsg
_ROUTE = struct.Struct("=BBBBBBBBI")  # struct rtmsg
_ATTRIBUTE = struct.Struct("=HH")  # struct rtattr

_IFA_ADDRESS, _IFA_LOCAL, _IFA_FLAGS = 1, 2, 8
_RTA_DST, _RTA_OIF, _RTA_PREFSRC = 1, 4, 7
_IFLA_WIRELESS = 11
# IFF_UP, IFF_RUNNING and IFF_LOWER_UP: switched on, let in (a radio's network asks first), and somebody is there.
_CARRIES = 0x1 | 0x40 | 0x10000
#: An address that is still looked for on the link (DAD), or was found there, is no source yet.
_TENTATIVE, _DUPLICATE = 0x40, 0x08
_SCOPE_LINK = 253
_UNICAST, _LOCAL = 1, 2
_CLONED = 0x200


class Message(NamedTuple):
    """One message: its type, its number, what follows its head."""

    kind: int
    number: int
    body: bytes


class Link(NamedTuple):
    """`carries`: it is up, and there is somebody at the other end as far as its driver knows."""

    number: int
    carries: bool


class Address(NamedTuple):
    """An address that the machine may be reached at from elsewhere."""

    text: str
    link: int


class Route(NamedTuple):
    """How one address is reached."""

    source: str
    link: int


# --- asking ----------------------------------------------------------------------------------------------------------


def all_links(number: int) -> bytes:
    return _message(GETLINK, _REQUEST | _DUMP, number, _LINK.pack(0, 0, 0, 0, 0))


def all_addresses(number: int) -> bytes:
    return _message(GETADDR, _REQUEST | _DUMP, number, _ADDRESS.pack(0, 0, 0, 0, 0))


def route_to(address: str, number: int) -> bytes:
    """Asks how this would be reached, by all the tables and rules there are. Raises ValueError for what is none."""
    where = ipaddress.ip_address(address).packed
    family = _INET if len(where) == 4 else _INET6
    body = _ROUTE.pack(family, len(where) * 8, 0, 0, 0, 0, 0, 0, 0)
    return _message(GETROUTE, _REQUEST, number, body + _ATTRIBUTE.pack(4 + len(where), _RTA_DST) + where)


def _message(kind: int, flags: int, number: int, body: bytes) -> bytes:
    return _HEAD.pack(_HEAD.size + len(body), kind, flags, number, 0) + body


# --- reading ---------------------------------------------------------------------------------------------------------


def messages(data: bytes) -> Iterator[Message]:
    """Those in one datagram."""
    at = 0
    while at + _HEAD.size <= len(data):
        length, kind, _, number, _ = _HEAD.unpack_from(data, at)
        if length < _HEAD.size:
            return
        yield Message(kind, number, data[at + _HEAD.size : at + length])
        at += (length + 3) & ~3


def link(body: bytes) -> Link | None:
    if len(body) < _LINK.size:
        return None
    _, _, index, flags, _ = _LINK.unpack_from(body)
    return Link(index, flags & _CARRIES == _CARRIES)


def address(body: bytes) -> Address | None:
    """None for one that nobody elsewhere can answer to: of the loopback, of one link, not yet or no more in use."""
    if len(body) < _ADDRESS.size:
        return None
    _, _, flags, scope, index = _ADDRESS.unpack_from(body)
    found = dict(_attributes(body, _ADDRESS.size))
    if len(more := found.get(_IFA_FLAGS, b"")) == 4:
        flags = struct.unpack("=I", more)[0]
    if scope >= _SCOPE_LINK or flags & (_TENTATIVE | _DUPLICATE):
        return None
    text = _text(found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS))
    return Address(text, index) if text else None


def route(body: bytes) -> Route | None:
    """None for one that leads nowhere, by decree (unreachable, blackhole, prohibit)."""
    if len(body) < _ROUTE.size:
        return None
    kind = body[7]
    found = dict(_attributes(body, _ROUTE.size))
    if kind not in (_UNICAST, _LOCAL) or len(found.get(_RTA_OIF, b"")) != 4:
        return None
    return Route(_text(found.get(_RTA_PREFSRC)), struct.unpack("=I", found[_RTA_OIF])[0])


def is_news(message: Message) -> bool:
    """Whether what is told by itself may make a difference: a radio that looks around does not, nor what is
    remembered of a single destination."""
    if message.kind == NEWLINK:
        return _IFLA_WIRELESS not in dict(_attributes(message.body, _LINK.size))
    if message.kind == NEWROUTE and len(message.body) >= _ROUTE.size:
        return not _ROUTE.unpack_from(message.body)[8] & _CLONED
    return message.kind != DONE


def _attributes(body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, at)
        if length < _ATTRIBUTE.size:
            return
        yield kind & 0x3FFF, body[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3


def _text(packed: bytes | None) -> str:
    return str(ipaddress.ip_address(packed)) if packed is not None and len(packed) in (4, 16) else ""

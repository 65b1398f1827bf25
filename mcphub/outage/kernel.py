"""Owns asking the system for its networks and its clocks as they are now.

It must not judge them, nor wait. On Linux the answer comes by netlink and knows whether a link has anybody at its other
end; elsewhere a socket that sends nothing is connected, which only the system's own routes decide.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterable, Iterator

from mcphub.address import address
from mcphub.outage import rtnetlink
from mcphub.outage.clocks import Clocks
from mcphub.outage.ways import ANYWHERE, Network, Way

_READ = 64 * 1024
#: An answer is there when the question was sent; the system is not waited for if ever it should not be.
_PATIENCE = 0.5
#: Sending to a port is what the socket is connected for, and never done.
_DISCARD = 9

# In sleep this one stands still, and the other goes on. Of macOS <time.h> says: CLOCK_MONOTONIC goes on.
_AWAKE = getattr(time, "CLOCK_UPTIME_RAW", time.CLOCK_MONOTONIC)
_ALWAYS = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clocks() -> Clocks:
    """One reading."""
    return Clocks(time.clock_gettime(_AWAKE), time.clock_gettime(_ALWAYS), time.time_ns() / 1e9)


def look(addresses: Iterable[str] = ()) -> Network:
    """The networks now, and how these are reached. Never raises."""
    wanted = list(addresses)
    if sys.platform == "linux":
        try:
            return by_netlink(wanted)
        except OSError:
            pass  # a sandbox may allow no netlink
    return by_sockets(wanted)


def by_netlink(addresses: Iterable[str]) -> Network:
    """The same, as Linux tells it. Raises OSError where it may not be asked."""
    wanted = list(dict.fromkeys([*ANYWHERE, *addresses]))
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as sock:
        sock.settimeout(_PATIENCE)
        carries = {
            link.number
            for body in _answers(sock, rtnetlink.all_links(1), rtnetlink.NEWLINK)
            if (link := rtnetlink.link(body)) is not None and link.carries
        }
        own = [rtnetlink.address(body) for body in _answers(sock, rtnetlink.all_addresses(2), rtnetlink.NEWADDR)]
        ways: dict[str, Way | None] = {}
        for number, one in enumerate(wanted, 3):
            body = next(_answers(sock, rtnetlink.route_to(one, number), rtnetlink.NEWROUTE), b"")
            route = rtnetlink.route(body)
            there = route is not None and route.link in carries
            ways[one] = Way(route.source, route.link) if route is not None and there else None
    return Network(ways, _others(found.text for found in own if found is not None and found.link in carries))


def _answers(sock: socket.socket, request: bytes, kind: int) -> Iterator[bytes]:
    """The bodies of one request's answers: of a route's one, else until there are no more."""
    number = int.from_bytes(request[8:12], sys.byteorder)
    sock.send(request)
    while True:
        for message in rtnetlink.messages(sock.recv(_READ)):
            if message.number != number:
                continue
            if message.kind in (rtnetlink.DONE, rtnetlink.ERROR):
                return
            if message.kind == kind:
                yield message.body
                if kind == rtnetlink.NEWROUTE:
                    return


def by_sockets(addresses: Iterable[str]) -> Network:
    """The same, as any system tells it. Never raises: what may not be asked is not there."""
    import psutil

    ways = {one: _way(one) for one in dict.fromkeys([*ANYWHERE, *addresses])}
    try:
        up = {name for name, stats in psutil.net_if_stats().items() if stats.isup}
        own = [one.address for name, found in psutil.net_if_addrs().items() if name in up for one in found]
    except (OSError, psutil.Error):
        own = [way.source for way in ways.values() if way is not None]
    return Network(ways, _others(own))


def _way(one: str) -> Way | None:
    family = socket.AF_INET6 if ":" in one else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((one, _DISCARD))
            return Way(sock.getsockname()[0])
    except OSError:
        return None


def _others(texts: Iterable[str]) -> frozenset[str]:
    """Those of addresses that others can answer to."""
    found = {text: address(text) for text in texts}
    return frozenset(
        text for text, one in found.items() if one is not None and not one.is_loopback and not one.is_link_local
    )



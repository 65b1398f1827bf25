"""Owns what the host of a URL says by itself: an address or a name, and whether that is this machine.

It must not resolve anything.
"""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def address(host: str) -> Address | None:
    """The address that a host is, in brackets or not; None for a name."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its very name, without asking anybody."""
    found = address(host)
    if found is not None:
        return found.is_loopback
    name = host.lower().rstrip(".")
    return name == "localhost" or name.endswith(".localhost")

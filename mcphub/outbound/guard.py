"""Owns which addresses may be connected to where another server chose the place (S3): what a name resolved to, judged
before a connection is made to that very address.

It must not resolve or connect, nor know why a place is asked.
"""

from __future__ import annotations

import ipaddress
from typing import Literal

import msgspec

from mcphub.address import Address

Range = Literal["global", "private", "loopback", "link-local", "special"]

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
#: Local NAT64, for documents (RFC 9637), segment routing (RFC 9602): newer than some `ipaddress`.
_NOWHERE = tuple(map(ipaddress.ip_network, ("64:ff9b:1::/48", "3fff::/20", "5f00::/16")))
_SHARED = ipaddress.ip_network("100.64.0.0/10")
_SIX_TO_FOUR_RELAYS = ipaddress.ip_network("192.88.99.0/24")


class Forbidden(OSError):
    """This address may not be connected to; the text says why."""


class Guard(msgspec.Struct, frozen=True):
    """`ranges` may be connected to beside `global`, and of `private` the `networks` (see network_of). `hosts` (`host`
    or `host:port`, lower case) may be in any range but `special`: somebody who may say so has named them."""

    ranges: frozenset[Range] = frozenset()
    hosts: frozenset[str] = frozenset()
    networks: frozenset[str] = frozenset()

    def check(self, host: str, port: int, address: str) -> None:
        """Raises Forbidden where this address, to which the host resolved, may not be connected to."""
        place = ipaddress.ip_address(address.partition("%")[0])
        found = range_of(place)
        if found == "global" or found in self.ranges:
            return
        if found == "private" and network_of(place) in self.networks:
            return
        named = {host.lower(), f"{host.lower()}:{port}"}
        if found != "special" and not self.hosts.isdisjoint(named):
            return
        raise Forbidden(f"{host} leads to {address}, a {found} address, which another server may not name")


def range_of(address: Address) -> Range:
    """Which kind of place an address is. What carries an IPv4 address inside is what that is: `ipaddress` calls some of
    those global though they lead to this machine."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = _inner(address)
        if inner is not None:
            found = range_of(inner)
            # Nobody has a reason to write an address of his own network in such a way.
            return "special" if found != "global" and address.ipv4_mapped is None else found
        if address.is_site_local or any(address in network for network in _NOWHERE):
            return "special"
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast or address.is_unspecified or address.is_reserved:
        return "special"
    if isinstance(address, ipaddress.IPv4Address) and (address in _SHARED or address in _SIX_TO_FOUR_RELAYS):
        return "private" if address in _SHARED else "special"
    if address.is_global:
        return "global"
    return "private" if _is_of_a_network(address) else "special"


def network_of(address: Address) -> str:
    """Which of the private ranges an address is in, "" = none. To be in one of them says nothing of the others."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return next((str(one) for one in _NETWORKS if one.version == address.version and address in one), "")


def _inner(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or (int(address) >> 32 == 0 and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _is_of_a_network(address: Address) -> bool:
    """Whether it is an address that people give to machines of their own."""
    return any(address.version == network.version and address in network for network in _PRIVATE)


_PRIVATE = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")))
_NETWORKS = (*_PRIVATE, _SHARED)

"""Owns which proxy the environment names for an origin, and which origins it excepts.

It must not know how a proxy is spoken to.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from mcphub.address import address, is_loopback


def proxy_for(scheme: str, host: str, port: int, env: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The URL of the proxy for one origin, "" = none, and the items of NO_PROXY that say nothing.

    HTTPS_PROXY or HTTP_PROXY, else ALL_PROXY; the lower-case name wins, as with curl. The loopback is never asked for
    by way of a proxy. NO_PROXY holds host names (with all below them), addresses, networks, each with a port or not.
    """
    proxy = _variable(env, f"{scheme}_proxy") or _variable(env, "all_proxy")
    if not proxy or is_loopback(host):
        return "", ()
    bad: list[str] = []
    for item in _variable(env, "no_proxy").replace(" ", ",").split(","):
        if not item:
            continue
        found = _bypasses(item, host, port)
        if found:
            return "", ()
        if found is None:
            bad.append(item)
    return proxy if "://" in proxy else f"http://{proxy}", tuple(bad)


def proxy_variable(scheme: str, env: Mapping[str, str]) -> str:
    """The name of the variable that `proxy_for` takes a proxy from for this scheme, as it is spelt; "" = none."""
    names = (name for lower in (f"{scheme}_proxy", "all_proxy") for name in (lower, lower.upper()))
    return next((name for name in names if (env.get(name) or "").strip()), "")


def _variable(env: Mapping[str, str], name: str) -> str:
    return (env.get(name) or env.get(name.upper()) or "").strip()


def _bypasses(item: str, host: str, port: int) -> bool | None:
    """Whether an item of NO_PROXY covers this host; None for what is no such item."""
    if item == "*":
        return True
    where = address(host)
    if "/" in item:
        try:
            network = ipaddress.ip_network(item, strict=False)
        except ValueError:
            return None
        return where is not None and where in network
    name, colon, digits = item.rpartition(":")
    if colon and digits and (":" not in name or name.endswith("]")):
        if not (digits.isascii() and digits.isdecimal()):
            return None
        if int(digits[:6]) != port:
            return False
        item = name
    item = item.strip("[]").lower().removeprefix("*").strip(".")
    named = address(item)
    if named is not None:
        return named == where
    if not item or set(item) & set("*?@ \\"):
        return None
    host = host.lower().rstrip(".")
    return host == item or host.endswith("." + item)

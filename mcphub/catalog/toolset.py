"""Owns the merged toolset of one view: exposed names to routes, and the rendered list of each era.

It must not know sessions or calls. A toolset is immutable and hashed; equal inputs give equal bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mcphub.catalog.definition import Definition
from mcphub.catalog.naming import DEFAULT_MAX_LENGTH, exposed_names
from mcphub.protocol.envelope import MODERN_HEAD
from mcphub.protocol.jsonrpc import quote
from mcphub.spec import InstanceKey


@dataclass(frozen=True, slots=True)
class Offer:
    """What one instance brings to a view: its usable tools. `up`: it is connected now."""

    key: InstanceKey
    tools: tuple[Definition, ...]
    up: bool
    #: What `render` made of it for this view, where that is known already.
    rendered: tuple[Rendered, ...] | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """Where an exposed name leads. `quoted` is the server's own name of the tool as JSON."""

    key: InstanceKey
    exposed: str
    definition: Definition
    quoted: bytes


class Rendered(NamedTuple):
    """One tool under its exposed name: its route, and its definition for each era."""

    exposed: str
    route: Route
    legacy: bytes
    modern: bytes


@dataclass(frozen=True, slots=True)
class Toolset:
    """`legacy` and `modern` are whole `tools/list` results. `digest` changes with what agents see."""

    routes: Mapping[str, Route] = field(default_factory=dict)
    legacy: bytes = b'{"tools":[]}'
    modern: bytes = MODERN_HEAD + b',"tools":[],"ttlMs":0,"cacheScope":"private"}'
    digest: str = ""


#: How long a modern agent may keep the list; it is told of changes where it listens.
TTL_MS = 5000


def render(
    key: InstanceKey,
    tools: Sequence[Definition],
    servers: Sequence[str],
    max_length: int = DEFAULT_MAX_LENGTH,
    prefixed: bool = True,
) -> tuple[Rendered, ...]:
    """One instance's part of a view, by tool name: the same as long as its tools and the view's `servers` are."""
    tools = sorted(tools, key=lambda d: d.name)
    names = [d.name for d in tools]
    if prefixed:
        names = exposed_names(key.name, names, servers, max_length)
    out = []
    for exposed, definition in zip(names, tools, strict=True):
        old = definition.render(exposed, modern=False)
        new = definition.render(exposed, modern=True)
        route = Route(key, exposed, definition, quote(definition.name))
        out.append(Rendered(exposed, route, old, old if old == new else new))
    return tuple(out)


def merge(
    offers: Sequence[Offer], servers: Sequence[str], max_length: int = DEFAULT_MAX_LENGTH, prefixed: bool = True
) -> Toolset:
    """The merged toolset: servers by name, their tools by name, so that a server that lists in another order next time
    changes nothing. `servers` are all configured names of the view. Without `prefixed`, for a view of one server, tools
    have the names that the server itself gives them."""
    routes: dict[str, Route] = {}
    legacy: list[bytes] = []
    modern: list[bytes] = []
    all_up = True
    for offer in sorted(offers, key=lambda o: o.key):
        all_up = all_up and offer.up
        rendered = offer.rendered
        if rendered is None:
            rendered = render(offer.key, offer.tools, servers, max_length, prefixed)
        for exposed, route, old, new in rendered:
            if exposed in routes:
                continue  # digits of two servers met by chance: the first server by name keeps it
            routes[exposed] = route
            legacy.append(old)
            modern.append(new)
    body = b",".join(modern)
    ttl = TTL_MS if all_up else 0
    return Toolset(
        routes,
        b'{"tools":[' + b",".join(legacy) + b"]}",
        MODERN_HEAD + b',"tools":[' + body + b'],"ttlMs":%d,"cacheScope":"private"}' % ttl,
        hashlib.sha256(body).hexdigest(),
    )

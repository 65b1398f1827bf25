"""Owns the merged toolset of one view: exposed names to routes, and the rendered list.

It must not know sessions or calls. A toolset is immutable and hashed; equal inputs give equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from mcphub.catalog.definition import Definition
from mcphub.catalog.hygiene import clean
from mcphub.catalog.naming import DEFAULT_MAX_LENGTH, exposed_names
from mcphub.catalog.pages import DEFAULT_PAGE_BYTES, Pages, cut
from mcphub.protocol.jsonrpc import quote
from mcphub.spec import InstanceKey


class Offer(msgspec.Struct, frozen=True):
    """What one instance brings to a view: its usable tools."""

    key: InstanceKey
    tools: tuple[Definition, ...]
    #: What `render` made of it for this view, where that is known already.
    rendered: tuple[Rendered, ...] | None = None


class Route(msgspec.Struct, frozen=True):
    """Where an exposed name leads. `quoted` is the server's own name of the tool as JSON. `recorded`: its calls go into
    the outcome journal, since it is not known to only read. `plain`: a call of it needs nothing but to be sent, and its
    result nothing but to be passed on."""

    key: InstanceKey
    exposed: str
    definition: Definition
    quoted: bytes
    recorded: bool = True
    plain: bool = False


class Rendered(NamedTuple):
    """One tool under its exposed name: its route, and its definition for each era."""

    exposed: str
    route: Route
    legacy: bytes
    modern: bytes


class Toolset(msgspec.Struct, frozen=True):
    """`pages` are those of `tools/list`."""

    routes: Mapping[str, Route] = msgspec.field(default_factory=dict)
    pages: Pages = msgspec.field(default_factory=lambda: Pages("tools"))

    @property
    def digest(self) -> str:
        """Changes with what agents see."""
        return self.pages.digest


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
    names = exposed_names(key.name, names, servers, max_length) if prefixed else [clean(name) for name in names]
    out = []
    for exposed, definition in zip(names, tools, strict=True):
        old = definition.render(exposed, modern=False)
        new = definition.render(exposed, modern=True)
        plain = not (definition.idempotency_argument or definition.task or definition.structured)
        route = Route(key, exposed, definition, quote(definition.name), not definition.reads, plain)
        out.append(Rendered(exposed, route, old, old if old == new else new))
    return tuple(out)


def merge(
    offers: Sequence[Offer],
    servers: Sequence[str],
    max_length: int = DEFAULT_MAX_LENGTH,
    prefixed: bool = True,
    page_bytes: int = DEFAULT_PAGE_BYTES,
) -> Toolset:
    """The merged toolset: servers by name, their tools by name, so that a server that lists in another order next time
    changes nothing. `servers` are all configured names of the view. Without `prefixed`, for a view of one server, tools
    have the names that the server itself gives them."""
    routes: dict[str, Route] = {}
    legacy: list[bytes] = []
    modern: list[bytes] = []
    for offer in sorted(offers, key=lambda o: o.key):
        rendered = offer.rendered
        if rendered is None:
            rendered = render(offer.key, offer.tools, servers, max_length, prefixed)
        for exposed, route, old, new in rendered:
            if exposed in routes:
                continue  # digits of two servers met by chance: the first server by name keeps it
            routes[exposed] = route
            legacy.append(old)
            modern.append(new)
    return Toolset(routes, cut("tools", legacy, modern, page_bytes))

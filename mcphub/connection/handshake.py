"""Owns the start of a connection: performs the steps of the era probe and walks the lists.

It must not decide the era (protocol/era does) nor retry (the worker does).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mcphub.connection import capability_sets
from mcphub.connection.client import Client
from mcphub.connection.source import release_of
from mcphub.errors import JSONRPCError, RemoteProtocolError, TransportError
from mcphub.protocol import era, jsonrpc
from mcphub.protocol.caching import UNSAID, Freshness, least, read_freshness
from mcphub.protocol.envelope import CAPABILITIES_KEY, CLIENT_INFO_KEY, IMPLEMENTATION, SERVER_INFO_KEY, VERSION_KEY
from mcphub.protocol.paging import EndlessList, Walk
from mcphub.protocol.versions import Era

#: How long `server/discover` may stay unanswered before `initialize` is sent, seconds. A cold start may take longer:
#: then both requests wait in the server's stdin, and whichever is answered first decides.
PROBE_LIMIT = 3.0

_object = msgspec.json.Decoder(dict[str, Any]).decode


class _Page(msgspec.Struct, frozen=True):
    """One page as it came. The members beside the items are raw, so that a wrong type in one of them costs no item."""

    items: list[bytes]
    next_cursor: msgspec.Raw
    ttl: msgspec.Raw
    scope: msgspec.Raw


_NULL = msgspec.Raw(b"null")


def _pages(member: str) -> Callable[[bytes], _Page]:
    """A reader of one page; null is how some languages write an empty list. What else is in the result (its `_meta`,
    members that nobody knows) speaks of the server's own list, and is not passed on in the merged one."""
    beside = [(name, msgspec.Raw, _NULL) for name in ("nextCursor", "ttlMs", "cacheScope")]
    page = msgspec.defstruct(f"Page_{member}", [(member, list[msgspec.Raw] | None, None), *beside])
    decode = msgspec.json.Decoder(page).decode

    def read(raw: bytes) -> _Page:
        found: Any = decode(raw)
        items = [bytes(item) for item in getattr(found, member) or ()]
        return _Page(items, found.nextCursor, found.ttlMs, found.cacheScope)

    return read


#: Each list: the capability it needs, and the reader of its pages.
LISTS = {
    "tools/list": ("tools", _pages("tools")),
    "prompts/list": ("prompts", _pages("prompts")),
    "resources/list": ("resources", _pages("resources")),
    "resources/templates/list": ("resources", _pages("resourceTemplates")),
}
_string = msgspec.json.Decoder(str).decode
#: Kinds of `unanswered` that speak of one request, not of the connection.
_OF_ONE_LIST = frozenset(["refused", "rate_limited", "needs_auth", "status"])
#: Those of them, and silence, that end a list after its first page with what there is.
_CUTS = frozenset(["refused", "rate_limited", "status", "timeout"])

#: Items after which no further page is asked for.
MAX_TOOLS = 10_000
#: Bytes of an answer to `server/discover` or `initialize`, and commas of one page of tools: what is read in full is
#: bounded, since a value may cost fifty times its bytes.
MAX_HANDSHAKE = 1 << 20
MAX_COMMAS = 1_000_000


@dataclass(frozen=True, slots=True)
class Facts:
    """What a server said of itself. `tools` are the raw definitions in the server's order."""

    era: Era
    version: str
    server_info: dict[str, Any]
    capabilities: dict[str, Any]
    instructions: str
    tools: tuple[bytes, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = ()
    #: The other lists, raw, by method.
    shelf: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict, repr=False)
    #: It says that it speaks the legacy era, alone or too. One that does not say so may speak it all the same.
    legacy: bool = False

    def tells(self, capability: str) -> bool:
        """Whether it says that it tells of changes of its `tools`, `prompts` or `resources`."""
        offered = self.capabilities.get(capability)
        return isinstance(offered, dict) and offered.get("listChanged") is True


@dataclass(frozen=True, slots=True)
class Listing:
    """One list as a walk over its pages found it. `cut` says why it may not be whole, "" = it is. `freshness` is what
    the server said of it: the shortest time of all pages, public only if all are; nothing of a list that was cut."""

    items: tuple[bytes, ...] = field(default=(), repr=False)
    cut: str = ""
    freshness: Freshness = UNSAID


async def shake_hands(
    client: Client, probe: era.Probe, timeout: float, limit: float = PROBE_LIMIT
) -> era.Spoken | era.Refused | era.Restart:
    """Run the probe on an open channel; the caller bounds the whole. Raises TransportError, RemoteProtocolError."""
    step = probe.start()
    while True:
        match step:
            case era.Discover():
                step = await _discover(client, probe, step.version, limit)
            case era.Initialize():
                step = await _initialize(client, probe, step.version, timeout)
            case era.Spoken():
                client.era, client.version, client.ready = step.era, step.version, True
                if step.era == "legacy":
                    client.notify("notifications/initialized")
                return step
            case _:
                return step


class _Late:
    """Waits for a discover answer that may come after `initialize` was sent."""

    def __init__(self, probe: era.Probe, hard: float) -> None:
        self.deadline = self.hard = hard
        self.idle = 0.0
        self._probe = probe

    def answered(self, env: jsonrpc.Envelope) -> None:
        if env.result:
            try:
                self._probe.discovered_late(_said(env.result))
            except RemoteProtocolError:
                pass

    def unanswered(self, kind: str, message: str) -> None:
        pass

    def progressed(self, params: jsonrpc.Raw) -> None:
        pass


class Ignored:
    """A waiter for a request whose answer says nothing new; `ended` is called when it comes, or will never come."""

    def __init__(self, deadline: float, ended: Callable[[], None] | None = None) -> None:
        self.deadline = self.hard = deadline
        self.idle = 0.0
        self._ended = ended

    def answered(self, env: jsonrpc.Envelope) -> None:
        # A server that refuses to be listened to would be asked for ever: only an orderly end is worth another try.
        if self._ended is not None and not env.error:
            self._ended()

    def unanswered(self, kind: str, message: str) -> None:
        # Where each request travels by itself, a stream can end alone; a refusal is as final as an error.
        if self._ended is not None and kind in ("ended", "lost", "unreachable", "no_response", "status"):
            self._ended()

    def progressed(self, params: jsonrpc.Raw) -> None:
        pass


async def _discover(client: Client, probe: era.Probe, version: str, limit: float) -> era.Step:
    params = b'"_meta":{"%b":"%b","%b":%b,"%b":{}}' % (
        VERSION_KEY.encode(),
        version.encode(),
        CLIENT_INFO_KEY.encode(),
        IMPLEMENTATION,
        CAPABILITIES_KEY.encode(),
    )
    try:
        raw = await client.probe(params, limit, _Late(probe, float("inf")))
    except JSONRPCError as e:
        return probe.discover_refused(e.code, e.message, e.data)
    if raw is None:
        return probe.silent()
    try:
        said = _said(raw)
    except RemoteProtocolError as e:
        return probe.discover_refused(jsonrpc.INTERNAL_ERROR, f"the answer to server/discover {e}", None)
    return probe.discovered(said)


async def _initialize(client: Client, probe: era.Probe, version: str, timeout: float) -> era.Step:
    params = b'"protocolVersion":"%b","capabilities":%b,"clientInfo":%b' % (
        version.encode(),
        capability_sets.extended(client.declares, client.extension) if client.extension else client.declares,
        IMPLEMENTATION,
    )
    try:
        raw = await client.request("initialize", params, timeout=timeout)
    except JSONRPCError as e:
        return probe.initialize_refused(e.code, e.message, e.data)
    try:
        said = _said(raw)
    except RemoteProtocolError as e:
        raise RemoteProtocolError(f"the answer to initialize {e}") from None
    return probe.initialized(said)


def _said(raw: bytes | jsonrpc.Raw) -> dict[str, Any]:
    """A result of the handshake. Raises RemoteProtocolError with the end of a sentence."""
    if len(raw) > MAX_HANDSHAKE:
        raise RemoteProtocolError(f"is larger than {MAX_HANDSHAKE >> 20} MiB")
    try:
        return _object(raw)
    except (msgspec.DecodeError, RecursionError):
        raise RemoteProtocolError("is no object that can be read") from None


def facts(
    spoken: era.Spoken,
    tools: tuple[bytes, ...],
    warnings: tuple[str, ...],
    shelf: Mapping[str, tuple[bytes, ...]] | None = None,
) -> Facts:
    """The facts of a connection from its handshake and its list; what has the wrong type is left out."""
    result = spoken.result
    info = _info(spoken)
    caps = result.get("capabilities")
    instructions = result.get("instructions")
    return Facts(
        spoken.era,
        spoken.version,
        info if isinstance(info, dict) else {},
        caps if isinstance(caps, dict) else {},
        instructions if isinstance(instructions, str) else "",
        tools,
        warnings,
        shelf or {},
        spoken.era == "legacy" or era.names_legacy(result),
    )


def _info(spoken: era.Spoken) -> object:
    """What a server says that it is."""
    if spoken.era == "modern":
        meta = spoken.result.get("_meta")
        return meta.get(SERVER_INFO_KEY) if isinstance(meta, dict) else None
    return spoken.result.get("serverInfo")


def release(spoken: era.Spoken) -> str:
    """As source.release_of."""
    return release_of(_info(spoken))


async def list_tools(client: Client, capabilities: Any, timeout: float, pages: float = float("inf")) -> Listing:
    """`list_all` of the tools."""
    return await list_all(client, capabilities, "tools/list", timeout, pages)


async def list_shelf(
    client: Client, capabilities: Any, methods: tuple[str, ...], timeout: float
) -> tuple[dict[str, Listing], tuple[str, ...]]:
    """The lists of these methods, and warnings. One that the server refuses, garbles or does not answer within
    `timeout` seconds is left out, with a warning: a server is worth having for its tools alone. Raises TransportError.
    """
    shelf: dict[str, Listing] = {}
    warnings: tuple[str, ...] = ()
    for method in methods:
        try:
            shelf[method] = await list_all(client, capabilities, method, timeout)
        except JSONRPCError as e:
            if e.code == jsonrpc.METHOD_NOT_FOUND:
                shelf[method] = Listing()
            else:
                warnings += (f"{method} was refused: {e} ({e.code})",)
        except RemoteProtocolError as e:
            warnings += (str(e),)
        except TransportError as e:
            if e.kind != "timeout" and e.kind not in _OF_ONE_LIST:
                raise
            late = f"{method} was not answered within {timeout:g} s"
            warnings += (late if e.kind == "timeout" else f"{method} cannot be had: {e}",)
    return shelf, warnings


async def list_all(
    client: Client, capabilities: Any, method: str, timeout: float, pages: float = float("inf")
) -> Listing:
    """All pages of one of LISTS; together they may take `timeout` seconds, and no later one than the first comes after
    `pages` seconds. A server without the capability has none of them. What fails on a later page than the first only
    cuts the list short. Raises JSONRPCError, TransportError, RemoteProtocolError."""
    if not isinstance(capabilities, dict) or LISTS[method][0] not in capabilities:
        return Listing()
    clock = asyncio.get_running_loop().time
    began = clock()
    walk = Walk()
    items: list[bytes] = []
    said: list[Freshness] = []
    last: list[bytes] = []

    def cut(why: object) -> Listing:
        return Listing(tuple(items), f"{method} was cut short: {why}")

    while True:
        may = min(timeout, pages) if walk.pages else timeout
        left = began + may - clock()
        if walk.pages and left <= 0:
            return cut(f"its pages took longer than {may:.3g} s")
        try:
            page = await _page(client, method, walk.cursor, left)
        except (JSONRPCError, RemoteProtocolError) as e:
            if not walk.pages:
                raise
            return cut(f"page {walk.pages + 1}: {e}")
        except TransportError as e:
            if not walk.pages or e.kind not in _CUTS:
                raise
            return cut(f"page {walk.pages + 1}: {e}")
        if client.era == "modern":
            said.append(read_freshness(page.ttl, page.scope, clock()))
        try:
            cursor = _string(page.next_cursor) if bytes(page.next_cursor) != b"null" else None
            more = walk.advance(cursor)
        except EndlessList as e:
            if page.items != last:  # one that answers every cursor with the same page has it once
                items += page.items
            return cut(e)
        except msgspec.DecodeError:
            items += page.items
            return cut("nextCursor is no string")
        items += page.items
        last = page.items
        if not more:
            return Listing(tuple(items), "", least(said))
        if len(items) > MAX_TOOLS:
            return cut(f"more than {MAX_TOOLS} {LISTS[method][0]}")


async def _page(client: Client, method: str, cursor: str | None, timeout: float) -> _Page:
    params = b'"cursor":' + jsonrpc.quote(cursor) if cursor is not None else b""
    raw = await client.request(method, params, timeout=timeout)
    if raw.count(b",") > MAX_COMMAS:
        raise RemoteProtocolError(f"the answer to {method} has more values than any such list needs")
    try:
        return LISTS[method][1](raw)
    except (msgspec.DecodeError, RecursionError) as e:
        raise RemoteProtocolError(f"the answer to {method} cannot be read: {e}") from None

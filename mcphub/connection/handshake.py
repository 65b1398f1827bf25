"""Owns the start of a connection: performs the steps of the era probe and lists the tools.

It must not decide the era (protocol/era does) nor retry (the worker does).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mcphub.connection.client import Client
from mcphub.errors import JSONRPCError, RemoteProtocolError, TransportError
from mcphub.protocol import era, jsonrpc
from mcphub.protocol.envelope import CAPABILITIES_KEY, CLIENT_INFO_KEY, IMPLEMENTATION, SERVER_INFO_KEY, VERSION_KEY
from mcphub.protocol.paging import EndlessList, Walk
from mcphub.protocol.versions import Era

#: How long `server/discover` may stay unanswered before `initialize` is sent, seconds. A cold start may take longer:
#: then both requests wait in the server's stdin, and whichever is answered first decides.
PROBE_LIMIT = 3.0
#: What a legacy server is told the hub can do: `cancel` and an empty list are legal answers where nobody can be asked.
#: Never `{form, url}` for elicitation, which crashes some servers.
LEGACY_CAPABILITIES = b'{"elicitation":{},"roots":{}}'
#: The same for an entry that says so: sampling has no legal answer of the hub's own.
WITH_SAMPLING = b'{"elicitation":{},"roots":{},"sampling":{}}'

_object = msgspec.json.Decoder(dict[str, Any]).decode


def _pages(member: str) -> Callable[[bytes], tuple[list[msgspec.Raw] | None, msgspec.Raw]]:
    """A reader of one page: its items (null is how some languages write an empty list) and the raw next cursor."""
    page = msgspec.defstruct(
        f"Page_{member}",
        [(member, list[msgspec.Raw] | None, None), ("nextCursor", msgspec.Raw, msgspec.Raw(b"null"))],
    )
    decode = msgspec.json.Decoder(page).decode

    def read(raw: bytes) -> tuple[list[msgspec.Raw] | None, msgspec.Raw]:
        found: Any = decode(raw)
        return getattr(found, member), found.nextCursor

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

#: Tools after which no further page is asked for.
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
        WITH_SAMPLING if client.sampling else LEGACY_CAPABILITIES,
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
    if spoken.era == "modern":
        meta = result.get("_meta")
        info = meta.get(SERVER_INFO_KEY) if isinstance(meta, dict) else None
    else:
        info = result.get("serverInfo")
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
    )


async def list_tools(client: Client, capabilities: Any, timeout: float) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
    """`list_all` of the tools."""
    return await list_all(client, capabilities, "tools/list", timeout)


async def list_shelf(
    client: Client, capabilities: Any, methods: tuple[str, ...], timeout: float
) -> tuple[dict[str, tuple[bytes, ...]], tuple[str, ...]]:
    """The lists of these methods, and warnings. One that the server refuses, garbles or does not answer within
    `timeout` seconds is left out, with a warning: a server is worth having for its tools alone. Raises TransportError.
    """
    shelf: dict[str, tuple[bytes, ...]] = {}
    warnings: tuple[str, ...] = ()
    for method in methods:
        try:
            shelf[method], cut = await list_all(client, capabilities, method, timeout)
            warnings += cut
        except JSONRPCError as e:
            shelf[method] = ()
            if e.code != jsonrpc.METHOD_NOT_FOUND:
                warnings += (f"{method} was refused: {e} ({e.code})",)
        except RemoteProtocolError as e:
            shelf[method] = ()
            warnings += (str(e),)
        except TransportError as e:
            if e.kind != "timeout" and e.kind not in _OF_ONE_LIST:
                raise
            shelf[method] = ()
            late = f"{method} was not answered within {timeout:g} s"
            warnings += (late if e.kind == "timeout" else f"{method} cannot be had: {e}",)
    return shelf, warnings


async def list_all(
    client: Client, capabilities: Any, method: str, timeout: float
) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
    """All pages of one of LISTS, raw, and warnings: with one the list may not be whole. A server without the capability
    has none of them. Raises JSONRPCError, TransportError, RemoteProtocolError."""
    capability, page_of = LISTS[method]
    if not isinstance(capabilities, dict) or capability not in capabilities:
        return (), ()
    walk, tools = Walk(), []
    while True:
        params = b'"cursor":' + jsonrpc.quote(walk.cursor) if walk.cursor is not None else b""
        raw = await client.request(method, params, timeout=timeout)
        if raw.count(b",") > MAX_COMMAS:
            raise RemoteProtocolError(f"the answer to {method} has more values than any such list needs")
        try:
            items, next_cursor = page_of(raw)
        except (msgspec.DecodeError, RecursionError) as e:
            raise RemoteProtocolError(f"the answer to {method} cannot be read: {e}") from None
        tools += [bytes(t) for t in items or ()]
        try:
            cursor = _string(next_cursor) if bytes(next_cursor) != b"null" else None
            if not walk.advance(cursor):
                return tuple(tools), ()
        except EndlessList as e:
            return tuple(tools), (f"{method} was cut short: {e}",)
        except msgspec.DecodeError:
            return tuple(tools), (f"{method} was cut short: nextCursor is no string",)
        if len(tools) > MAX_TOOLS:
            return tuple(tools), (f"{method} was cut short: more than {MAX_TOOLS} tools",)

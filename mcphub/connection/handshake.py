"""Owns the start of a connection: performs the steps of the era probe and lists the tools.

It must not decide the era (protocol/era does) nor retry (the worker does).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mcphub.connection.client import Client
from mcphub.errors import JSONRPCError, RemoteProtocolError
from mcphub.protocol import era, jsonrpc
from mcphub.protocol.envelope import CAPABILITIES_KEY, CLIENT_INFO_KEY, IMPLEMENTATION, SERVER_INFO_KEY, VERSION_KEY
from mcphub.protocol.paging import EndlessList, Walk
from mcphub.protocol.versions import Era

#: How long `server/discover` may stay unanswered before `initialize` is sent, seconds. A cold start may take longer:
#: then both requests wait in the server's stdin, and whichever is answered first decides.
PROBE_LIMIT = 3.0
#: What a legacy server is told the hub can do: roots are always answered; an empty list is a legal answer.
LEGACY_CAPABILITIES = b'{"roots":{}}'

_object = msgspec.json.Decoder(dict[str, Any]).decode


class _Page(msgspec.Struct):
    tools: list[msgspec.Raw] | None = None  # null is how some languages write an empty list
    nextCursor: msgspec.Raw = msgspec.Raw(b"null")


_page = msgspec.json.Decoder(_Page).decode
_string = msgspec.json.Decoder(str).decode

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


async def shake_hands(client: Client, probe: era.Probe, timeout: float) -> era.Spoken | era.Refused | era.Restart:
    """Run the probe on an open channel; the caller bounds the whole. Raises TransportError, RemoteProtocolError."""
    step = probe.start()
    while True:
        match step:
            case era.Discover():
                step = await _discover(client, probe, step.version)
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
        pass

    def progressed(self, params: jsonrpc.Raw) -> None:
        pass


async def _discover(client: Client, probe: era.Probe, version: str) -> era.Step:
    params = b'"_meta":{"%b":"%b","%b":%b,"%b":{}}' % (
        VERSION_KEY.encode(),
        version.encode(),
        CLIENT_INFO_KEY.encode(),
        IMPLEMENTATION,
        CAPABILITIES_KEY.encode(),
    )
    try:
        raw = await client.probe(params, PROBE_LIMIT, _Late(probe, float("inf")))
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
        LEGACY_CAPABILITIES,
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


def facts(spoken: era.Spoken, tools: tuple[bytes, ...], warnings: tuple[str, ...]) -> Facts:
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
    )


async def list_tools(client: Client, capabilities: Any, timeout: float) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
    """All pages of `tools/list`, raw, and warnings: with one the list may not be whole. A server without the capability
    has no tools. Raises JSONRPCError, TransportError, RemoteProtocolError."""
    if not isinstance(capabilities, dict) or "tools" not in capabilities:
        return (), ()
    walk, tools = Walk(), []
    while True:
        params = b'"cursor":' + jsonrpc.quote(walk.cursor) if walk.cursor is not None else b""
        raw = await client.request("tools/list", params, timeout=timeout)
        if raw.count(b",") > MAX_COMMAS:
            raise RemoteProtocolError("the answer to tools/list has more values than any list of tools needs")
        try:
            page = _page(raw)
        except (msgspec.DecodeError, RecursionError) as e:
            raise RemoteProtocolError(f"the answer to tools/list cannot be read: {e}") from None
        tools += [bytes(t) for t in page.tools or ()]
        try:
            cursor = _string(page.nextCursor) if bytes(page.nextCursor) != b"null" else None
            if not walk.advance(cursor):
                return tuple(tools), ()
        except EndlessList as e:
            return tuple(tools), (f"tools/list was cut short: {e}",)
        except msgspec.DecodeError:
            return tuple(tools), ("tools/list was cut short: nextCursor is no string",)
        if len(tools) > MAX_TOOLS:
            return tuple(tools), (f"tools/list was cut short: more than {MAX_TOOLS} tools",)

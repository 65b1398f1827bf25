"""Owns how a server object of the official Python SDK is spoken to: by the pair of streams that it runs over.

It must not import the SDK: whoever made the object has, and its classes are found there. Known are the low-level
`Server` and what is built upon it (`FastMCP` of mcp 1, `MCPServer` of mcp 2), told by what they have.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import anyio

from mcphub.transport.in_process_stream import StreamServer

#: Where objects that are built upon a low-level server keep it.
_WITHIN = ("_lowlevel_server", "_mcp_server")


def low_level(value: object) -> Any | None:
    """The SDK's low-level server that this is or has; None where it is no server of the SDK."""
    for one in (value, *(getattr(value, name, None) for name in _WITHIN)):
        if _is_server(one):
            return one
    return None


def _is_server(value: object) -> bool:
    if value is None or isinstance(value, type):
        return False
    return callable(getattr(value, "run", None)) and callable(getattr(value, "create_initialization_options", None))


def name_of(server: Any) -> str:
    """What the server calls itself, "" = nothing."""
    name = getattr(server, "name", "")
    return name if isinstance(name, str) else ""


def sdk_server(server: Any) -> StreamServer:
    """A low-level server as one that reads and writes frames. Raises LookupError where this SDK is not known."""
    message, parse = _words()
    return StreamServer(partial(_serve, server, message, parse))


def _words() -> tuple[Callable[[Any], Any], Callable[[bytes], Any]]:
    """The SDK's envelope of a message in a stream, and its reader of one."""
    envelope = getattr(sys.modules.get("mcp.shared.message"), "SessionMessage", None)
    adapter = getattr(sys.modules.get("mcp_types"), "jsonrpc_message_adapter", None)
    parse: Callable[[bytes], Any] | None
    if adapter is not None:
        parse = partial(adapter.validate_json, by_name=False)
    else:
        parse = getattr(getattr(sys.modules.get("mcp.types"), "JSONRPCMessage", None), "model_validate_json", None)
    if envelope is None or parse is None:
        raise LookupError("it needs the package mcp, 1.8 or newer")
    return envelope, parse


async def _serve(
    server: Any,
    envelope: Callable[[Any], Any],
    parse: Callable[[bytes], Any],
    frames: AsyncIterator[bytes],
    write: Callable[[bytes], None],
) -> None:
    """Run it over a pair of memory streams for one connection."""
    to_server, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, from_server = anyio.create_memory_object_stream[Any](0)

    async def read() -> None:
        async with to_server:
            async for frame in frames:
                try:
                    item = envelope(parse(frame))
                except Exception as e:
                    item = e  # it is told so, as by the SDK's own transports
                try:
                    await to_server.send(item)
                except anyio.BrokenResourceError:
                    return  # it has ended

    async def pass_on() -> None:
        async with from_server:
            async for item in from_server:
                write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())

    async with anyio.create_task_group() as tasks, incoming, outgoing:
        tasks.start_soon(read)
        tasks.start_soon(pass_on)
        try:
            await server.run(incoming, outgoing, server.create_initialization_options())
        finally:
            tasks.cancel_scope.cancel()

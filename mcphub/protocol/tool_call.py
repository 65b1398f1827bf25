"""Owns the reading of a `tools/call` line in one go, the most frequent message of all.

It must not know what is called. What is not written in the usual way is left to jsonrpc and its care.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import sub
from typing import Literal

import msgspec

from mcphub.protocol.jsonrpc import EMPTY, Line, Raw


class Params(msgspec.Struct, gc=False):
    """The params of `tools/call`, as far as every call has them; both payloads are views into the line."""

    name: str
    arguments: Raw = EMPTY
    meta: Raw = msgspec.field(default=EMPTY, name="_meta")


class ToolCall(msgspec.Struct, gc=False):
    """The whole message."""

    jsonrpc: Literal["2.0"]
    id: int
    method: Literal["tools/call"]
    params: Params


_decode = msgspec.json.Decoder(ToolCall).decode

# What a compact message costs besides the id, the name, the arguments and `_meta`. As many bytes more as the shortest
# member has (`"":0,`) may hide one that comes twice or is not read here; fewer are blanks, or escapes in the name.
_PLAIN = len('{"jsonrpc":"2.0","id":,"method":"tools/call","params":{"name":"","arguments":}}')
_META = len(',"_meta":')
_SHORTEST = 5


def read(line: Line) -> tuple[bytes, Params] | None:
    """The id, as JSON, and the params of a `tools/call` with an integer id and arguments, written compactly; None for
    every other line. That the payloads are UTF-8 is not checked."""
    try:
        call = _decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    params = call.params
    mid = b"%d" % call.id
    arguments = len(params.arguments)
    over = len(line) - _PLAIN - len(mid) - len(params.name) - arguments
    if meta := len(params.meta):
        over -= _META + meta
    return (mid, params) if arguments and over < _SHORTEST else None


def several(lines: Sequence[bytes]) -> tuple[str, list[bytes], list[Raw]] | None:
    """The name of the tool, the ids as JSON, and the arguments of lines that `read` would read, of one tool all of them
    and without `_meta`; None for others, and where one of them is not of ASCII letters alone."""
    try:
        calls = list(map(_decode, lines))
    except (msgspec.DecodeError, RecursionError):
        return None
    name = calls[0].params.name
    if {call.params.name for call in calls} != {name} or not b"".join(lines).isascii():
        return None
    mids = [b"%d" % call.id for call in calls]
    arguments = [call.params.arguments for call in calls]
    sizes = list(map(len, arguments))
    over = max(map(sub, map(sub, map(len, lines), map(len, mids)), sizes)) - _PLAIN - len(name)
    return (name, mids, arguments) if over < _SHORTEST and all(sizes) else None

"""Owns the argument by which a server knows a call that it was sent before: whether a call has it, and adding it.

It must not choose its value, nor know which tools have one.
"""

from __future__ import annotations

import msgspec

from mcphub.channel import Data
from mcphub.protocol import jsonrpc
from mcphub.protocol.jsonrpc import Raw

#: How a value begins that is none.
_NOTHING = frozenset([b"null", b'""'])

_members = msgspec.json.Decoder(dict[str, Raw]).decode


def lacks(arguments: Data, argument: str) -> bool:
    """Whether these arguments (a JSON object) say nothing for it. So do null and an empty text, which many models give
    for what they leave out: calls that have it in common would be one call. False where they cannot be read."""
    if _is_unnamed(bytes(arguments), argument):
        return True
    try:
        value = _members(arguments).get(argument)
    except (msgspec.DecodeError, RecursionError):
        return False
    return value is None or bytes(memoryview(value)[:4]) in _NOTHING


def with_argument(arguments: Data, argument: str, value: str) -> bytes:
    """The arguments with this one, whose other members keep their bytes. Raises msgspec.DecodeError."""
    data = bytes(arguments)
    if _is_unnamed(data, argument):
        rest = data[1:].lstrip(b" \t\r\n")
        more = b"" if rest[:1] == b"}" else b","
        return b"{%b:%b%b%b" % (jsonrpc.quote(argument), jsonrpc.quote(value), more, rest)
    fields = _members(arguments)
    fields[argument] = Raw(jsonrpc.quote(value))
    return b"{" + b",".join([jsonrpc.quote(name) + b":" + bytes(raw) for name, raw in fields.items()]) + b"}"


def _is_unnamed(data: bytes, argument: str) -> bool:
    """Whether its name certainly occurs nowhere, in whatever way it may be written; most calls are done with that."""
    return data[:1] == b"{" and b"\\" not in data and jsonrpc.quote(argument) not in data

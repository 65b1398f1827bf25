"""Owns which of an agent's roots a server is told: directories of this machine, inside of what the person allowed.

It must not know agents or servers. A root is a URI that another program wrote: it is read, its links are followed, and
where it leads is compared; nothing is joined to it, and what is kept stays as it was (MCP spec, client/roots).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec

from mcphub.protocol.jsonrpc import Raw

#: Roots of one answer that are looked at.
MAX_ROOTS = 100
NONE = b'{"roots":[]}'

_HERE = ("", "localhost")


class _Answer(msgspec.Struct):
    roots: list[Raw]


class _Root(msgspec.Struct):
    uri: str


_answer = msgspec.json.Decoder(_Answer).decode
_root = msgspec.json.Decoder(_Root).decode


class RootsAllowed:
    """`directories` are absolute paths, or begin with `~`; the agent's own workspace always belongs to them."""

    def __init__(self, directories: Iterable[str] = ("~",)) -> None:
        self._directories = tuple(os.path.expanduser(one) for one in directories)

    def kept(self, answer: bytes, workspace: str) -> tuple[bytes, int]:
        """(an answer to `roots/list` with those that may be told, how many were left out). `workspace` "" = none."""
        try:
            found = _answer(answer).roots
        except (msgspec.DecodeError, RecursionError):
            return NONE, 0
        allowed = [os.path.realpath(one) for one in (*self._directories, workspace) if os.path.isabs(one)]
        kept = [bytes(raw) for raw in found[:MAX_ROOTS] if _leads_inside(raw, allowed)]
        return b'{"roots":[%b]}' % b",".join(kept), len(found) - len(kept)


def path_of(uri: str) -> str:
    """The absolute path that a root names on this machine. Raises ValueError, which says what is wrong with it."""
    parts = urlsplit(uri)
    if parts.scheme.lower() != "file":
        raise ValueError("it is no file:// URI")
    if parts.netloc.lower() not in _HERE:
        raise ValueError("it is on another host")
    if parts.query or parts.fragment:
        raise ValueError("a file has neither query nor fragment")
    path = os.fsdecode(unquote_to_bytes(parts.path))
    if not path.startswith("/") or "\0" in path:
        raise ValueError("it is no absolute path")
    if ".." in path.split("/"):
        raise ValueError("it goes upwards")
    return path


def _leads_inside(raw: Raw, allowed: list[str]) -> bool:
    try:
        real = os.path.realpath(path_of(_root(raw).uri))
    except (msgspec.DecodeError, RecursionError, ValueError, OSError):
        return False
    return any(real == one or real.startswith(one.rstrip("/") + "/") for one in allowed)

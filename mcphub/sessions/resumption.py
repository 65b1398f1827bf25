"""Owns the reading of a journal that another daemon wrote: what the session was, what was not answered, what was cut.

It must not act: `resuming` does. What it reads is the bridge's to hold, and may be anything.
"""

from __future__ import annotations

import os
import re
import struct
from collections import defaultdict

import msgspec

from mcphub.errors import RemoteProtocolError
from mcphub.gateway.standing import Owed, Standing, decoded
from mcphub.protocol import jsonrpc
from mcphub.protocol.envelope import SUBSCRIPTION_KEY, trace_of
from mcphub.sessions import journal

#: Requests that are not sent to a server, or only read: the next daemon answers them as if they came to it.
_ACTS = frozenset({"tools/call"})
_KEY = re.escape(SUBSCRIPTION_KEY.encode())
_ACKNOWLEDGED = re.compile(
    rb'"notifications/subscriptions/acknowledged".*"%b":(-?\d+|"(?:[^"\\]|\\.)*")' % _KEY
)
#: The id of a request at its beginning or its end, where those who write JSON put it.
_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")\s*'
_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb",")
_LAST = re.compile(rb",\s*" + _ID + rb'(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_HEAD = struct.Struct("<12Q")


class UnreadableJournal(RemoteProtocolError):
    """It is none, of another form, or broken."""


class Resumption(msgspec.Struct):
    """`again` are requests, as they came, that are answered anew; `tail` is the beginning of a line whose end is
    to come, of which something is missing if `torn`; `cut`: the agent may have got half a line. `outcomes` is the epoch
    of the outcome journal that this daemon had, 0 = none."""

    standing: Standing
    again: list[bytes] = []
    tail: bytes = b""
    torn: bool = False
    cut: bool = False
    outcomes: int = 0


def read(fd: int) -> Resumption:
    """What this memory says. Raises UnreadableJournal."""
    try:
        fields = _HEAD.unpack(os.pread(fd, _HEAD.size, 0))
        half = fields[journal.ACTIVE]
        if fields[journal.FORM] != journal.MAGIC or half > 1:
            raise UnreadableJournal("it is none, or of another version of mcphub")
        at = journal.LENGTHS + half * journal.FIELDS
        standing, came, taken, torn = fields[at : at + journal.FIELDS]
        if standing > journal.STANDING or came > journal.CAME or taken > journal.TAKEN or torn > came + 1:
            raise UnreadableJournal("its lengths cannot be")
        start = journal.HEAD + half * journal.HALF
        # What the system had put there, and nobody had counted yet.
        uncounted = os.pread(fd, journal.ROOM, start + came).partition(b"\0")[0] if came < journal.CAME else b""
        found = resumption(
            decoded(os.pread(fd, standing, start + journal.CAME + journal.TAKEN)),
            os.pread(fd, came, start) + uncounted[: journal.CAME - came],
            os.pread(fd, taken, start + journal.CAME),
            gap=torn - 1,
            cut=bool(fields[journal.BEHIND]),
        )
        found.outcomes = fields[journal.OUTCOMES]
        return found
    except (OSError, struct.error, msgspec.DecodeError, RecursionError) as e:
        raise UnreadableJournal(f"it cannot be read: {e}") from None


def resumption(standing: Standing, came: bytes, taken: bytes, *, gap: int = -1, cut: bool = False) -> Resumption:
    """The session after all that came from its agent and all that it has taken since `standing`. `gap` is where
    something is missing of what came, -1 = nowhere."""
    waiting: dict[str, list[Owed | bytes]] = defaultdict(list)
    for owed in standing.owed:
        waiting[owed.mid].append(owed)
    torn = gap >= 0
    if torn and b"\n" in came[gap:]:
        torn = False
        before, _, head = b"\n".join([b"", came[:gap]]).rpartition(b"\n")
        end, _, after = came[gap:].partition(b"\n")
        mid = torn_id(head, end)
        if mid:
            waiting[mid].append(Owed(mid, "the reading of a request"))
        came = before.removeprefix(b"\n") + b"\n" + after
    *lines, tail = came.split(b"\n")
    for line in lines:
        _came(standing, waiting, line.removesuffix(b"\r"))
    for frame in taken.split(b"\n")[:-1]:
        _taken(standing, waiting, frame)
    unanswered = [one for found in waiting.values() for one in found]
    standing.owed = [one if isinstance(one, Owed) else _owed(one) for one in unanswered if _is_owed(one)]
    return Resumption(standing, [line for line in unanswered if not _is_owed(line)], tail, torn, cut)  # type: ignore[misc]


def torn_id(head: bytes, end: bytes) -> str:
    """The id, as JSON, of a request of which the beginning and the end are known, "" = it cannot be found."""
    found = _FIRST.match(head) or _LAST.search(end[-1024:])
    return found[1].decode() if found is not None else ""


def _came(standing: Standing, waiting: dict[str, list[Owed | bytes]], line: bytes) -> None:
    try:
        env = jsonrpc.decode(line)
    except RemoteProtocolError as e:
        if getattr(e, "kind", "") == "batch":
            try:
                for part in jsonrpc.split_batch(line):
                    _came(standing, waiting, part)
            except RemoteProtocolError:
                pass
        return
    if env.method is None:
        return
    if env.id is jsonrpc.UNSET:
        if env.method == "notifications/cancelled":
            mid = _member(env.params, "requestId")
            if isinstance(mid, int | str):
                key = jsonrpc.encode_id(mid).decode()
                waiting.pop(key, None)
                standing.listens.pop(key, None)
        return
    if isinstance(env.id, int | str):
        waiting[jsonrpc.encode_id(env.id).decode()].append(bytes(line))


def _taken(standing: Standing, waiting: dict[str, list[Owed | bytes]], frame: bytes) -> None:
    if match := journal.ANSWER.match(frame):
        mid = match[1].decode("utf-8", "replace")
        standing.listens.pop(mid, None)
        found = waiting.get(mid)
        if found:
            _has_done(standing, found.pop(0), match[0].endswith(b'"result":'))
    elif match := _ACKNOWLEDGED.search(frame):
        mid = match[1].decode("utf-8", "replace")
        for one in waiting.pop(mid, ()):
            notifications = _member(jsonrpc.decode(one).params, "notifications") if isinstance(one, bytes) else None
            if isinstance(notifications, dict):
                standing.listens[mid] = notifications


def _has_done(standing: Standing, one: Owed | bytes, well: bool) -> None:
    """What a request that was answered has made of the session."""
    if not well or isinstance(one, Owed):
        return
    env = jsonrpc.decode(one)
    if env.method == "initialize":
        params = _object(env.params)
        if params is not None:
            standing.initialize = params
    elif env.method == "logging/setLevel":
        level = _member(env.params, "level")
        standing.log_level = level if isinstance(level, str) else ""
    elif env.method in ("resources/subscribe", "resources/unsubscribe"):
        uri = _member(env.params, "uri")
        if isinstance(uri, str):
            standing.watches = [found for found in standing.watches if found != uri]
            if env.method == "resources/subscribe":
                standing.watches.append(uri)


def _is_owed(one: Owed | bytes) -> bool:
    """Whether all that can be said is that its outcome is not known."""
    return isinstance(one, Owed) or jsonrpc.decode(one).method in _ACTS


def _owed(line: bytes) -> Owed:
    env = jsonrpc.decode(line)
    params = _object(env.params) or {}
    name = params.get("name")
    tool = name[:128] if isinstance(name, str) else ""
    what = f"{env.method} {tool}" if tool else str(env.method)
    mid = jsonrpc.encode_id(env.id).decode()  # type: ignore[arg-type]
    first = params.keys().isdisjoint(("requestState", "inputResponses"))
    return Owed(mid, what, tool=tool, trace=trace_of(env.params), first=first)


def _object(raw: jsonrpc.Raw) -> dict[str, object] | None:
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _member(raw: jsonrpc.Raw, name: str) -> object:
    return (_object(raw) or {}).get(name)

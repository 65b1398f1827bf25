"""Owns the trace that a request says it belongs to: `traceparent`, `tracestate` and `baggage` of its `_meta`.

It must not know requests, nor make a trace by itself. What is not as its standard has it is dropped, since whoever
reads it next would drop the whole (MCP spec 2026-07-28, basic/index; W3C Trace Context 1, 3.2 and 3.3; W3C Baggage, 3).
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping

import msgspec

from mcphub.protocol.jsonrpc import Raw

PARENT, STATE, BAGGAGE = "traceparent", "tracestate", "baggage"
#: Bytes of each, and members of a tracestate, up to which it is carried.
MAX_PARENT = 256
MAX_STATE = 512
MAX_STATES = 32
MAX_BAGGAGE = 8192

_string = msgspec.json.Decoder(str).decode
_PARENT = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?", re.A)
_KEY = r"[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13}"
_STATE = re.compile(rf"(?:{_KEY})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{{0,255}}[\x21-\x2b\x2d-\x3c\x3e-\x7e]", re.A)
_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_VALUE = r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*"
_BAGGAGE = re.compile(rf"{_TOKEN}[ \t]*=[ \t]*{_VALUE}(?:[ \t]*;[ \t]*{_TOKEN}(?:[ \t]*=[ \t]*{_VALUE})?)*", re.A)


def kept(fields: MutableMapping[str, Raw]) -> str:
    """Take out of the members of a `_meta` what is wrong; the trace id is given, "" = there is none. A `tracestate`
    means nothing without its `traceparent`."""
    parent = _text(fields, PARENT, MAX_PARENT)
    trace = trace_of(parent)
    if not trace:
        fields.pop(PARENT, None)
    if STATE in fields and not (trace and _is_state(_text(fields, STATE, MAX_STATE))):
        del fields[STATE]
    if BAGGAGE in fields and not _is_baggage(_text(fields, BAGGAGE, MAX_BAGGAGE)):
        del fields[BAGGAGE]
    return trace


def trace_of(parent: str) -> str:
    """The trace id of a `traceparent`, "" where that is none. Of a version that is not known yet, what begins as the
    first one does counts."""
    found = _PARENT.fullmatch(parent)
    if found is None or (found[1] == "00" and found[3]):
        return ""
    return found[2]


def begun(trace: bytes, span: bytes) -> bytes:
    """The `traceparent` member of a trace that begins here, from 16 and 8 bytes that are not all zero. It says
    "sampled": only who wants to see traces lets mcphub begin them."""
    return b'"traceparent":"00-%b-%b-01"' % (trace.hex().encode(), span.hex().encode())


def _text(fields: MutableMapping[str, Raw], key: str, most: int) -> str:
    raw = fields.get(key)
    if raw is None or len(raw) > most + 2:
        return ""
    try:
        return _string(raw)
    except msgspec.DecodeError:
        return ""


def _is_state(text: str) -> bool:
    members = [member.strip(" \t") for member in text.split(",")]
    said = [member for member in members if member]  # empty ones are allowed
    keys = {member.partition("=")[0] for member in said}
    return bool(said) and len(members) <= MAX_STATES and len(keys) == len(said) and all(map(_STATE.fullmatch, said))


def _is_baggage(text: str) -> bool:
    return bool(text) and all(_BAGGAGE.fullmatch(member.strip(" \t")) for member in text.split(","))

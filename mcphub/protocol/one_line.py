"""Owns how a body that is laid out over several lines becomes one frame without a line break.

It must not know what is in it. A line break between the tokens of JSON is white space; one inside a string is no JSON
at all (RFC 8259, section 7), and what has one must stay unreadable.
"""

from __future__ import annotations

import re

import msgspec

_BLANKS = bytes.maketrans(b"\r\n", b"  ")
#: To a character that JSON has in no place.
_NOWHERE = bytes.maketrans(b"\r\n", b"\0\0")
_WHOLE_STRINGS = re.compile(rb'(?:[^"]++|"(?:[^"\\\r\n]++|\\[^\r\n])*+")*+').fullmatch


def on_one_line(body: bytes) -> bytes:
    """The same JSON without line breaks, and mostly without blanks; a body that has none is the same object. What is
    not JSON gets no line break either, and is read by nobody if one was inside a string."""
    if b"\n" not in body and b"\r" not in body:
        return body
    try:
        return msgspec.json.format(body, indent=-1)
    except (msgspec.DecodeError, RecursionError):
        # Some of it can be read all the same, such as half a surrogate pair.
        return body.translate(_BLANKS if _WHOLE_STRINGS(body) else _NOWHERE)

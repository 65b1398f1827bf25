"""Owns what the close code of a WebSocket says to a person, and which of them ask for credentials.

It must not know any connection. Source: RFC 6455, 7.4, and the IANA registry of close codes; 4000 to 4999 have no fixed
meaning, but 4401 and 4403 are written for HTTP's 401 and 403 by many servers.
"""

from __future__ import annotations

_NAMES = {
    1000: "normal closure",
    1001: "going away",
    1002: "protocol error",
    1003: "unsupported data",
    1005: "no code",
    1006: "the connection broke",
    1007: "invalid text",
    1008: "policy violation",
    1009: "message too big",
    1010: "mandatory extension",
    1011: "internal error",
    1012: "service restart",
    1013: "try again later",
    1014: "bad gateway",
    3000: "unauthorized",
    3003: "forbidden",
    3008: "timeout",
    4401: "unauthorized",
    4403: "forbidden",
}
_CREDENTIALS = frozenset([3000, 3003, 4401, 4403])
#: Characters of a server's own reason that are shown.
SHOWN = 120
#: What a connection that was closed for want of credentials says first; the diagnosis knows it by this.
UNAUTHORIZED = "the server closed the WebSocket for want of credentials"


def said(code: int, reason: str) -> str:
    """Code, its name, and what the server wrote beside it, fit to be shown."""
    named = f"{code} {_NAMES[code]}" if code in _NAMES else str(code)
    return f"{named}: {ascii(reason[:SHOWN])}" if reason else named


def closed(code: int, reason: str) -> str:
    """Why a connection ended that the server closed with this code."""
    if code in _CREDENTIALS:
        return f"{UNAUTHORIZED} ({said(code, reason)})"
    return f"the server closed the WebSocket ({said(code, reason)})"

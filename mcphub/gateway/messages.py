"""Owns the way of servers' log messages to agents: who may hear them, from which level on, under which name.

It must not log anything itself. Log lines of legacy servers, and of any server on a byte stream, carry no request: they
go to legacy agents by their own level, and to a modern agent only if its opted-in call is the only one in flight there
(bridging rules, logging; MCP spec, server/utilities/logging).
"""

from __future__ import annotations

import msgspec

from mcphub.protocol import jsonrpc
from mcphub.protocol.envelope import LOG_LEVELS
from mcphub.protocol.jsonrpc import Raw

MESSAGE = "notifications/message"
#: What a legacy agent hears that never set a level.
DEFAULT_LEVEL = "warning"

_RANK = {level: n for n, level in enumerate(LOG_LEVELS)}
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str).decode


def is_level(level: object) -> bool:
    return isinstance(level, str) and level in _RANK


def passes(level: str, threshold: str) -> bool:
    """Whether a message of this level is heard at this threshold."""
    return _RANK[level] >= _RANK[threshold]


def most_verbose(levels: list[str]) -> str:
    """The level a server must be set to so that everybody hears what they asked for; "" = nobody asked."""
    return min(levels, key=_RANK.__getitem__) if levels else ""


def named(server: str, params: Raw) -> tuple[str, bytes] | None:
    """(level, frame) of a message with the server's name in front of its logger; None if it is no log message."""
    try:
        fields = _members(params)
        level = _string(fields["level"])
        raw = fields.get("logger", Raw(b"null"))
        logger = _string(raw) if bytes(raw) != b"null" else ""
    except (msgspec.DecodeError, KeyError, RecursionError):
        return None
    if level not in _RANK:
        return None
    name = f"{server}/{logger}" if logger else server
    data = bytes(fields.get("data", Raw(b"null")))
    body = b'{"level":"%b","logger":%b,"data":%b}' % (level.encode(), jsonrpc.quote(name), data)
    return level, jsonrpc.notification_frame(MESSAGE, body)

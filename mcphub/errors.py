"""Owns the exceptions that some caller of mcphub branches on; a cause nobody branches on is a message, not a class.

It must not know any package of mcphub. Wording: "cannot <do> <what>: <cause>", then what to do next.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs the command line several milliseconds, and nothing here needs it at run time
    from typing import Any


class McphubError(Exception):
    """Root of the errors below. `str(error)` is one line fit for a person."""


class ConfigError(McphubError):
    """A file, or one entry of it, cannot be used. The message names file and key."""


class RemoteProtocolError(McphubError):
    """The peer broke the protocol (MCP spec, base protocol); only its own connection may suffer."""


class TransportError(McphubError):
    """No answer came: the connection is gone, refused or too slow. Whether the peer acted is unknown."""

    def __init__(self, message: str, *, kind: str = "lost", retry_after: float = 0.0) -> None:
        super().__init__(message)
        #: `lost`, `timeout`, `overloaded`, `exited`, `spawn`, `too_large`
        self.kind = kind
        #: seconds that the peer wants to be left alone, 0 = it did not say
        self.retry_after = retry_after


class JSONRPCError(McphubError):
    """The peer answered with a JSON-RPC error object (MCP spec, base protocol, error codes)."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class ControlError(McphubError):
    """The control API refused or could not be reached. `status` is the HTTP status, 0 when no daemon answered."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status

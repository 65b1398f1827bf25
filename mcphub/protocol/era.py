"""Owns the probe that finds out which era a server on a byte stream speaks, as a stepper.

It must not send, wait or read a clock; the caller performs each step and reports what came. The rule is the client
algorithm of MCP spec 2026-07-28, basic/transports/stdio (backward compatibility) and basic/versioning:

1. `server/discover` goes first. Its result means modern; so do the errors -32022, -32021 and -32020.
2. Any other error, or silence, means legacy: `initialize`. The fallback depends on no particular code.
3. A process may be locked to the era of its first message: where the second attempt is refused too, the process is
   started again and spoken to in the other era from its first byte.
4. A discover answer that comes late, after `initialize` went out, still counts when `initialize` is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcphub.protocol.jsonrpc import UNSUPPORTED_PROTOCOL_VERSION
from mcphub.protocol.versions import LATEST_LEGACY, LATEST_MODERN, LEGACY, Era, choose_modern

MODERN_ERRORS = frozenset({-32022, -32021, -32020})


@dataclass(frozen=True, slots=True)
class Discover:
    """Send `server/discover` in this version; report silence after the probe's limit."""

    version: str


@dataclass(frozen=True, slots=True)
class Initialize:
    """Send `initialize` asking for this version; it may take as long as the whole start may."""

    version: str


@dataclass(frozen=True, slots=True)
class Restart:
    """End the process and start it again; begin with `Probe(first=era)`."""

    era: Era


@dataclass(frozen=True, slots=True)
class Spoken:
    """The verdict. `result` is the decoded DiscoverResult or InitializeResult."""

    era: Era
    version: str
    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Refused:
    """No common ground; the message says what both sides speak."""

    message: str


Step = Discover | Initialize | Restart | Spoken | Refused


@dataclass(slots=True)
class Probe:
    """One probe of one process. `first` skips the discovery of the era; `restarted`: no second restart is allowed."""

    first: Era | None = None
    restarted: bool = False
    _late: dict[str, Any] | None = None
    _retried: bool = False
    _discover_error: str = ""

    def start(self) -> Step:
        return Initialize(LATEST_LEGACY) if self.first == "legacy" else Discover(LATEST_MODERN)

    def discovered(self, result: dict[str, Any]) -> Step:
        """A DiscoverResult came in time."""
        supported = [v for v in result.get("supportedVersions") or () if isinstance(v, str)]
        version = choose_modern(supported)
        if version is not None:
            return Spoken("modern", version, result)
        if any(v in LEGACY for v in supported):
            return Initialize(next(v for v in LEGACY if v in supported))
        return Refused(f"the server supports {', '.join(supported) or 'no version'}, mcphub none of them")

    def discover_refused(self, code: int, message: str, data: Any) -> Step:
        """`server/discover` was answered with an error."""
        self._discover_error = f"{message} ({code})"
        if code in MODERN_ERRORS:
            supported = data.get("supported") if isinstance(data, dict) else None
            supported = [v for v in supported if isinstance(v, str)] if isinstance(supported, list) else []
            version = choose_modern(supported)
            if code == UNSUPPORTED_PROTOCOL_VERSION and version is None:
                if any(v in LEGACY for v in supported):
                    return Initialize(next(v for v in LEGACY if v in supported))
                return Refused(f"the server supports {', '.join(supported) or 'no version mcphub knows'}")
            if self._retried:
                return Refused(f"the server refuses its own version: {self._discover_error}")
            self._retried = True
            return Discover(version or LATEST_MODERN)
        if self.first == "modern":
            return self._other("legacy", f"the server refuses server/discover: {self._discover_error}")
        return Initialize(LATEST_LEGACY)

    def silent(self) -> Step:
        """`server/discover` got no answer within the probe's limit."""
        self._discover_error = "no answer"
        return Initialize(LATEST_LEGACY)

    def discovered_late(self, result: dict[str, Any]) -> None:
        """A DiscoverResult came after `initialize` went out."""
        self._late = result

    def initialized(self, result: dict[str, Any]) -> Step:
        version = result.get("protocolVersion")
        if version not in LEGACY:
            return Refused(f"the server answered initialize with the unknown version {str(version)[:40]!r}")
        return Spoken("legacy", str(version), result)

    def initialize_refused(self, code: int, message: str) -> Step:
        if self._late is not None:
            late, self._late = self._late, None
            return self.discovered(late)
        text = f"the server refuses initialize: {message} ({code})"
        if self.first == "legacy":
            return self._other("modern", text)
        # Refused both ways in one process: its first message locked it.
        return self._other("legacy", text)

    def _other(self, era: Era, text: str) -> Step:
        if self.restarted:
            return Refused(text + (f"; server/discover: {self._discover_error}" if self._discover_error else ""))
        return Restart(era)

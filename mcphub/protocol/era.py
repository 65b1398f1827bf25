"""Owns the probe that finds out which era a server on a byte stream speaks, as a stepper.

It must not send, wait or read a clock; the caller performs each step and reports what came. The rule is the client
algorithm of MCP spec 2026-07-28, basic/transports/stdio (backward compatibility) and basic/versioning:

1. `server/discover` goes first. Its result means modern; so do the errors -32022, -32021 and -32020.
2. Any other error, or silence, means legacy: `initialize`. The fallback depends on no particular code.
3. A process may be locked to the era of its first message: where the second attempt is refused too, the process is
   started again and spoken to in the other era from its first byte.
4. A discover answer that comes late, after `initialize` went out, still counts when `initialize` is refused; and a
   server that was silent and then refuses `initialize` is asked to discover once more, now that it is awake.
5. A server that refuses the version of `initialize` and names older ones is asked for one of those, once.
6. A process that ends instead of answering `server/discover` may be one that bears no first message but `initialize`:
   it is started again, once, and begins with that.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mcphub.protocol.jsonrpc import UNSUPPORTED_PROTOCOL_VERSION
from mcphub.protocol.versions import LATEST_LEGACY, LATEST_MODERN, LEGACY, Era, choose_modern

MODERN_ERRORS = frozenset({-32022, -32021, -32020})
#: Characters of a peer's text that go into a message of ours.
MAX_MESSAGE = 300


class Discover(msgspec.Struct, frozen=True):
    """Send `server/discover` in this version; report silence after the probe's limit."""

    version: str


class Initialize(msgspec.Struct, frozen=True):
    """Send `initialize` asking for this version; it may take as long as the whole start may."""

    version: str


class Restart(msgspec.Struct, frozen=True):
    """End the process and start it again; begin with `Probe(first=era)`."""

    era: Era


class Spoken(msgspec.Struct, frozen=True):
    """The verdict. `result` is the decoded DiscoverResult or InitializeResult."""

    era: Era
    version: str
    result: dict[str, Any]


class Refused(msgspec.Struct, frozen=True):
    """No common ground; the message says what both sides speak."""

    message: str


Step = Discover | Initialize | Restart | Spoken | Refused


class Probe(msgspec.Struct):
    """One probe of one process. `first` skips the discovery of the era; `restarted`: no second restart is allowed."""

    first: Era | None = None
    restarted: bool = False
    _late: dict[str, Any] | None = None
    _retried: bool = False
    _silent: bool = False
    _asked_older: bool = False
    _discover_error: str = ""

    def start(self) -> Step:
        return Initialize(LATEST_LEGACY) if self.first == "legacy" else Discover(LATEST_MODERN)

    def discovered(self, result: dict[str, Any]) -> Step:
        """A DiscoverResult came in time. What has no list of versions is none: some servers answer anything."""
        supported = _versions(result.get("supportedVersions"))
        if supported is None:
            return self.discover_refused(0, "the answer names no versions", None)
        version = choose_modern(supported)
        if version is not None:
            return Spoken("modern", version, result)
        return _older(supported) or Refused(f"the server supports {_shown(supported)}, mcphub none of them")

    def discover_refused(self, code: int, message: str, data: Any) -> Step:
        """`server/discover` was answered with an error."""
        self._discover_error = f"{message[:MAX_MESSAGE]} ({code})" if code else message
        if code == UNSUPPORTED_PROTOCOL_VERSION:
            supported = _versions(data.get("supported") if isinstance(data, dict) else None) or []
            version = choose_modern(supported)
            if version is None:
                return _older(supported) or Refused(f"the server supports {_shown(supported)}, mcphub none of them")
            return self._again(version)
        if code in MODERN_ERRORS:
            return self._again(LATEST_MODERN)
        if self.first == "modern":
            return self._other("legacy", f"the server refuses server/discover: {self._discover_error}")
        return Initialize(LATEST_LEGACY)

    def silent(self) -> Step:
        """`server/discover` got no answer within the probe's limit."""
        self._discover_error = "no answer"
        if self._silent:  # twice, and `initialize` was refused in between
            return self._other("legacy", "the server refuses initialize and does not answer server/discover")
        self._silent = True
        return Initialize(LATEST_LEGACY)

    def died(self) -> Restart | None:
        """The process ended before it answered anything."""
        if self.first is not None or self.restarted or self._discover_error:
            return None
        return Restart("legacy")

    def discovered_late(self, result: dict[str, Any]) -> None:
        """A DiscoverResult came after `initialize` went out."""
        self._late = result

    def initialized(self, result: dict[str, Any]) -> Step:
        """`initialize` was answered."""
        version = result.get("protocolVersion")
        if not isinstance(version, str) or version not in LEGACY:
            shown = version[:40] if isinstance(version, str) else None
            return Refused(f"the server answered initialize with the unknown version {shown!r}")
        return Spoken("legacy", version, result)

    def initialize_refused(self, code: int, message: str, data: Any = None) -> Step:
        """`initialize` was answered with an error."""
        if self._late is not None:
            late, self._late = self._late, None
            return self.discovered(late)
        named = _versions(data.get("supported") if isinstance(data, dict) else None)
        # Some servers name them in words only; the one that was asked for may stand among these.
        older = _older(named if named is not None else [v for v in LEGACY if v in message and v != LATEST_LEGACY])
        if older is not None and older.version != LATEST_LEGACY and not self._asked_older:
            self._asked_older = True
            return older
        if self._silent and not self._retried:
            self._retried = True
            return Discover(LATEST_MODERN)
        text = f"the server refuses initialize: {message[:MAX_MESSAGE]} ({code})"
        if self.first == "legacy":
            return self._other("modern", text)
        # Refused both ways in one process: its first message locked it.
        return self._other("legacy", text)

    def _again(self, version: str) -> Step:
        if self._retried:
            return Refused(f"the server refuses server/discover in a version it speaks: {self._discover_error}")
        self._retried = True
        return Discover(version)

    def _other(self, era: Era, text: str) -> Step:
        if self.restarted:
            told = not self._discover_error or text.endswith(self._discover_error)
            return Refused(text if told else f"{text}; server/discover: {self._discover_error}")
        return Restart(era)


def _versions(found: Any) -> list[str] | None:
    """The strings of a list of versions; None for what is no list."""
    return [v for v in found if isinstance(v, str)] if isinstance(found, list) else None


def names_legacy(discovered: dict[str, Any]) -> bool:
    """Whether a DiscoverResult names a legacy version among those that its server speaks."""
    return any(version in LEGACY for version in _versions(discovered.get("supportedVersions")) or ())


def _older(supported: list[str]) -> Initialize | None:
    """The handshake in the newest legacy version of these."""
    version = next((v for v in LEGACY if v in supported), None)
    return Initialize(version) if version is not None else None


def _shown(supported: list[str]) -> str:
    return ", ".join(v[:20] for v in supported[:10]) or "no version"

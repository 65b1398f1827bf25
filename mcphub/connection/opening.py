"""Owns how one server is opened: by which transport, in which era first, and when it is begun again at once.

It must not open, wait or log, nor know states. It is told what an attempt came to, and says what the next one does. The
other transport, and the era, are memories of what was found out: where they fail, the next attempt begins as the entry
says.
"""

from __future__ import annotations

import msgspec

from mcphub.connection.faults import Fault, FaultKind
from mcphub.protocol import era
from mcphub.protocol.versions import Era
from mcphub.spec import HttpSpec, ServerSpec, WsSpec

#: The transport that stands in for Streamable HTTP, a key of transport.kinds.TRANSPORTS.
OLDER = "sse"


class Opening:
    """How the server of an entry is opened, over all its attempts. `by` is a key of transport.kinds.TRANSPORTS."""

    def __init__(self, spec: ServerSpec) -> None:
        self.by = spec.transport.kind
        self._named = spec.transport.kind
        #: Each request travels by itself.
        self._by_requests = isinstance(spec.transport, HttpSpec) and not isinstance(spec.transport, WsSpec)
        self._pin = pinned(spec)
        self._era: Era | None = None
        #: What Streamable HTTP failed with, while the older transport is only a guess.
        self._refused: Fault | None = None

    @property
    def stands_in(self) -> bool:
        """It is spoken to by another transport than its entry names."""
        return self.by != self._named

    def probe(self) -> era.Probe:
        """The probe of a new attempt. A pinned era is not searched for: a refusal is final."""
        # Over HTTP no first message locks anything: to begin again only helps where the era was a memory.
        final = self._pin is not None or (self._by_requests and self._era is None)
        return era.Probe(first=self._pin or self._era, restarted=final)

    def after(self, fault: Fault, *, older: bool, probe: era.Probe, first: bool) -> era.Probe | None:
        """How to begin again at once after this fault, None = not so. `older`: there is nothing to post `initialize`
        to; `first`: it is the first attempt."""
        return self._other_transport(fault, older) or self._other_era(fault, probe, first)

    def _other_transport(self, fault: Fault, older: bool) -> era.Probe | None:
        """By HTTP+SSE where Streamable HTTP is refused, by what the entry names where that was a memory."""
        if older and self.by != OLDER:
            self.by, self._refused = OLDER, fault
            return era.Probe(first="legacy", restarted=True)
        remembered = self.stands_in and self._refused is None
        if remembered and fault.phase == "handshake" and fault.kind is FaultKind.HTTP_STATUS:
            self.by = self._named
            return era.Probe(first=self._pin, restarted=True)
        return None

    def _other_era(self, fault: Fault, probe: era.Probe, first: bool) -> era.Probe | None:
        """With a program that ended at its first message, or a WebSocket that was closed at it; only at the first
        attempt, since most of those that end at once would end at any message."""
        ended = FaultKind.LOST if self._named == "ws" else FaultKind.EXITED
        if not first or fault.phase != "handshake" or fault.kind is not ended:
            return None
        step = probe.died()
        return era.Probe(first=step.era, restarted=True) if step is not None else None

    def begin_again(self, probe: era.Probe) -> str:
        """It is begun again so; returns how, for the log."""
        if probe.first == "modern":
            self.by = self._named  # the older transport carries the legacy era alone
        how = f"in the {probe.first} era" if probe.first else "from the beginning"
        return how + (", by HTTP+SSE" if self.stands_in else "")

    def opened(self, found: Era) -> None:
        """It is connected, in this era: both are remembered."""
        self._era = found
        self._refused = None

    def failed(self, fault: Fault) -> Fault:
        """The attempt, or the connection, is over for this; returns what is to be said of it."""
        if fault.phase != "serve":
            self.by = self._named
        before, self._refused = self._refused, None
        if before is not None and fault.kind in (FaultKind.HTTP_STATUS, FaultKind.NO_ANSWER):
            # The older transport was only a guess.
            fault = msgspec.structs.replace(before, message=f"{before.message}; by HTTP+SSE: {fault.message}")
        if fault.phase in ("handshake", "list"):
            self._era = None  # the remembered era may be why: probe again
        return fault

    def sessions_beside(self, found: Era) -> bool:
        """Whether legacy sessions can be had beside a connection of this era."""
        return self.by == "http" and (found == "legacy" or self._pin is None)


def pinned(spec: ServerSpec) -> Era | None:
    """The era that the entry wants, None = whichever is found."""
    match spec.era:
        case "legacy" | "modern":
            return spec.era
        case _:
            return None

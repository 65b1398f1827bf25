"""Owns the first moments of a session that another daemon had: what its agent is sent before anything else.

It must not know where that was read.
"""

from __future__ import annotations

from mcphub.errors import RemoteProtocolError
from mcphub.gateway.dispatch import Gateway
from mcphub.gateway.left_over import judge
from mcphub.gateway.refusals import BAD_REQUEST
from mcphub.gateway.standing import Owed, unknown_outcome
from mcphub.protocol import jsonrpc
from mcphub.sessions.resumption import Resumption, torn_id
from mcphub.sessions.session import Session
from mcphub.transport.wire import Wire

#: Stands for what is missing of a line, which is no JSON with it.
GAP = b"#"


def resume(gateway: Gateway, session: Session, wire: Wire, before: Resumption) -> None:
    """What was half written is ended, what was in flight answered, and what was half read is read on. The wire has no
    descriptors yet."""
    if before.cut:
        session.send(b"\n")
    gateway.resume(session, before.standing)
    for owed in before.standing.owed:
        mid = owed.mid.encode()
        record = gateway.outcomes.record(mid, session.pid, before.outcomes)
        judge(owed, record, gateway.aim_of(session, owed.tool))
        session.send(unknown_outcome(owed, gateway.outcomes.left(mid, session.pid)))
    for line in before.again:
        session.frame(line)
    if before.torn:
        wire.receiver = _Torn(session, wire, before.tail)
        wire.feed(GAP)
    elif before.tail:
        wire.feed(before.tail)


class _Torn:
    """Receives the rest of a line whose beginning, `head`, is known, and whose middle died with the one that read it.
    Implements channel.Receiver."""

    def __init__(self, session: Session, wire: Wire, head: bytes) -> None:
        self._session = session
        self._wire = wire
        self._head = head
        self._first = True

    def frame(self, line: bytes | memoryview) -> None:
        if not self._first:
            self._session.frame(line)  # of the same turn of the loop
            return
        self._first = False
        self._wire.receiver = self._session
        rest = bytes(line).removeprefix(GAP)
        try:
            jsonrpc.decode(rest)
        except RemoteProtocolError:
            self._answer(rest)
        else:
            self._session.frame(rest)  # nothing of this one was missing

    def _answer(self, rest: bytes) -> None:
        if mid := torn_id(self._head, rest):
            self._session.send(unknown_outcome(Owed(mid, "the reading of a request", True)))
        else:
            text = "the mcphub daemon ended while it read this message, of which something is lost"
            self._session.send(jsonrpc.error_frame(b"null", jsonrpc.PARSE_ERROR, text, BAD_REQUEST))

    def too_long(self, head: bytes, message: str) -> None:
        if self._first:
            self._first = False
            self._wire.receiver = self._session
            self._answer(b"")
        else:
            self._session.too_long(head, message)

    def unanswered(self, request_id: int, kind: str, message: str) -> None:
        self._session.unanswered(request_id, kind, message)

    def lost(self, reason: str) -> None:
        self._session.lost(reason)

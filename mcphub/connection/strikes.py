"""Owns the rule by which failed requests end a connection that is not one stream: three in a row, or too many of many.

It must not know transports, nor what failed. One lost request says little where each travels by itself; a server that
answers every second time is caught too, only later (case C086).
"""

from __future__ import annotations

import msgspec

#: Failures in a row that are enough.
IN_A_ROW = 3
#: Failures among answers that are enough, each answer leaving so much of those before it: with half of the requests
#: failing the eleventh failure is enough, with a third of them none is.
AMONG_ANSWERS = 4.5
KEPT = 0.8
#: Kinds of `unanswered` that speak of the way to the server, and `silent`, a probe that is not answered; a wait for
#: anything else that ended here does not, and a refusal is as good as an answer.
COUNTED = frozenset(["lost", "unreachable", "tls", "status", "no_response", "silent"])
HEARD = frozenset(["refused", "rate_limited", "needs_auth", "unreadable", "session_over"])

#: The nine signals by which a client that is widely used tells that a connection is over, and the kinds that each has
#: here; what they have in common is that no answer came, and that it was not ours to end.
SIGNALS = {
    "ECONNRESET": ("lost",),
    "ETIMEDOUT": ("unreachable", "lost"),
    "EPIPE": ("lost",),
    "EHOSTUNREACH": ("unreachable",),
    "ECONNREFUSED": ("unreachable",),
    "Body Timeout Error": ("no_response", "silent"),
    "terminated": ("lost",),
    "SSE stream disconnected": ("lost",),
    "Failed to reconnect SSE stream": ("lost",),
}


class Strikes(msgspec.Struct, frozen=True):
    """What is remembered of earlier requests; NONE = nothing."""

    row: int = 0
    score: float = 0.0

    @property
    def enough(self) -> bool:
        return self.row >= IN_A_ROW or self.score >= AMONG_ANSWERS

    def failed(self, kind: str) -> Strikes:
        """After a request that ended without an answer; `kind` as in channel.Receiver.unanswered."""
        if kind in COUNTED:
            return Strikes(self.row + 1, self.score + 1.0)
        return self.answered() if kind in HEARD else self

    def answered(self) -> Strikes:
        """After a real answer of the server, whatever it says."""
        score = self.score * KEPT
        return Strikes(0, score) if score >= 0.1 else NONE


NONE = Strikes()

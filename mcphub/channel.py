"""Owns what a transport gives and takes: whole frames in, whole frames out, one end.

It must not know any transport, nor what a frame says. The methods are called on the event loop's thread only.
"""

from __future__ import annotations

from typing import Protocol

Data = bytes | bytearray | memoryview

#: Kinds of `Receiver.unanswered` that say: the server has not acted on the request.
NOT_ACTED_ON = frozenset(
    ["unreachable", "tls", "refused", "rate_limited", "needs_auth", "session", "session_over", "unsent", "overdue"]
)


class Receiver(Protocol):
    """Who is told what a channel brings. An exception here closes that channel only.

    One that has `burst(lines: Sequence[bytes]) -> bool` is offered what came in one read together, by channels that are
    a stream; where it says False it has done nothing, and gets them as `frame`.
    """

    def frame(self, line: bytes | memoryview) -> None:
        """One message without its newline. A view is valid during the call only: copy what must live longer."""

    def too_long(self, head: bytes, message: str) -> None:
        """A message was thrown away because of its size; `head` is how it began. The channel goes on."""

    def unanswered(self, request_id: int, kind: str, message: str) -> None:
        """This request will not be answered, though the channel lives; only channels on which each request travels by
        itself say so. `kind`: `unreachable`, `tls`, `refused`, `rate_limited`, `needs_auth` (the server did not act on
        it), `lost`, `no_response`, `status` (it may have), `unreadable`, `ended` (a stream that had begun), `session`
        (not acted on; it may be sent again to the server's next session), `session_over` (there was none that took it),
        `older` (`initialize` alone: not acted on, and the older transport of HTTP is to be tried)."""

    def lost(self, reason: str) -> None:
        """The last call: the peer is gone ("" = orderly end of stream) or broke the framing (why)."""


class Channel(Protocol):
    """One duplex stream of frames. `full` while the peer does not read what was sent.

    `current`: while `frame` runs for what came on the stream of one request, that request's id, else None. One with a
    true `stream` takes several frames as one as well. One where requests wait before they are sent, or sent again after
    a refusal, has `untouched(request_id: int) -> bool`: whether this one does, so that its server has certainly not
    acted on it. Where such a one ends because its connection does, its waiter is told `unsent`; because its time is
    over, `overdue`.
    """

    full: bool
    current: int | None

    def send(self, *parts: Data) -> None:
        """Queue one frame, newline included, in any number of parts; views must stay valid until this loop turn ends.
        Never blocks and never raises: a channel that is gone drops it."""

    def abort(self) -> None:
        """Close at once, dropping what is queued; `lost` follows."""

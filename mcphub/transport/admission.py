"""Owns whether a server lets the requests in that are sent to it now: the refusal of the last that it did not.

It must not know what credentials there are, nor states: one request that is refused ends no connection (case C093).
"""

from __future__ import annotations

from collections.abc import Callable


class Admission:
    """Of one server, over all its connections. `now`: the clock; `changed` is called when it begins or ends to refuse,
    or does so in other words."""

    __slots__ = ("_changed", "_now", "refusal", "since")

    def __init__(self, now: Callable[[], float], changed: Callable[[], None]) -> None:
        #: What the last request that wanted other credentials was told, "" = one was let in since.
        self.refusal = ""
        #: When the first of them was, monotonic seconds.
        self.since = 0.0
        self._now = now
        self._changed = changed

    def refused(self, text: str) -> None:
        """A request was refused for its credentials; `text` is the end of a sentence about the server."""
        if not self.refusal:
            self.since = self._now()
        if text != self.refusal:
            self.refusal = text
            self._changed()

    def accepted(self) -> None:
        """A request was let in, whatever it was answered."""
        if self.refusal:
            self.refusal = ""
            self._changed()

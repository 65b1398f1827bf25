"""Owns the event loop of a daemon that runs servers of its own process: one that no code of theirs ends.

It must not know which servers those are. asyncio lets SystemExit and KeyboardInterrupt pass out of the loop, so that
one task of one server would be the end of all; here they end the task or the callback that raised them, as any other
exception does. An orderly end does not need them: the daemon's signals are callbacks of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class InProcessLoop(asyncio.SelectorEventLoop):
    """`report` is told each such exception; whoever awaits the task that raised it gets it too."""

    def __init__(self, report: Callable[[BaseException], None]) -> None:
        super().__init__()
        self._report = report
        self._told_to_stop = False

    def stop(self) -> None:
        self._told_to_stop = True
        super().stop()

    def run_forever(self) -> None:
        """Until `stop`. What else was ready in the turn that such an exception cut short is still run."""
        self._told_to_stop = False
        while True:
            try:
                return super().run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                self._report(error)
                if self._told_to_stop:  # in the same turn; the loop itself has forgotten it
                    return None

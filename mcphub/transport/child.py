"""Owns one server program as its connection sees it: whether it runs, how it ended, and the ladder that ends it.

It must not know how this system starts or signals processes; whoever started it reports here and signals for it.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable

import anyio

#: Seconds that a tree gets after SIGKILL: only another user's process or an uninterruptible one needs more.
KILL_PATIENCE = 2.0
#: Seconds that the rest of a tree gets whose direct child had ended by itself, before it is signalled.
SETTLE = 0.1
#: Seconds within which a signal must be known to be sent.
_SIGNAL_PATIENCE = 1.0


class Child:
    """A started program and everything that it started itself.

    `exited` is set when the direct child ended, `gone` when nothing of its tree is left. `returncode` is as in
    subprocess (negative = that signal), None while it runs and for ever if whoever could tell was killed.
    """

    def __init__(self, pid: int, signal_tree: Callable[[int], Awaitable[int]]) -> None:
        self.pid = pid
        self.exited = anyio.Event()
        self.gone = anyio.Event()
        self.returncode: int | None = None
        self._signal_tree = signal_tree
        self._ending = anyio.Lock()
        self._steps: list[str] = []

    # -- told by whoever started it --

    def report_exit(self, returncode: int | None) -> None:
        """The direct child ended; None = nobody knows how."""
        if not self.exited.is_set():
            self.returncode = returncode
            self.exited.set()

    def report_gone(self) -> None:
        self.report_exit(None)
        self.gone.set()

    # -- for its connection --

    def outcome(self) -> str:
        """How the direct child ended, for a person: `exited with code 1`, `killed by SIGKILL`, `still running`."""
        if not self.exited.is_set():
            return "still running"
        if self.returncode is None:
            return "ended, exit status unknown"
        if self.returncode >= 0:
            return f"exited with code {self.returncode}"
        try:
            return f"killed by {signal.Signals(-self.returncode).name}"
        except ValueError:
            return f"killed by signal {-self.returncode}"

    async def end(self, grace: float = 2.0) -> list[str]:
        """End the tree; the caller has closed the program's stdin, which is the only portable request to stop (MCP
        spec 2026-07-28, transports, stdio, shutdown).

        Waits `grace` seconds, SIGTERM to group and tree, waits `grace` seconds, SIGKILL to group and tree. What had
        exited by itself before the call is given no time but SETTLE: only leftovers are ended. Cannot be cancelled;
        takes at most `2 * grace + KILL_PATIENCE + 2` seconds. A second call waits for the first and returns the same.
        Returns the steps taken, for the log.
        """
        with anyio.CancelScope(shield=True):
            async with self._ending:
                if not self._steps:
                    self._steps = await self._descend(grace)
        return list(self._steps)

    async def _descend(self, grace: float) -> list[str]:
        crashed = self.exited.is_set()
        if await self._is_gone(min(grace, SETTLE) if crashed else grace):
            return [f"{self.outcome()} before the end was asked for" if crashed else f"{self.outcome()} by itself"]
        steps = [f"waited {grace:g} s after end of input" if not crashed else f"{self.outcome()}, its children did not"]
        for signo, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, KILL_PATIENCE)):
            count = 0
            with anyio.move_on_after(_SIGNAL_PATIENCE) as scope:
                count = await self._signal_tree(signo)
            answered = not scope.cancelled_caught
            steps.append(f"{signo.name} to {count}" if answered else f"{signo.name}: no answer from the launcher")
            if await self._is_gone(patience):
                steps.append(self.outcome())
                return steps
        steps.append(f"left running: some of the tree of process {self.pid} cannot be killed")
        return steps

    async def _is_gone(self, patience: float) -> bool:
        with anyio.move_on_after(patience):
            await self.gone.wait()
        return self.gone.is_set()

"""Owns running calls that may block for ever: one at a time, in a thread that neither the loop nor the end waits for.

It must not know what is called. anyio's own worker threads would be joined when the process ends, and its limiter lets
the next call in as soon as a caller gave up.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


class Overdue(Exception):
    """The call, or the one before it, has not ended in time; it goes on."""


class OneThread:
    """For one event loop. Calls are made in the order in which they came."""

    def __init__(self) -> None:
        self._queue = anyio.Lock()
        self._idle = anyio.Event()
        self._idle.set()
        self._overran = False

    async def run(self, call: Callable[[], T], deadline: float, ended: Callable[[], None]) -> T:
        """What `call` returns or raises. Raises Overdue after `deadline` seconds, and at once while a call runs that
        somebody gave up for this. `ended` is called on the loop's thread when the call has ended, waited for or not."""
        if self._overran:
            raise Overdue
        loop = asyncio.get_running_loop()
        box: list[T] = []
        failure: list[BaseException] = []

        def finish(done: anyio.Event) -> None:
            self._overran = False
            done.set()
            ended()

        def work(done: anyio.Event) -> None:
            try:
                box.append(call())
            except BaseException as error:  # raised again where it is waited for
                failure.append(error)
            try:
                loop.call_soon_threadsafe(finish, done)
            except RuntimeError:
                pass  # the loop is closed: nobody is left to tell

        with anyio.move_on_after(deadline):
            async with self._queue:
                await self._idle.wait()
                done = self._idle = anyio.Event()
                threading.Thread(target=work, args=(done,), name="mcphub vault", daemon=True).start()
                await done.wait()
                if failure:
                    raise failure[0]
                return box[0]
        self._overran = not self._idle.is_set()
        raise Overdue

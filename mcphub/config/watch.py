"""Owns being told that something happened to files, by Linux itself, elsewhere by watchfiles.

It must not read the files, nor decide whether they are now others: it says "look again". What is not told (`complete`)
must be looked at by whoever follows.

Linux is asked without the library: that looks at its own list several times a second for ever, is woken by everybody
who opens a file in a watched directory (each program that starts opens some in /etc), and does not tell of owner and
mode, which decide whether an administrator's file is trusted.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import anyio
import anyio.to_thread

from .inotify import Inotify
from .watched import Watched

#: Seconds of quiet after which what happened is told as one, and the longest that it is held back. A file that is read
#: sooner after it was written has to be read again: see `Stamp.settled`.
QUIET = 0.1
AT_MOST = 0.4
#: Seconds until watching is tried again after it failed.
AGAIN = 60.0

#: watchfiles has no wait that an event ends: so often it looks whether there is one, milliseconds.
STEP = 150

Way = Literal["inotify", "watchfiles"]
_WAY: Way = "inotify" if sys.platform == "linux" else "watchfiles"
_NOT_BEGUN = "not begun"


class FileNews:
    """What happens to the paths that it follows. `run` watches until cancelled; `wait` returns on news."""

    def __init__(self, way: Way = _WAY) -> None:
        #: Why nothing is told (yet); "" = all is well.
        self.problem = _NOT_BEGUN
        #: Everything is told. Else some of it is not: what another machine does on a file system that both use, what
        #: happens in a directory that may not be watched; by watchfiles also changes of owner and mode.
        self.complete = False
        #: Something was told, so the directories may be others under the same names.
        self.told = False
        self._way = way
        self._watched = Watched()
        self._kernel: Inotify | None = None
        self._others = anyio.Event()
        self._news = anyio.Event()

    @property
    def failed(self) -> bool:
        """It was tried to watch, and cannot be."""
        return self.problem not in ("", _NOT_BEGUN)

    def follow(self, new: Watched) -> None:
        """From now on these. What was followed and still is, is not missed."""
        self.told = False
        before, self._watched = self._watched, new
        if new.directories != before.directories:
            self._others.set()
            self._arm()

    def again(self) -> None:
        """Have whoever waits look once more: what is to be followed has changed."""
        self._news.set()

    async def wait(self) -> None:
        """Until something happened since the last time; what happened before it was watched may count too."""
        await self._news.wait()
        self._news = anyio.Event()
        self.told = True

    async def run(self) -> None:
        """Watch, and after a failure try again later. Never raises but for cancellation."""
        while True:
            try:
                await (self._inotify() if self._way == "inotify" else self._library())
            except (ImportError, OSError, RuntimeError) as error:
                self._cannot(error)
            with anyio.move_on_after(AGAIN if self.failed else 0):
                await self._others.wait()

    def _tell(self, paths: Iterable[str] | None) -> None:
        if paths is None or any(self._watched.concerns(path) for path in paths):
            self._news.set()

    def _cannot(self, error: Exception) -> None:
        self.problem = getattr(error, "strerror", None) or str(error) or type(error).__name__
        self.complete = False

    # --- Linux -------------------------------------------------------------------------------------------------------

    async def _inotify(self) -> None:
        with Inotify() as self._kernel:
            try:
                self._arm()
                while True:
                    with anyio.move_on_after(AGAIN if self.problem else None) as scope:
                        await anyio.wait_readable(self._kernel.fd)
                    if scope.cancelled_caught:
                        self._arm()
                    else:
                        await self._gather(self._kernel)
            finally:
                self._kernel = None

    async def _gather(self, kernel: Inotify) -> None:
        """Pass on what happens until nothing more does: an editor's steps are one change."""
        paths = kernel.read()
        with anyio.move_on_after(AT_MOST):
            while paths is not None:
                with anyio.move_on_after(QUIET) as scope:
                    await anyio.wait_readable(kernel.fd)
                if scope.cancelled_caught:
                    break
                more = kernel.read()
                paths = None if more is None else [*paths, *more]
        self._tell(paths)

    def _arm(self) -> None:
        if self._kernel is None:
            return
        try:
            all_of_them = self._kernel.follow(self._watched.directories)
        except OSError as error:
            self._cannot(error)
            return
        self.problem = ""
        self.complete = all_of_them and not self._watched.shared
        self._news.set()  # what happened before they were watched

    # --- elsewhere ---------------------------------------------------------------------------------------------------

    async def _library(self) -> None:
        """Watch these directories until others are wanted."""
        self._others = anyio.Event()
        notify = await anyio.to_thread.run_sync(_open, sorted(self._watched.directories))
        stop = threading.Event()
        self.problem = ""
        self._news.set()  # what happened before they were watched

        async def listen() -> None:
            while not stop.is_set():
                self._tell(await anyio.to_thread.run_sync(_next, notify, stop))

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listen)
                try:
                    await self._others.wait()
                finally:
                    stop.set()  # the thread sees it within STEP
        except BaseExceptionGroup as group:
            failed = next((one for one in group.exceptions if isinstance(one, (OSError, RuntimeError))), None)
            if failed is None:
                raise
            raise failed from group


def _open(directories: Sequence[str]) -> Any:
    from watchfiles._rust_notify import RustNotify  # not for Linux

    # What may not be watched is left out: who follows looks by itself too.
    return RustNotify(list(directories), False, False, 0, False, True)


def _next(notify: Any, stop: threading.Event) -> Sequence[str]:
    """The paths of the next news, none once it shall stop. Runs in a thread."""
    found = notify.watch(int(AT_MOST * 1000), STEP, 0, stop)
    if stop.is_set():
        notify.close()
    return [path for _, path in found] if isinstance(found, set) else ()

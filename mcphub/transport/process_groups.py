"""Owns starting and ending server programs by process groups alone, for systems without a subreaper (macOS).

It must not know MCP, nor which server a child is; its interface is that of `launcher_client`.

Limits, which Linux does not have: when the daemon is killed with -9, servers that ignore the end of their input stay; a
descendant that left the group (setsid), lost its parent *and* cleared its environment is not found; membership
of a group whose leader was waited for is told by number and start time, and looked for by polling.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import TracebackType

import anyio
import psutil
from msgspec.structs import astuple

from mcphub.spec import Limits
from mcphub.transport.child import Child
from mcphub.transport.launcher.limits import take_limits
from mcphub.transport.spawn_request import Encoded, SpawnRequest

#: The variable that marks a tree; its value is unique to one start of one server.
MARK = "MCPHUB_TREE"
#: Seconds between looks at a tree that is being ended, and at one that merely outlived its direct child.
_LOOK = 0.05
_LOOK_IDLE = 1.0

_numbers = itertools.count(1)


def become_subreaper() -> bool:
    """There is no such thing here: False."""
    return False


class Launcher:
    """Starts server programs; leaving the context ends every one of them."""

    def __init__(self, started: None = None, on_mark: Callable[[int], None] | None = None) -> None:
        self._trees: set[_Tree] = set()

    async def __aenter__(self) -> Launcher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for tree in list(self._trees):
                    tasks.start_soon(tree.child.end, 0.2)

    @property
    def pid(self) -> int | None:
        """There is no launcher process."""
        return None

    async def spawn(self, request: SpawnRequest) -> Child:
        """As `launcher_client.Launcher.spawn`; the environment gets one more variable, MARK."""
        mark = f"{os.getpid()}-{next(_numbers)}-{os.urandom(4).hex()}"
        encoded = replace(request, env={**request.env, MARK: mark}).encoded()
        try:
            process = _start(encoded, request.fds, request.limits)
        except OSError as error:
            stage = "cwd" if error.filename == encoded[-1] else "exec" if error.filename else "fork"
            raise request.refusal(stage, error.errno or 0) from None
        return _Tree(process, mark, self._trees).child


def _start(encoded: Encoded, fds: tuple[int, int, int], limits: Limits) -> subprocess.Popen[bytes]:
    path, argv, env, cwd = encoded
    return subprocess.Popen(
        argv,
        executable=path,
        env=env,
        cwd=cwd,
        stdin=fds[0],
        stdout=fds[1],
        stderr=fds[2],
        start_new_session=True,
        # Safe while no other thread holds what the child needs: it makes three system calls, and only where asked.
        preexec_fn=partial(take_limits, *astuple(limits)) if limits != Limits() else None,
    )


class _Tree:
    """One started program and its group, watched in callbacks of the event loop."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str, trees: set[_Tree]) -> None:
        self.child = Child(process.pid, self._signal)
        self._process = process
        self._mark = mark
        self._trees = trees
        self._pause = _LOOK_IDLE
        self._loop = asyncio.get_running_loop()
        self._born = psutil.Process(process.pid).create_time()  # not waited for: it has an entry, even if it ended
        self._watch = _ExitWatch(process.pid)
        trees.add(self)
        self._loop.add_reader(self._watch.fd, self._exited)

    def _exited(self) -> None:
        self._loop.remove_reader(self._watch.fd)
        self._watch.close()
        self._process.wait()
        self.child.report_exit(self._process.returncode)
        self._check()

    def _check(self) -> None:
        if self.child.gone.is_set():
            return
        if any(True for _ in self._members()):
            self._loop.call_later(self._pause, self._check)
        else:
            self._trees.discard(self)
            self.child.report_gone()

    async def _signal(self, signo: int) -> int:
        if self.child.gone.is_set():
            return 0
        if self._pause > _LOOK:
            self._pause = _LOOK
            if self.child.exited.is_set():
                self._loop.call_later(0, self._check)
        count = 0
        for process in self._members():
            try:
                process.send_signal(signo)  # compares the start time first
                count += 1
            except psutil.Error:
                pass
        return count

    def _members(self) -> Iterator[psutil.Process]:
        """The living processes of this tree, as far as they can be told."""
        below: set[int] = set()
        if not self.child.exited.is_set():
            try:
                below = {process.pid for process in psutil.Process(self.child.pid).children(recursive=True)}
            except psutil.Error:
                pass
        for process in psutil.process_iter():
            try:
                if process.create_time() < self._born or process.status() == psutil.STATUS_ZOMBIE:
                    continue
                pid = process.pid
                ours = pid in below or os.getpgid(pid) == self.child.pid or os.getsid(pid) == self.child.pid
                if ours or process.environ().get(MARK) == self._mark:
                    yield process
            except (psutil.Error, OSError):
                pass


class _ExitWatch:
    """A descriptor that becomes readable when a process ends."""

    def __init__(self, pid: int) -> None:
        if sys.platform == "darwin":
            self._queue = select.kqueue()
            self.fd = self._queue.fileno()
            event = select.kevent(
                pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD | select.KQ_EV_ONESHOT, select.KQ_NOTE_EXIT
            )
            try:
                self._queue.control([event], 0)
            except ProcessLookupError:  # it ended already: make the queue readable at once
                self._queue.control([select.kevent(1, select.KQ_FILTER_TIMER, select.KQ_EV_ADD, 0, 0)], 0)
        else:
            self.fd = os.pidfd_open(pid)

    def close(self) -> None:
        if sys.platform == "darwin":
            self._queue.close()
        else:
            os.close(self.fd)

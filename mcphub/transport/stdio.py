"""Owns the stdio transport: one child process on two socket pairs, its stderr, and its orderly end.

It must not know what is said over it. Socket pairs instead of pipes let a large reply arrive in few reads, and are what
Node hosts give too; `stdio: "pipe"` is for programs that open /dev/stdout (MCP spec, basic/transports/stdio).
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import FileIO

import anyio

from mcphub.channel import Receiver
from mcphub.config.environment import child_environment
from mcphub.errors import TransportError
from mcphub.spec import ServerSpec, StdioSpec
from mcphub.transport import shell_prefix
from mcphub.transport.executable import Unfound, find_executable, shown_path
from mcphub.transport.framing import MAX_MESSAGE
from mcphub.transport.link import Surroundings
from mcphub.transport.one_stream import OneStream
from mcphub.transport.process import Child
from mcphub.transport.spawn_request import SpawnRequest
from mcphub.transport.stderr import StderrReader, StderrRing
from mcphub.transport.wire import PipeReadSide, Wire, WriteSide

#: How long a process's last words may still be in its stdout after it has ended, seconds. Its children may hold the
#: stream open for ever, so the end of the process, not of the stream, decides.
LAST_WORDS = 0.2
#: Unsent bytes at which a server counts as not reading its requests: one message of the largest size fits.
OVERLOADED_AT = MAX_MESSAGE
#: How long the two ends of a wire may take to be torn down once they were aborted, seconds.
TEAR_DOWN = 2.0


@dataclass(slots=True)
class StdioLink(OneStream):
    """An open child. Implements link.Link."""

    channel: Wire
    child: Child

    @property
    def pid(self) -> int | None:
        return self.child.pid

    async def exit_code(self, wait: float) -> int | None:
        with anyio.move_on_after(wait):
            await self.child.exited.wait()
        return self.child.returncode


@asynccontextmanager
async def open_stdio(
    spec: ServerSpec, around: Surroundings, receiver: Receiver, stderr: StderrRing
) -> AsyncIterator[StdioLink]:
    """Start the program and hold its wire. Leaving ends the program and all it started, in bounded time.
    Raises TransportError (kind `config`, `not_found`, `spawn`)."""
    transport = spec.transport
    assert isinstance(transport, StdioSpec)
    hub_env = around.environment()
    env = child_environment(hub_env, transport)
    cwd = transport.cwd or env.get("HOME") or "/"
    # Behind a prefix the command is looked for by the program that runs it, which may be in a container.
    prefix = hub_env.get(shell_prefix.NAME, "")
    argv = shell_prefix.prefixed(prefix, [transport.command, *transport.args])
    shown, shown_cwd = shell_prefix.prefixed(prefix, transport.shown or argv)[0], transport.shown_cwd or cwd
    try:
        path = find_executable(argv[0], env.get("PATH"), cwd, shown=shown, shown_cwd=shown_cwd)
    except Unfound as e:
        if prefix.strip():
            raise shell_prefix.not_found(shown, e.cause) from None
        raise TransportError(str(e), kind="not_found") from None
    try:
        ends = _Ends(transport.stdio)
    except OSError as e:
        raise TransportError(f"cannot start {spec.name}: no streams for it: {e.strerror}", kind="spawn") from None
    shown_file = shown_path(path, argv[0], shown, cwd, shown_cwd)
    named_by = shell_prefix.NAME if prefix.strip() else ""
    request = SpawnRequest(argv, env, cwd, ends.theirs, path, transport.limits, shown_file, shown_cwd, named_by)
    try:
        child = await around.launcher.spawn(request)
    except BaseException:
        ends.close_ours()
        raise
    finally:
        ends.close_theirs()
    reader = StderrReader(ends.stderr, stderr)
    wire = Wire(around.batch, receiver, full_at=OVERLOADED_AT, keep_reading=True, on_error=around.report)
    link = StdioLink(wire, child)
    try:
        await ends.attach(wire)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch, child, wire, reader)
            yield link
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            wire.close_writing()
            await child.end(around.grace)
            wire.abort()
            with anyio.move_on_after(TEAR_DOWN):
                await wire.closed.wait()
            reader.close()


async def _watch(child: Child, wire: Wire, reader: StderrReader) -> None:
    """When the process ends, its connection ends, whoever else holds the stream."""
    await child.exited.wait()
    reader.drain()
    with anyio.move_on_after(LAST_WORDS):
        await wire.closed.wait()
    if not wire.closed.is_set():
        wire.fail(f"the process {child.outcome()}")


class _Ends:
    """The six descriptors of a child's three streams, ours and theirs, until they belong to somebody. Raises OSError.

    Sockets and pipes are kept as objects, so that one is closed once, whoever has it by then.
    """

    def __init__(self, kind: str) -> None:
        made: list[int] = []
        try:
            for direction in ("in", "out", "err"):
                if direction == "err" or kind == "pipe":
                    made += os.pipe()
                else:
                    made += [sock.detach() for sock in socket.socketpair()]
        except OSError:
            for fd in made:
                os.close(fd)
            raise
        # A pipe's first descriptor is the one to read from; of a socket pair either end may be ours.
        child_in, ours_in, ours_out, child_out, self.stderr, child_err = made
        self.theirs = (child_in, child_out, child_err)
        self._ours: list[socket.socket | FileIO] = []
        if kind == "pipe":
            self._ours += [FileIO(ours_in, "wb"), FileIO(ours_out, "rb")]
        else:
            self._ours += [socket.socket(fileno=ours_in), socket.socket(fileno=ours_out)]

    def close_theirs(self) -> None:
        for fd in self.theirs:
            os.close(fd)

    def close_ours(self) -> None:
        for end in self._ours:
            end.close()
        os.close(self.stderr)

    async def attach(self, wire: Wire) -> None:
        """Make our ends the wire's transports."""
        loop = asyncio.get_running_loop()
        ours_in, ours_out = self._ours
        try:
            if isinstance(ours_in, socket.socket):
                await loop.create_connection(lambda: WriteSide(wire), sock=ours_in)
            else:
                await loop.connect_write_pipe(lambda: WriteSide(wire), ours_in)
        except BaseException:
            ours_out.close()  # the other one has a transport by now, whatever became of it
            raise
        if isinstance(ours_out, socket.socket):
            await loop.create_connection(lambda: wire, sock=ours_out)
        else:
            await loop.connect_read_pipe(lambda: PipeReadSide(wire), ours_out)

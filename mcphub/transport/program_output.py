"""Owns running a program to its end for what it prints: within a time, up to a size, and nothing of it left behind.

It must not know what the output means. What it writes to stderr is kept with the server's.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence

import anyio

from mcphub.errors import TransportError
from mcphub.transport.executable import find_executable
from mcphub.transport.process import Launcher
from mcphub.transport.spawn_request import SpawnRequest
from mcphub.transport.stderr import StderrReader, StderrRing

#: Seconds that its tree gets after SIGTERM when its time is over.
GRACE = 0.2
_READ = 1 << 16


async def output_of(
    launcher: Launcher,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    stderr: StderrRing,
    *,
    within: float,
    most: int,
) -> bytes:
    """What it printed, at most `most` + 1 bytes; it gets no input. Its tree is ended with it, whatever it left running.
    Raises TransportError (kinds `not_found`, `spawn`, `no_response`), whose text is the end of a sentence and holds no
    output."""
    try:
        path = find_executable(argv[0], env.get("PATH"), cwd)
    except TransportError as e:
        raise TransportError(str(e), kind="not_found") from None
    try:
        ends = _pipes()
    except OSError as e:
        raise TransportError(f"no streams for it: {e.strerror}", kind="spawn") from None
    stdin, out, child_out, err, child_err = ends
    try:
        child = await launcher.spawn(SpawnRequest(argv, env, cwd, (stdin, child_out, child_err), path))
    except BaseException:
        os.close(out)
        os.close(err)
        raise
    finally:
        for fd in (stdin, child_out, child_err):
            os.close(fd)
    reader, output = StderrReader(err, stderr), _Output(out, most)
    try:
        with anyio.move_on_after(within) as time:
            # Its end decides, not that of the stream: what it leaves running may hold that open for ever.
            await child.exited.wait()
        if time.cancelled_caught:
            raise TransportError(f"did not end within {within:g} s", kind="no_response")
        if child.returncode != 0:
            raise TransportError(child.outcome(), kind="spawn")
        return output.close()
    finally:
        with anyio.CancelScope(shield=True):
            await child.end(GRACE)
        output.close()
        reader.close()


def _pipes() -> tuple[int, int, int, int, int]:
    """stdin for it, and for stdout and stderr our end and its. Raises OSError."""
    made = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)]
    try:
        made += os.pipe()
        made += os.pipe()
    except OSError:
        for fd in made:
            os.close(fd)
        raise
    stdin, out, child_out, err, child_err = made
    return stdin, out, child_out, err, child_err


class _Output:
    """Reads a pipe as it fills, so that its writer never waits; more than is wanted is thrown away."""

    def __init__(self, fd: int, most: int) -> None:
        self._fd = fd
        self._most = most
        self._data = bytearray()
        self._loop = asyncio.get_running_loop()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    def _read(self) -> bool:
        try:
            data = os.read(self._fd, _READ)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self._release()
            return False
        if len(self._data) <= self._most:
            self._data += data
        return True

    def _release(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1

    def close(self) -> bytes:
        """Take what is in the pipe and let go of it; what there was. Safe to call twice."""
        for _ in range(16):
            if self._fd < 0 or not self._read():
                break
        if self._fd >= 0:
            self._release()
        return bytes(self._data[: self._most + 1])

"""One connection over the loopback."""

from __future__ import annotations

import anyio
import anyio.abc
import pytest

from mcphub.outbound.connections import KEEP_ALIVE, TOGETHER, Backend

pytestmark = pytest.mark.anyio


async def test_what_is_written_leaves_together() -> None:
    """Nothing is sent before an answer is awaited or the pieces are large; a closed idle connection is seen."""
    got: list[bytes] = []
    large = bytes(TOGETHER + 1)

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            got.append(await stream.receive(1 << 16))
            await stream.send(b"one")
            size = 0
            while size < len(large):
                size += len(await stream.receive(1 << 16))

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        with anyio.fail_after(10):
            stream = await Backend().connect_tcp("127.0.0.1", port, socket_options=KEEP_ALIVE)
            await stream.write(b"head ")
            assert not stream.get_extra_info("is_readable")
            await stream.write(b"body")
            assert await stream.read(100) == b"one"
            await stream.write(large)  # not held back: the server ends once it has all
            assert await stream.read(100) == b""
            assert stream.get_extra_info("is_readable")
            await stream.aclose()
            assert stream.get_extra_info("is_readable")
        tasks.cancel_scope.cancel()
    assert got == [b"head body"]

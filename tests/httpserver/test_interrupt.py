"""The end of a request from outside."""

from __future__ import annotations

import asyncio
import socket

import anyio
import anyio.lowlevel
import pytest

from mcphub.httpserver import interrupt
from tests.fakes.canned_hub import CannedHub, answering
from tests.fakes.raw_http import answer, ask, connected, exchange, read_all, request

pytestmark = pytest.mark.anyio

HANG = request("POST", "/v1/call", b'{"tool":"hang"}')


async def test_hanging_up_cancels_the_call(hub: CannedHub, path: str) -> None:
    """Ctrl-C at `mcphub call` reaches the server that works on it."""
    with anyio.fail_after(5):
        async with connected(path) as stream:
            await stream.send(HANG)
            await hub.hanging.wait()
            assert not hub.cancelled.is_set()
        await hub.cancelled.wait()


async def test_who_hangs_up_at_once_has_asked_nothing(hub: CannedHub, path: str) -> None:
    """A request whose client is gone before it is looked at does nothing, or is cancelled."""
    tasks = len(asyncio.all_tasks())
    with anyio.fail_after(5):
        for _ in range(20):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(path)
                sock.sendall(HANG)
        while len(asyncio.all_tasks()) > tasks:
            await anyio.lowlevel.checkpoint()
    assert not hub.hanging.is_set() or hub.cancelled.is_set()


async def test_an_undisturbed_call_is_not_cancelled(hub: CannedHub, path: str) -> None:
    """The watch for the hang-up ends with the answer, and takes nothing of it."""
    body = b'{"tool":"echo","arguments":{"text":"hi"},"workspace":"/w"}'
    status, report = await ask(path, "POST", "/v1/call", body)
    assert (status, report["result"]["content"][0]["text"]) == (200, "hi")
    assert hub.asked == [("call", "/w", "echo", '{"text":"hi"}')]


async def test_closing_ends_a_call_with_an_answer(path: str) -> None:
    """Who waits when the daemon stops is told so."""
    hub = CannedHub()
    with anyio.fail_after(5):
        async with answering(hub, path):
            stream = await anyio.connect_unix(path)
            await stream.send(HANG)
            await hub.hanging.wait()
        async with stream:
            status, document = answer(await read_all(stream))
    assert (status, document["error"]["kind"]) == (503, "unavailable")
    assert hub.cancelled.is_set()


async def test_a_body_that_stops_is_not_waited_for(
    hub: CannedHub, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a body gets a 408; a client that hangs up within it gets nothing and costs nothing."""
    half = b"POST /v1/call HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
    async with await anyio.connect_unix(path) as stream:
        await stream.send(half)
    monkeypatch.setattr(interrupt, "BODY_TIMEOUT", 0.05)
    assert answer(await exchange(path, half))[0] == 408
    assert hub.asked == []


async def test_a_body_is_bounded(hub: CannedHub, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Announced or not, a body over the limit is a 413; one at the limit is read."""
    largest = interrupt.MAX_BODY
    monkeypatch.setattr(interrupt, "MAX_BODY", 100_000)
    at_limit = b'{"tool":"echo"}' + b" " * (100_000 - 15)
    assert (await ask(path, "POST", "/v1/call", at_limit))[0] == 200
    assert (await ask(path, "POST", "/v1/call", at_limit + b" "))[0] == 413
    chunk = b"c350\r\n" + b" " * 50_000 + b"\r\n"
    chunked = b"POST /v1/call HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 4
    assert answer(await exchange(path, chunked))[0] == 413
    assert largest == 64 * 2**20


async def test_a_large_body_arrives_whole(hub: CannedHub, path: str) -> None:
    """Eight megabytes of arguments come back, also when the client asks first whether it may send them."""
    text = "x" * 8_000_000
    body = b'{"tool":"echo","arguments":{"text":"%s"}}' % text.encode()
    status, report = await ask(path, "POST", "/v1/call", body)
    assert (status, report["result"]["content"][0]["text"]) == (200, text)
    with anyio.fail_after(5):
        async with connected(path) as stream:
            small = b'{"tool":"echo"}'
            data = request("POST", "/v1/call", small, "Expect: 100-continue")
            await stream.send(data[: -len(small)])
            assert (await stream.receive()).startswith(b"HTTP/1.1 100 ")
            await stream.send(small)
            assert answer(await read_all(stream))[0] == 200

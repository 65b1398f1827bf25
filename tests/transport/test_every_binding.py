"""The same questions to every transport, each with a real far end: a process, sockets, or a callable in the daemon."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import anyio
import pytest

from mcphub.errors import TransportError
from mcphub.spec import HttpSpec, SseSpec, WsSpec
from tests.fakes.scripted import GARBAGE, TEXT
from tests.transport.bindings import BINDINGS, LEAVING, opened
from tests.transport.http_peers import Peer, linked
from tests.transport.peers import clean

pytestmark = pytest.mark.anyio

every = pytest.mark.parametrize("kind", BINDINGS)
LARGE = 20_000_000


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    async with clean():
        with anyio.fail_after(30):
            yield


async def begin(peer: Peer, kind: str) -> None:
    """What a transport wants before anything else: over HTTP+SSE a stream must be there, which the first request
    waits for."""
    assert (await peer.result("echo", {"kind": kind}))["result"] == {"said": {"kind": kind}}


@every
async def test_order(kind: str) -> None:
    """What a server says on one stream comes in the order in which it was said, the answer behind what came before."""
    async with opened(kind) as peer:
        await begin(peer, kind)
        before = len(peer.told.messages)
        mid = peer.start("count", {"n": 500})
        assert await peer.ended(mid) == "answered"
        came = peer.told.messages[before:]
        said = [message["params"]["i"] for message in came if "method" in message]
        assert said == list(range(len(said)))
        assert len(said) == (0 if kind == "in-process" else 500)
        assert came[-1]["id"] == mid


@every
async def test_many_at_once(kind: str) -> None:
    """Each of a hundred requests that are under way at once gets its own answer."""
    async with opened(kind) as peer:
        mids = [peer.start("echo", {"i": i}) for i in range(100)]
        for mid in mids:
            assert await peer.ended(mid) == "answered"
        found = {message["id"]: message["result"]["said"]["i"] for message in peer.told.messages}
        assert found == {mid: i for i, mid in enumerate(mids)}


@every
async def test_cancel(kind: str) -> None:
    """A cancelled request is never answered, its server hears of it, and the others go on."""
    async with opened(kind) as peer:
        await begin(peer, kind)
        mid = peer.start("silent", {"mid": 2})
        other = peer.start("echo", {"x": 1})
        assert await peer.ended(other) == "answered"
        peer.cancel(mid)
        while (await peer.result("heard"))["result"]["cancelled"] != [mid]:
            pass
        assert peer.told.kind(mid) == ""


@every
async def test_silence(kind: str) -> None:
    """A request that is never answered holds up no other, and does not hold up the end."""
    async with opened(kind) as peer:
        await begin(peer, kind)
        mid = peer.start("silent", {"mid": 2})
        for i in range(5):
            assert (await peer.result("echo", {"i": i}))["result"] == {"said": {"i": i}}
        assert peer.told.kind(mid) == ""
        leaving = anyio.current_time()
    assert anyio.current_time() - leaving < 5


@every
async def test_close_twice(kind: str) -> None:
    """The end is told once, however often the channel is closed; what is sent afterwards is dropped without a word."""
    async with opened(kind) as peer:
        await begin(peer, kind)
        peer.link.channel.abort()
        peer.link.channel.abort()
        assert peer.told.ends == [""]
        frames = len(peer.told.frames)
        peer.start("echo")
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert len(peer.told.frames) == frames


@pytest.mark.parametrize("kind", LEAVING)
async def test_peer_gone(kind: str) -> None:
    """Where the far end goes away in the middle of a request, that request's fate is known at once, with a
    reason."""
    async with opened(kind) as peer:
        await begin(peer, kind)
        mid = peer.start("gone")
        await peer.told.until(lambda: peer.told.kind(mid) or peer.told.ends)
        if kind == "http":
            assert peer.told.kind(mid) == "lost"
            assert peer.told.ends == []
            await begin(peer, kind)  # each request travels by itself
        else:
            [reason] = peer.told.ends
            # A program's end is told by its exit code.
            assert await peer.link.exit_code(5) == 3 if kind == "stdio" else reason


@every
@pytest.mark.parametrize("chunk", [0, 65_537, 4_099])
async def test_a_large_message(kind: str, chunk: int) -> None:
    """C049: twenty million bytes in any chunking, cut within characters too, are one message, and what follows is
    read."""
    async with opened(kind) as peer:
        found = await peer.result("big", {"size": LARGE, "chunk": chunk})
        text = found["result"]["text"]
        assert len(text.encode()) > LARGE - len(TEXT.encode())
        assert text == TEXT * (len(text) // len(TEXT))
        await begin(peer, kind)


@every
async def test_a_large_request(kind: str) -> None:
    """C049: as much goes the other way."""
    async with opened(kind) as peer:
        found = await peer.result("length", {"text": "x" * LARGE})
        assert found["result"] == {"length": LARGE}
        await begin(peer, kind)


@every
async def test_a_message_cut_within_its_characters(kind: str) -> None:
    """C047: bytes that come one by one are the text that was sent."""
    async with opened(kind) as peer:
        found = await peer.result("big", {"size": 100, "chunk": 1})
        assert found["result"]["text"] == TEXT * 10


@every
async def test_garbage(kind: str) -> None:
    """C045: what is no message does not end the connection, nor does it take an answer along: who judges it is
    elsewhere."""
    async with opened(kind) as peer:
        await begin(peer, kind)
        assert await peer.ended(peer.start("garbage")) == "answered"
        if kind != "in-process":
            assert GARBAGE in [data for _, data in peer.told.frames]
        await begin(peer, kind)
        assert peer.told.ends == []


@pytest.mark.parametrize("url", ["http://far.example/mcp", "https://far.example/mcp"])
@pytest.mark.parametrize("kind", [HttpSpec, SseSpec, WsSpec])
async def test_a_proxy_that_is_not_there(kind: type[HttpSpec], url: str) -> None:
    """C073: it is the proxy that is named, with the variable that names it, and none of its credentials."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    env = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), f"http://u:s3cret@127.0.0.1:{port}")
    if kind is WsSpec:
        with pytest.raises(TransportError) as caught:
            async with linked(url.replace("http", "ws"), env=env, kind=kind):
                raise AssertionError("opened")
        said = str(caught.value)
    else:
        async with linked(url, env=env, kind=kind) as peer:
            mid = peer.start("initialize", {})
            assert await peer.ended(mid) == "unreachable"
            said = peer.told.text(mid)
    variable = "HTTPS_PROXY" if url.startswith("https") else "HTTP_PROXY"
    assert said.startswith(f"cannot reach the proxy 127.0.0.1:{port} of {variable}: nothing listens there; ")
    assert "s3cret" not in said

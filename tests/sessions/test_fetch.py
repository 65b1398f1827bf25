"""One document over HTTPS, from a real server on the loopback."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator

import anyio
import pytest

from mcphub.errors import TransportError
from mcphub.sessions import fetch as module
from mcphub.sessions.fetch import Document, fetch
from tests.fakes.certificates import Authority
from tests.fakes.rude_http import NEVER, Reply, Request, RudeHttp, body, empty, redirect

pytestmark = pytest.mark.anyio


def document(request: Request) -> Reply:
    if request.header("If-None-Match") == '"1"':
        return empty(304, ("ETag", '"1"'))
    return body(b'{"a":1}', headers=[("ETag", '"1"')])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.made(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def tls(authority: Authority) -> ssl.SSLContext:
    return authority.server("127.0.0.1")


@pytest.fixture
async def server(tls: ssl.SSLContext) -> AsyncIterator[RudeHttp]:
    async with RudeHttp(document, path="/settings", tls=tls) as server:
        with anyio.fail_after(20):
            yield server


def trusting(authority: Authority) -> dict[str, str]:
    return {"SSL_CERT_FILE": str(authority.path)}


async def test_the_document_and_its_name(server: RudeHttp, authority: Authority) -> None:
    """The first time it comes whole with its ETag; told the name, the server says that it is the same."""
    assert await fetch(server.url, "", trusting(authority)) == Document(b'{"a":1}', '"1"')
    assert await fetch(server.url, '"1"', trusting(authority)) is None
    first, second = server.requests
    assert (first.method, first.header("If-None-Match"), second.header("If-None-Match")) == ("GET", None, '"1"')


async def test_a_server_that_nobody_vouches_for(server: RudeHttp) -> None:
    """Without the authority's certificate nothing is asked at all."""
    with pytest.raises(TransportError, match="certificate"):
        await fetch(server.url, "", {})
    assert server.requests == []


@pytest.mark.parametrize(
    "reply, message",
    [
        (empty(404), "answered with status 404"),
        (empty(204), "answered with status 204"),
        (empty(304), "answered with status 304"),
        (redirect(302, "https://127.0.0.2/"), "leads to https://127.0.0.2, where nothing is taken from"),
        (redirect(307, "http://127.0.0.1:1/x"), "leads to http://127.0.0.1:1, where nothing is taken from"),
        (body(b"x" * 2048), "sent more than 0 MiB"),
    ],
    ids=["404", "204", "304 unasked", "302", "307 elsewhere", "large"],
)
async def test_what_is_no_document(
    server: RudeHttp, authority: Authority, monkeypatch: pytest.MonkeyPatch, reply: Reply, message: str
) -> None:
    """Anything but an answer from the place itself is an error that names the place."""
    monkeypatch.setattr(module, "MAX_BYTES", 1024)
    server.on("GET", reply)
    with pytest.raises(TransportError, match=message) as caught:
        await fetch(server.url, "", trusting(authority))
    assert str(caught.value).startswith(f"127.0.0.1:{server.port} ")


async def test_an_answer_that_does_not_end(
    server: RudeHttp, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole of it has a time limit."""
    monkeypatch.setattr(module, "WITHIN", 0.2)
    server.on("GET", Reply(200, (("Content-Length", "9"),), (b"{", NEVER)))
    with pytest.raises(TransportError, match=r"no answer within 0\.2 s"):
        await fetch(server.url, "", trusting(authority))

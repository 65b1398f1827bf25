"""HTTP towards other machines: the way there, whom to trust, redirects, and what failures are called."""

from __future__ import annotations

import base64
import gzip
import logging
import os
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest

from mcphub.errors import TransportError
from mcphub.net import MAX_REDIRECTS, Header, http_client
from mcphub.outbound import pool
from mcphub.spec import TlsFiles
from tests.fakes.certificates import Authority
from tests.fakes.rude_http import (
    CLOSE,
    NEVER,
    RESET,
    Reply,
    Request,
    RudeHttp,
    body,
    chopped,
    empty,
    raw,
    redirect,
    stream,
)
from tests.fakes.tunnel import proxy as tunnel

pytestmark = pytest.mark.anyio


def hello(request: Request) -> Reply:
    return body(b"hello", "text/plain")


async def post(
    url: str,
    env: Mapping[str, str] | None = None,
    data: bytes = b"{}",
    headers: tuple[Header, ...] = (),
    *,
    begin: float | None = 5.0,
    method: str = "POST",
) -> tuple[int, bytes]:
    with anyio.fail_after(20):
        async with http_client(url, env or {}) as client, client.exchange(method, headers, data, begin=begin) as answer:
            return answer.status, await answer.read(1 << 20) or b""


async def failure(url: str, env: Mapping[str, str] | None = None, *, begin: float | None = 5.0) -> TransportError:
    with pytest.raises(TransportError) as caught:
        await post(url, env, begin=begin)
    return caught.value


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@asynccontextmanager
async def listening(serve: Callable[[anyio.abc.SocketStream], Awaitable[None]]) -> AsyncIterator[int]:
    """A server of bytes; its port."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield listener.extra(anyio.abc.SocketAttribute.local_port)
        tasks.cancel_scope.cancel()


async def test_a_client_certificate(tmp_path: Path) -> None:
    """A server that wants a certificate gets the entry's, and its authorities vouch for the server."""
    authority = Authority.made(tmp_path)
    tls = authority.server("127.0.0.1")
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(authority.path)
    cert, key = authority.client("me")
    files = TlsFiles(str(cert), str(key), str(authority.path))
    with anyio.fail_after(20):
        async with RudeHttp(hello, tls=tls) as server:
            async with http_client(server.url, {}, tls=files) as client, client.exchange("POST", [], b"{}") as answer:
                assert (answer.status, await answer.read(100)) == (200, b"hello")
            with pytest.raises(TransportError):
                async with (
                    http_client(server.url, {}, tls=TlsFiles(ca=files.ca)) as client,
                    client.exchange("POST", [], b"{}"),
                ):
                    raise AssertionError("answered")


# -- proxies


async def test_a_proxy_carries_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """C073: the hub's environment decides, not that of the process; credentials go to the proxy and nowhere else."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with RudeHttp(hello) as proxy:
        env = {"HTTP_PROXY": f"http://us%20er:pw@127.0.0.1:{proxy.port}", "NO_PROXY": "10.0.0.0/99"}
        with anyio.fail_after(10):
            async with http_client("http://m.example/mcp?x=1", env) as client:
                async with client.exchange("POST", [], b"{}") as answer:
                    assert await answer.read(100) == b"hello"
                assert "10.0.0.0/99" in client.warnings[0]
        [request] = proxy.requests
        assert request.target == "http://m.example/mcp?x=1"
        assert request.header("Host") == "m.example"
        assert request.header("Proxy-Authorization") == "Basic " + base64.b64encode(b"us er:pw").decode()


async def test_a_proxy_that_is_not_there() -> None:
    """C073: the message names the proxy, not the server behind it, and no credentials."""
    port = free_port()
    error = await failure("https://m.example/", {"HTTPS_PROXY": f"http://u:s3cret@127.0.0.1:{port}"})
    assert error.kind == "unreachable"
    said = f"cannot reach the proxy 127.0.0.1:{port} of HTTPS_PROXY: nothing listens there; "
    assert str(error).startswith(said) and "s3cret" not in str(error)
    async with RudeHttp(lambda request: empty(407)) as proxy:
        error = await failure("https://m.example/", {"HTTPS_PROXY": f"http://u:s3cret@127.0.0.1:{proxy.port}"})
    assert error.kind == "unreachable"
    assert f"the proxy 127.0.0.1:{proxy.port} of HTTPS_PROXY refuses: 407" in str(error)
    assert "s3cret" not in str(error)


@pytest.mark.parametrize("url", ["http://m.example/", "https://m.example/"])
async def test_a_proxy_that_does_not_work(url: str) -> None:
    """C073: whatever fails before the proxy has led to the server is said to be the proxy's, whichever variable names
    it; no credentials are shown."""

    async def close(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive(1 << 16)

    async def garbage(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive(1 << 16)
            await stream.send(b"\x00\xffgarbage\r\n\r\n")

    async with listening(close) as closing, listening(garbage) as babbling:
        tunnel = url.startswith("https")
        for via, kind, said in (
            (f"http://u:s3cret@127.0.0.1:{free_port()}", "unreachable", "nothing listens there"),
            ("http://u:s3cret@no-such-proxy.invalid:1", "unreachable", "cannot resolve no-such-proxy.invalid"),
            (f"https://u:s3cret@127.0.0.1:{closing}", "unreachable", "it closed the connection in the TLS handshake"),
            (f"https://u:s3cret@127.0.0.1:{babbling}", "tls", "does not speak TLS, and was asked to: its URL should"),
            (f"http://u:s3cret@127.0.0.1:{closing}", "unreachable" if tunnel else "lost",
             "it closed the connection without an answer" if tunnel else "closed the connection without an answer"),
            (f"http://u:s3cret@127.0.0.1:{babbling}", "unreachable" if tunnel else "lost",
             "it does not speak HTTP as a proxy should" if tunnel else "does not speak HTTP as it should"),
        ):  # fmt: skip
            error = await failure(url, {"all_proxy": via})
            assert said in str(error)
            assert f"the proxy {via.rpartition('@')[2]} of all_proxy" in str(error)
            assert error.kind == kind
            assert "s3cret" not in str(error)


async def test_a_proxy_that_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that is silent, in its handshake or about the tunnel, is named when its time is over, and meanwhile as
    what is waited for; a server behind it that is silent about TLS is no fault of the proxy."""
    monkeypatch.setattr("mcphub.outbound.proxied.LEAD_WITHIN", 0.2)
    monkeypatch.setitem(pool._TIMEOUTS["timeout"], "connect", 0.1)

    async def hush(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with pytest.raises(anyio.EndOfStream):
                while True:
                    await stream.receive(1 << 16)

    async with listening(hush) as silent, tunnel() as (leading, _):
        for via, url, kind, said, missing in (
            (f"http://127.0.0.1:{silent}", "https://m.example/", "unreachable",
             "takes the connection, but did not lead to m.example:443 within", "answer of the proxy 127.0.0.1:"),
            (f"https://127.0.0.1:{silent}", "https://m.example/", "unreachable",
             "it did not finish the TLS handshake within", " to the TLS handshake"),
            (f"http://127.0.0.1:{leading}", f"https://m.example:{silent}/", "tls",
             f"m.example:{silent} takes the connection, but did not finish the TLS", "answer to the TLS handshake"),
        ):  # fmt: skip
            async with http_client(url, {"HTTPS_PROXY": via}) as client:
                with anyio.fail_after(5), pytest.raises(TransportError) as caught:
                    async with client.exchange("POST", [], b"{}"):
                        pass
                assert missing in client.waits_for
            assert said in str(caught.value)
            assert f"the proxy {via.rpartition('/')[2]} of HTTPS_PROXY" in str(caught.value)
            assert caught.value.kind == kind


async def test_tls_by_way_of_a_proxy(tmp_path: Path) -> None:
    """C074: whose certificate is not trusted is told apart, the proxy's or the server's; with both trusted it works."""
    authority, other = Authority.made(tmp_path), tmp_path / "other"
    other.mkdir()
    stranger = Authority.made(other)
    trusted = {"SSL_CERT_FILE": str(authority.path)}
    async with (
        RudeHttp(hello, tls=authority.server("m.example")) as server,
        RudeHttp(hello, tls=stranger.server("m.example")) as strange,
        tunnel(tls=authority.server("127.0.0.1")) as (good, _),
        tunnel(tls=stranger.server("127.0.0.1")) as (bad, _),
    ):
        url = f"https://m.example:{server.port}/mcp"
        assert await post(url, {**trusted, "HTTPS_PROXY": f"https://127.0.0.1:{good}"}) == (200, b"hello")
        error = await failure(url, {**trusted, "HTTPS_PROXY": f"https://127.0.0.1:{bad}"})
        said = f"the certificate of the proxy 127.0.0.1:{bad} of HTTPS_PROXY cannot be trusted: "
        assert (error.kind, str(error).startswith(said)) == ("tls", True)
        url = f"https://m.example:{strange.port}/mcp"
        error = await failure(url, {**trusted, "HTTPS_PROXY": f"https://127.0.0.1:{good}"})
        assert str(error).startswith(f"the certificate of m.example:{strange.port} cannot be trusted: ")
        assert str(error).endswith(f"(by way of the proxy 127.0.0.1:{good} of HTTPS_PROXY)")


async def test_a_proxy_that_wants_a_password() -> None:
    """C073: for http:// it answers in the server's place; what only a proxy says is its own, and it is said what to do.
    The same from a server without a proxy is the server's answer."""
    async with RudeHttp(lambda request: empty(407)) as proxy:
        error = await failure("http://m.example/", {"HTTP_PROXY": f"http://u:s3cret@127.0.0.1:{proxy.port}"})
        assert (await post(proxy.url))[0] == 407
    assert error.kind == "unreachable" and "s3cret" not in str(error)
    assert str(error) == (
        f"the proxy 127.0.0.1:{proxy.port} of HTTP_PROXY refuses: 407 Proxy Authentication Required; give its user and "
        "password in the URL of HTTP_PROXY"
    )


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "http://", "http://[::1"])
async def test_a_proxy_that_is_none(proxy: str) -> None:
    """A proxy that cannot be used is said, without what may be secret in it."""
    error = await failure("https://m.example/", {"HTTPS_PROXY": proxy})
    assert error.kind == "config"
    assert "proxy of the environment" in str(error)


# -- TLS


async def test_a_private_authority(tmp_path: Path) -> None:
    """C074: trusted where the environment names it, in the place of the system's store or added to it."""
    authority = Authority.made(tmp_path)
    async with RudeHttp(hello, tls=authority.server("127.0.0.1", "localhost")) as server:
        for name in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "ssl_cert_file"):
            assert await post(server.url, {name: str(authority.path)}) == (200, b"hello")
        error = await failure(server.url)
    assert error.kind == "tls"
    assert f"the certificate of 127.0.0.1:{server.port} cannot be trusted" in str(error)
    assert str(error).endswith("(issuer: CN=A Private Authority; subject: CN=A Server)")
    assert not server.requests[3:]


@pytest.mark.parametrize(
    ("hosts", "ago", "words"), [(("other.example",), 1, "IP address mismatch"), (("127.0.0.1",), 5, "expired")]
)
async def test_bad_certificates(tmp_path: Path, hosts: tuple[str, ...], ago: int, words: str) -> None:
    """C074: another host's certificate and one that has expired are refused though the authority is trusted."""
    authority = Authority.made(tmp_path)
    async with RudeHttp(hello, tls=authority.server(*hosts, ago=ago)) as server:
        error = await failure(server.url, {"SSL_CERT_FILE": str(authority.path)})
    assert error.kind == "tls"
    assert words in str(error)
    assert "issuer: CN=A Private Authority; subject: CN=A Server" in str(error)
    assert not server.requests


async def test_tls_where_there_is_none() -> None:
    """The wrong scheme is told apart from a server that is gone."""

    async def refuse(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive(1 << 16)
            await stream.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    async with listening(refuse) as port:
        error = await failure(f"https://127.0.0.1:{port}/")
    assert error.kind == "tls"
    said = "answers without TLS, and was asked with it: the URL should begin with http://, or its port is another"
    assert str(error) == f"127.0.0.1:{port} {said}"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_certificate_that_is_wanted_unsaid(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """asyncio's own servers hang up without an alert: that they had asked for a certificate is found out. With one that
    is not accepted it is said that this may be why; of a server that asked for none nothing of it is said."""
    authority, other = Authority.made(tmp_path), tmp_path / "other"
    other.mkdir()
    cert, key = Authority.made(other).client("me")
    tls = authority.server("127.0.0.1")
    tls.maximum_version = version
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(authority.path)

    async def fails(url: str, files: TlsFiles) -> TransportError:
        with anyio.fail_after(10), pytest.raises(TransportError) as caught:
            async with http_client(url, {}, tls=files) as client, client.exchange("POST", [], b"{}"):
                pass
        return caught.value

    async with RudeHttp(hello, tls=tls) as server:
        error = await fails(server.url, TlsFiles(ca=str(authority.path)))
        assert (error.kind, str(error)) == (
            "tls",
            f"127.0.0.1:{server.port} asks for a client certificate, and ends the connection without one; name one in "
            "tls.cert and tls.key of the entry",
        )
        error = await fails(server.url, TlsFiles(str(cert), str(key), str(authority.path)))
        assert "is that of tls.cert the right one?" in str(error) or "refuses the client certificate" in str(error)
    async with RudeHttp(lambda _: raw(CLOSE), tls=authority.server("127.0.0.1")) as server:
        error = await fails(server.url, TlsFiles(ca=str(authority.path)))
        assert str(error) == f"127.0.0.1:{server.port} closed the connection without an answer"


async def test_tls_that_is_not_asked_for(tmp_path: Path) -> None:
    """A server that closes because it wants TLS is told apart from one that only closes, and so is one that says so."""
    authority = Authority.made(tmp_path)
    async with RudeHttp(hello, tls=authority.server("127.0.0.1")) as server:
        error = await failure(server.url.replace("https:", "http:"))
    assert (error.kind, str(error).partition(" ")[2]) == (
        "tls", "looks like TLS, and was asked without: the URL should begin with https://"
    )

    async def alert(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive(1 << 16)
            await stream.send(b"\x15\x03\x01\x00\x02\x02\x46")

    async def close(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive(1 << 16)

    async with listening(alert) as port:
        assert "looks like TLS" in str(await failure(f"http://127.0.0.1:{port}/"))
    async with listening(close) as port:
        assert "closed the connection without an answer" in str(await failure(f"http://127.0.0.1:{port}/"))


async def test_a_handshake_that_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is named: the connection is there, TLS is not."""
    monkeypatch.setattr("mcphub.outbound.pool.CONNECT_TIMEOUT", 0.2)

    async def hush(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with pytest.raises(anyio.EndOfStream):
                while True:
                    await stream.receive(1 << 16)

    async with listening(hush) as port, http_client(f"https://127.0.0.1:{port}/", {}) as client:
        with anyio.fail_after(5), pytest.raises(TransportError) as caught:
            async with client.exchange("POST", [], b"{}"):
                pass
        assert client.waits_for == "answer to the TLS handshake"
    assert caught.value.kind == "tls"
    said = "takes the connection, but did not finish the TLS handshake within 10 s"
    assert str(caught.value) == f"127.0.0.1:{port} {said}"


async def test_a_loop_of_redirects() -> None:
    """C071: how many were followed is known of the answer that was not."""
    async with RudeHttp(lambda request: redirect(307, "/mcp")) as server:
        with anyio.fail_after(10):
            async with http_client(server.url, {}) as client, client.exchange("POST", [], b"{}") as answer:
                assert (answer.status, answer.followed) == (307, MAX_REDIRECTS)


async def test_redirects_are_counted_over_requests() -> None:
    """C071: a request does not go on from where the one before gave up, so that six in a row stay too many."""

    def chain(request: Request) -> Reply:
        left = int(request.path.rpartition("/")[2])
        return redirect(308, f"/{left - 1}") if left else hello(request)

    async with RudeHttp(chain) as server:
        with anyio.fail_after(10):
            async with http_client(f"{server.origin}/{MAX_REDIRECTS + 1}", {}) as client:
                for _ in range(2):
                    async with client.exchange("POST", [], b"{}") as answer:
                        assert (answer.status, answer.followed) == (308, MAX_REDIRECTS)
            assert await post(f"{server.origin}/{MAX_REDIRECTS}") == (200, b"hello")


async def test_a_handshake_that_is_given_up() -> None:
    """Who gives up in the middle of the TLS handshake leaves no connection behind."""
    ended = anyio.Event()

    async def say_nothing(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive(1 << 16)
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()
            ended.set()

    async with listening(say_nothing) as port:
        error = await failure(f"https://127.0.0.1:{port}/", begin=0.2)
        with anyio.fail_after(5):
            await ended.wait()
    assert error.kind == "no_response"


# -- failures


async def test_nothing_listens() -> None:
    """A refused port is named, with the server's name where it has one."""
    port = free_port()
    for host in ("127.0.0.1", "localhost"):
        error = await failure(f"http://{host}:{port}/")
        assert (error.kind, str(error)) == ("unreachable", f"nothing listens at {host}:{port}")


async def test_no_such_host() -> None:
    """A name that nobody knows is told apart from a server that is down."""
    error = await failure("http://no-such-host.invalid/")
    assert (error.kind, str(error)) == ("unreachable", "cannot resolve no-such-host.invalid")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (raw(CLOSE), "closed the connection without an answer"),
        (raw(RESET), "broke"),
        (raw(b"SSH-2.0-OpenSSH_9\r\n\r\n"), "does not speak HTTP"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx", CLOSE), "in the middle of its answer"),
        (stream(b"x", RESET), "broke"),
        (stream(b"x", CLOSE), "in the middle of its answer"),
        (body(b"no gzip", headers=[("Content-Encoding", "gzip")]), "badly compressed"),
        (body(b"x", headers=[("Content-Encoding", "zstd")]), "badly compressed"),
    ],
)
async def test_broken_answers(answer: Reply, words: str) -> None:
    """C091: a connection that ends before its answer is lost, and the message says how."""
    async with RudeHttp(lambda request: answer) as server:
        error = await failure(server.url)
    assert error.kind == "lost"
    assert words in str(error)


async def test_an_answer_that_does_not_begin() -> None:
    """The time to begin is bounded where the caller says so, and only the beginning is."""
    async with RudeHttp(lambda request: body(b"x").after(NEVER)) as server:
        error = await failure(server.url, begin=0.1)
    assert (error.kind, str(error)) == ("no_response", f"127.0.0.1:{server.port} did not begin to answer within 0.1 s")
    async with RudeHttp(lambda request: stream(b"a", 0.4, b"b")) as server:
        assert await post(server.url, begin=0.3) == (200, b"ab")


@pytest.mark.parametrize(("name", "value"), [(b"A", b"x\r\nB: y"), (b"A b", b"x"), (b"A", b"\0")])
async def test_headers_that_would_split_a_request(name: bytes, value: bytes) -> None:
    """C098: whatever was let through before, a header cannot begin another one."""
    async with RudeHttp(hello) as server:
        with pytest.raises(TransportError) as caught:
            await post(server.url, headers=((name, value),))
        assert not server.requests
    assert caught.value.kind == "config"


@pytest.mark.parametrize("url", ["ftp://h/", "h.example", "http://[::1", "https://"])
async def test_urls_that_are_none(url: str) -> None:
    """What is no address of a server fails before anything is sent."""
    assert (await failure(url)).kind == "config"


# -- redirects


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_within_the_origin(status: int) -> None:
    """C071: followed with method, body and headers, and remembered, so that the next request goes there at once."""
    async with RudeHttp(hello) as server:
        server.on("*", redirect(status, "/mcp/"))
        with anyio.fail_after(10):
            async with http_client(server.url, {}) as client:
                for _ in range(2):
                    async with client.exchange("POST", [(b"X", b"1")], b"{}") as answer:
                        assert await answer.read(10) == b"hello"
        assert [(r.method, r.path, r.body, r.header("X")) for r in server.requests] == [
            ("POST", "/mcp", b"{}", "1"),
            ("POST", "/mcp/", b"{}", "1"),
            ("POST", "/mcp/", b"{}", "1"),
        ]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_another_origin(status: int) -> None:
    """C071: not followed, whatever the status; the other host gets no request and no header, and is named alone."""
    async with RudeHttp(hello) as other, RudeHttp(lambda r: redirect(status, f"{other.origin}/login?t=s3")) as server:
        with anyio.fail_after(10):
            async with http_client(server.url, {}) as client, client.exchange("POST", [], b"{}") as answer:
                assert (answer.status, answer.location) == (status, other.origin)
        assert len(server.requests) == 1
        assert other.connections == 0


@pytest.mark.parametrize("location", ["/login", "//127.0.0.1:1/", "http://127.0.0.1:1/", "ftp://h/", "http://[::1", ""])
@pytest.mark.parametrize("status", [302, 308])
async def test_redirects_that_lead_nowhere(status: int, location: str) -> None:
    """C071: 302 would make a GET of a POST; another port is another origin; a bad address is none."""
    async with RudeHttp(lambda request: redirect(status, location)) as server:
        with anyio.fail_after(10):
            async with http_client(server.url, {}) as client, client.exchange("POST", [], b"{}") as answer:
                assert answer.status == status
        within = status == 308 and location in ("/login", "")
        assert len(server.requests) == (1 + MAX_REDIRECTS if location == "/login" and within else 1)


async def test_a_downgrade(tmp_path: Path) -> None:
    """C071: https never becomes http."""
    authority = Authority.made(tmp_path)
    async with RudeHttp(hello) as plain, RudeHttp(hello, tls=authority.server("127.0.0.1")) as server:
        server.on("*", redirect(307, plain.url))
        status, _ = await post(server.url, {"SSL_CERT_FILE": str(authority.path)})
        assert status == 307
        assert plain.connections == 0


@pytest.mark.parametrize(
    ("url", "reference", "target"),
    [
        ("https://m.example/sse", "/messages?s=1", b"/messages?s=1"),
        ("https://m.example/sse", "messages?s=1", b"/messages?s=1"),
        ("https://m.example/sse", "https://m.example:443/messages", b"/messages"),
        ("https://m.example:443/sse", "https://M.EXAMPLE/messages", b"/messages"),
        ("http://m.example:80/a/sse", "//m.example/messages", b"/messages"),
        ("https://u:pw@m.example/sse", "https://x:y@m.example/messages#f", b"/messages"),
        ("https://m.example/sse", "https://evil.example/c", None),
        ("https://m.example/sse", "//evil.example/c", None),
        ("https://m.example/sse", "http://m.example/messages", None),
        ("https://m.example/sse", "https://m.example:8443/messages", None),
        ("https://m.example/sse", "https://m.example@evil.example/", None),
        ("https://m.example/sse", "https://m.example./messages", None),
        ("https://m.example/sse", "wss://m.example/messages", None),
        ("http://m.example/sse", "https://m.example/messages", None),
    ],
)
async def test_another_url_of_one_origin(url: str, reference: str, target: bytes | None) -> None:
    """C082: scheme, host and port are those of the first, or nothing goes there; what is given up is named by its
    origin alone. Nothing is sent yet, and the credentials stay those of the first."""
    async with http_client(url, {}) as client:
        if target is None:
            with pytest.raises(TransportError, match="nothing is sent there") as caught:
                client.within(reference)
            assert caught.value.kind == "refused"
            assert "messages" not in str(caught.value)
        else:
            other = client.within(reference)
            assert other.credentials == client.credentials
            assert other._target.target == target


# -- bodies


@pytest.mark.parametrize("kind", ["gzip", "deflate", "bare", "Gzip"])
async def test_compressed_bodies(kind: str) -> None:
    """A compressed body is what it was, in any chunking."""
    data = os.urandom(1000) + b"x" * 300_000
    bare = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    ways = {"deflate": zlib.compress(data), "bare": bare.compress(data) + bare.flush()}
    packed = ways.get(kind) or gzip.compress(data)
    name = {"bare": "deflate"}.get(kind, kind)
    async with RudeHttp(lambda request: stream(*chopped(packed, 7), headers=[("Content-Encoding", name)])) as server:
        assert await post(server.url) == (200, data)


@pytest.mark.parametrize("packed", [False, True])
async def test_a_body_above_the_limit(packed: bool) -> None:
    """C050: a body that is too large, packed or not, is not held whole."""
    data = b"\0" * (8 << 20)
    answer = body(gzip.compress(data), headers=[("Content-Encoding", "gzip")]) if packed else body(data)
    async with RudeHttp(lambda request: answer) as server:
        with anyio.fail_after(10):
            async with http_client(server.url, {}) as client, client.exchange("POST", [], b"{}") as found:
                assert await found.read(1 << 20) is None


# -- connections


async def test_connections_are_kept() -> None:
    """Requests one after the other share a connection; an answer that was not read to its end costs its own."""
    async with RudeHttp(hello) as server:
        with anyio.fail_after(10):
            async with http_client(server.url, {}) as client:
                for _ in range(3):
                    async with client.exchange("POST", [], b"{}") as answer:
                        await answer.read(10)
                assert server.connections == 1
                server.on("*", stream(b"x", NEVER))
                async with client.exchange("POST", [], b"{}"):
                    pass
                async with client.exchange("POST", [], b"{}") as answer:
                    await answer.read(10)
                assert server.connections == 2
        await server.until(lambda: server.open == 0)


async def test_a_connection_that_the_server_closed() -> None:
    """A kept connection that was closed meanwhile is seen before a request is lost on it."""
    async with RudeHttp(lambda request: Reply(200, (), (b"hello",), "close")) as server:
        with anyio.fail_after(10):
            async with http_client(server.url, {}) as client:
                for _ in range(5):
                    async with client.exchange("POST", [], b"{}") as answer:
                        assert await answer.read(10) == b"hello"
                    await server.until(lambda: server.open == 0)
        assert server.connections == 5


async def test_a_refusal_before_the_whole_request() -> None:
    """A server that answers and closes before it has read everything is heard."""
    answer = raw(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 0.05)
    async with RudeHttp(lambda request: answer) as server:
        assert (await post(server.url, data=b"x" * 100_000))[0] == 413


async def test_head_and_body_leave_together() -> None:
    """One write for a request of ordinary size, so that no server waits for the second half."""
    got: list[bytes] = []

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            got.append(await stream.receive(1 << 16))
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with listening(serve) as port:
        await post(f"http://127.0.0.1:{port}/", data=b"the body")
    assert got[0].startswith(b"POST / HTTP/1.1\r\n")
    assert got[0].endswith(b"\r\n\r\nthe body")


async def test_no_cookies() -> None:
    """What a server sets is not sent back: there is no jar."""
    async with RudeHttp(lambda request: body(b"x", headers=[("Set-Cookie", "a=b; Path=/")])) as server:
        with anyio.fail_after(10):
            async with http_client(server.url, {}) as client:
                for _ in range(2):
                    async with client.exchange("POST", [], b"{}") as answer:
                        await answer.read(10)
        assert [request.header("Cookie") for request in server.requests] == [None, None]


async def test_the_user_part_of_a_url() -> None:
    """User and password become credentials for a header and are no part of what is asked for."""
    async with RudeHttp(hello) as server:
        url = server.url.replace("http://", "http://us%20er:p%40w@") + "?a=b#c"
        with anyio.fail_after(10):
            async with http_client(url, {}) as client:
                assert client.credentials == b"Basic " + base64.b64encode(b"us er:p@w")
                async with client.exchange("GET", []) as answer:
                    await answer.read(10)
        [request] = server.requests
        assert request.target == "/mcp?a=b"
        assert request.header("Host") == f"127.0.0.1:{server.port}"


async def test_no_header_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """C025: the HTTP client writes headers to its debug log, so it has none."""
    with caplog.at_level(logging.DEBUG):
        async with RudeHttp(hello) as server:
            await post(server.url, headers=((b"Authorization", b"Bearer s3cret"),))
    assert "s3cret" not in caplog.text

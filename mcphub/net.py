"""Owns HTTP towards other machines: the client, its requests, limits and redirects, on the way that `outbound` knows.

It must not know MCP, nor who asks. It and `outbound` alone import httpx2, and are imported themselves only when a
remote server is opened: 90 ms and 10 MiB are for those who have one. Of httpx2 it takes URLs, and whatever `outbound`
leaves to its connection pool: no cookies are kept, nothing is taken from this process's environment.
"""

from __future__ import annotations

import base64
import logging
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from http import HTTPStatus
from typing import Protocol

import anyio
import anyio.to_thread
import httpcore2
import httpx2

from mcphub.errors import TransportError
from mcphub.outbound.failures import (
    FAILURES,
    Peer,
    ended_unsaid,
    may_want_certificate,
    proxy_refuses,
    renamed,
    short,
    unusable_proxy,
    wants_certificate,
    wants_tls,
    written,
)
from mcphub.outbound.guard import Forbidden, Guard
from mcphub.outbound.inflate import Inflate
from mcphub.outbound.pool import Pool, Response
from mcphub.outbound.proxies import proxy_for, proxy_variable
from mcphub.outbound.tls_handshake import asks_for_certificate, speaks_tls
from mcphub.outbound.trust import tls_context, trusting_nobody
from mcphub.spec import TlsFiles

#: Redirects in a row.
MAX_REDIRECTS = 5

Header = tuple[bytes, bytes]
_DEFAULT_PORTS = {"http": 80, "https": 443}
#: Answers after which a request is sent once more, where there are other credentials to be had.
_NO_ENTRY = (401, 403)


class Signer(Protocol):
    """Whoever gives headers to every request, in place of those of the same name, and others once they are refused."""

    #: How often one request is sent anew at most because it was refused.
    tries: int

    @property
    def login(self) -> str:
        """What a person runs to sign in, "" = there is nothing like that."""

    @property
    def due(self) -> bool:
        """`ready` must be awaited before the next request."""

    async def ready(self) -> None:
        """Have something to give. Raises TransportError where a request would be in vain."""

    def version(self) -> int:
        """Which of its headers are the present ones; another number for others."""

    def headers_for(self, method: str, url: str) -> Sequence[Header]:
        """What is given to this request."""

    def accepted(self) -> None:
        """What it gave was not refused."""

    def noticed(self, nonce: str) -> None:
        """An answer had this `DPoP-Nonce`."""

    async def renewed(self, version: int, status: int, challenges: Sequence[str]) -> bool:
        """Whether there are other headers now than those of this version, which were refused so; `challenges` are the
        lines of WWW-Authenticate. Never raises."""

    def unoffered(self) -> None:
        """The server was found to offer no sign-in at all."""

    def told(self, message: str) -> tuple[str, str] | None:
        """(kind of a TransportError, text) for the last refusal that it could do nothing about, of which the server
        said `message`; None = it has no word of its own for it."""


class Answer:
    """The head of an answer, and its body once. Valid inside the exchange that gave it."""

    __slots__ = ("_peer", "_response", "followed", "location", "status")

    def __init__(self, response: Response, peer: Peer, location: str, followed: int = 0) -> None:
        self.status = response.status
        #: The origin that a redirect leads to which was not followed, "" = none.
        self.location = location
        #: Redirects that were followed before it, where they were too many; else 0.
        self.followed = followed
        self._response = response
        self._peer = peer

    def header(self, name: bytes) -> str:
        """Its last value; `name` in lower case, "" = not there."""
        return _header(self._response, name)

    def lines(self, name: bytes) -> list[str]:
        """All its values, in order."""
        return _lines(self._response, name)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes, decompressed. Raises TransportError (kind `lost`)."""
        encoding = self.header(b"content-encoding").lower()
        try:
            async with aclosing(self._response.aiter_stream()) as source:
                if encoding in ("", "identity"):
                    async for chunk in source:
                        yield chunk
                else:
                    inflate = Inflate(encoding)
                    async for chunk in source:
                        for piece in inflate.feed(chunk):
                            yield piece
        except FAILURES as e:
            raise renamed(e, self._peer) from None

    async def read(self, limit: int) -> bytes | None:
        """The whole body, None where it is larger. Raises TransportError (kind `lost`)."""
        body = self._response.whole() if self.header(b"content-encoding") in ("", "identity") else None
        if body is not None:
            return body if len(body) <= limit else None
        parts: list[bytes] = []
        size = 0
        async with aclosing(self.chunks()) as chunks:
            async for chunk in chunks:
                parts.append(chunk)
                size += len(chunk)
                if size > limit:
                    return None
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _header(response: Response, name: bytes) -> str:
    for key, value in reversed(response.headers):
        if key.lower() == name:
            return value.decode("latin-1").strip(" \t")
    return ""


def _lines(response: Response, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in response.headers if key.lower() == name]


class HttpClient:
    """Connections to one URL; `warnings` are about the way there. Made by `http_client`."""

    def __init__(self, pool: Pool, url: httpx2.URL, peer: Peer, warnings: Sequence[str]) -> None:
        self.peer = peer
        self.warnings = tuple(warnings)
        #: `Authorization` from the user part of the URL, b"" = none.
        self.credentials = _basic(url)
        self.signer: Signer | None = None
        self.follow = True
        #: It shows a certificate of its own.
        self.certified = False
        self._answered = False
        self._pool = pool
        self._go_to(url)

    def _go_to(self, url: httpx2.URL) -> None:
        self._url = url.copy_with(userinfo=b"", fragment=None)
        self._target = httpcore2.URL(
            scheme=self._url.raw_scheme, host=self._url.raw_host, port=self._url.port, target=self._url.raw_path
        )
        self._host: Header = (b"Host", self._url.netloc)
        self._text = str(self._url)

    @asynccontextmanager
    async def exchange(
        self, method: str, headers: Sequence[Header], body: bytes | None = None, *, begin: float | None = None
    ) -> AsyncIterator[Answer]:
        """One request; the answer's head has come, within `begin` seconds. Redirects are followed where 307 or 308
        leads to the same origin, or from http to https of the same host. Raises TransportError as `renamed` does, or of
        the kind `no_response`."""
        hop, tried, signer, begun = 0, 0, self.signer, self._url
        while True:
            given: Sequence[Header] = ()
            version = 0
            if signer is not None:
                if signer.due:
                    await signer.ready()
                given, version = signer.headers_for(method, self._text), signer.version()
            sent = [self._host, *(over(headers, given) if given else headers)]
            try:
                if begin is None:
                    response = await self._pool.request(method, self._target, sent, body)
                else:
                    with anyio.fail_after(begin):
                        response = await self._pool.request(method, self._target, sent, body)
            except TimeoutError:
                via = f" (by way of {self.peer.the_proxy})" if self.peer.proxy else ""
                text = f"{self.peer.server} did not begin to answer within {begin:g} s{via}"
                raise TransportError(text, kind="no_response") from None
            except FAILURES as e:
                raise await self._named(e) from None
            self._answered = True
            location = ""
            try:
                if response.status == 407 and self.between:  # only a proxy says that
                    raise proxy_refuses(self.peer, f"407 {HTTPStatus.PROXY_AUTHENTICATION_REQUIRED.phrase}")
                if 300 <= response.status < 400 and (said := _header(response, b"location")):
                    target = _joined(self._url, said)
                    followed = self.follow and response.status in (307, 308) and hop < MAX_REDIRECTS
                    if followed and target is not None and _may_follow(self._url, target):
                        hop += 1
                        # Kept for what comes next: another round trip for every request would be in vain.
                        self._go_to(target)
                        continue
                    location = _origin(target)
                    # What leads nowhere is not gone on from: redirects in a row are counted over all requests.
                    self._go_to(begun)
                if signer is not None:
                    # Only a proof has one, and that is never the only header.
                    if len(given) > 1 and (nonce := _header(response, b"dpop-nonce")):
                        signer.noticed(nonce)
                    if response.status not in _NO_ENTRY:
                        signer.accepted()
                    elif tried < signer.tries:
                        tried += 1
                        if await signer.renewed(version, response.status, _lines(response, b"www-authenticate")):
                            continue
                yield Answer(response, self.peer, location, hop if hop == MAX_REDIRECTS else 0)
                return
            finally:
                if not response.release():
                    with anyio.CancelScope(shield=True):
                        await response.aclose()

    async def _named(self, error: Exception) -> TransportError:
        """A failure under its name. Of a server that ended the first connection and never answered it is looked at,
        once, whether it was asked without TLS and speaks it, or wants a certificate."""
        found = renamed(error, self.peer)
        if self._answered or not ended_unsaid(error) or self._pool.guarded:
            return found
        if self.peer.proxy:
            return may_want_certificate(found) if self._url.scheme == "https" and not self.certified else found
        self._answered = True
        host, port = self._url.host, _port(self._url)
        if self._url.scheme == "http":
            return wants_tls(self.peer.server, "https") if await speaks_tls(host, port) else found
        if await asks_for_certificate(host, port):
            return wants_certificate(found, self.peer, self.certified)
        return found

    def within(self, reference: str) -> HttpClient:
        """A client for another URL of the same origin, on the same connections and not closed by itself; `reference` is
        resolved against this one's URL. Raises TransportError (kind `refused`)."""
        target = _joined(self._url, reference)
        if target is None or target.scheme != self._url.scheme or (target.host, _port(target)) != (
            self._url.host, _port(self._url)
        ):
            text = f"{self.peer.server} leads to {_origin(target)}, which is another place: nothing is sent there"
            raise TransportError(text, kind="refused")
        other = HttpClient(self._pool, target, self.peer, ())
        other.credentials = self.credentials
        other.signer, other.follow, other.certified = self.signer, self.follow, self.certified
        other._answered = True  # the server is known by now: whether it wants TLS is not in question
        return other

    @property
    def between(self) -> str:
        """The proxy that answers may come from as well as from the server, since it sees them in the clear; "" = none.
        """
        return self.peer.proxy if self._url.scheme == "http" else ""

    @property
    def waits_for(self) -> str:
        """As link.waits_for, while no connection was ever had."""
        return self._pool.waits_for

    def way_changed(self) -> None:
        """Another way may lead there now: no idle connection is used again."""
        self._pool.forget_idle()

    async def aclose(self) -> None:
        await self._pool.aclose()


def over(headers: Sequence[Header], given: Sequence[Header]) -> list[Header]:
    """`headers`, where those of the same name are replaced by what is given."""
    names = {name.lower() for name, _ in given}
    return [*(one for one in headers if one[0].lower() not in names), *given]


def _joined(url: httpx2.URL, location: str) -> httpx2.URL | None:
    try:
        return url.join(location)
    except (httpx2.InvalidURL, ValueError):
        return None


def _may_follow(url: httpx2.URL, target: httpx2.URL) -> bool:
    if target.scheme not in _DEFAULT_PORTS or target.host != url.host:
        return False
    if (target.scheme, _port(target)) == (url.scheme, _port(url)):
        return True
    return (url.scheme, _port(url)) == ("http", 80) and (target.scheme, _port(target)) == ("https", 443)


def _port(url: httpx2.URL) -> int:
    return url.port or _DEFAULT_PORTS[url.scheme]


def _origin(url: httpx2.URL | None) -> str:
    """Where a URL leads, without what may be secret in it."""
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}" if url is not None else "an address that is none"


def _basic(url: httpx2.URL) -> bytes:
    if not url.userinfo:
        return b""
    pair = f"{url.username}:{url.password}".encode()
    return b"Basic " + base64.b64encode(pair)


@asynccontextmanager
async def http_client(
    url: str,
    env: Mapping[str, str],
    *,
    tls: TlsFiles | None = None,
    signer: Signer | None = None,
    guard: Guard | None = None,
    follow: bool = True,
) -> AsyncIterator[HttpClient]:
    """A client for one URL on the way that the hub's environment says, with certificates of its own where `tls` names
    any; nothing is sent yet. With a guard it connects to no place that this refuses (kind `forbidden`); behind a proxy
    that can look at names and addresses in the URL alone. Without `follow` no redirect is followed. Raises
    TransportError (kind `config`)."""
    client = await anyio.to_thread.run_sync(_build, url, env, tls, guard)
    client.signer = signer
    client.follow = follow
    try:
        yield client
    finally:
        with anyio.CancelScope(shield=True):
            await client.aclose()


def _build(
    text: str, env: Mapping[str, str], tls: TlsFiles | None = None, guard: Guard | None = None
) -> HttpClient:
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError) as e:
        raise TransportError(f"cannot use the url: {short(e)}", kind="config") from None
    if url.scheme not in _DEFAULT_PORTS or not url.host:
        raise TransportError("cannot use the url: it is not http:// or https:// with a host", kind="config")
    via, bad = proxy_for(url.scheme, url.host, _port(url), env)
    warnings = [f"NO_PROXY: {ascii(item)[1:-1][:60]!r} is no host, address or network, and not used" for item in bad]
    variable = proxy_variable(url.scheme, env) if via else ""
    proxy, between = _proxy(via, env, variable)
    if proxy is not None and guard is not None:
        try:
            for known in _written(url.host):
                guard.check(url.host, _port(url), known)
        except Forbidden as e:
            raise TransportError(str(e), kind="forbidden") from None
    # http on its own port may be redirected to https.
    context = tls_context(env, tls) if url.scheme == "https" or _port(url) == 80 else trusting_nobody()
    pool = Pool(context, proxy, guard, between=between)
    client = HttpClient(pool, url, Peer(written(url.host, _port(url)), between, variable), warnings)
    client.certified = tls is not None and bool(tls.cert)
    return client


def _written(host: str) -> list[str]:
    """The address that a host is, in whichever way it is written (127.1, 0x7f000001); none for a name."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []
    return [str(where[0]) for *_, where in found]


def _proxy(via: str, env: Mapping[str, str], variable: str) -> tuple[httpcore2.Proxy | None, str]:
    """(the proxy, its `HOST:PORT`). Credentials in its URL go to it alone, and into no message."""
    if not via:
        return None, ""
    try:
        url = httpx2.URL(via)
    except (httpx2.InvalidURL, ValueError):
        raise unusable_proxy(variable, "it is no URL") from None
    if url.scheme not in _DEFAULT_PORTS or not url.host:
        raise unusable_proxy(variable, f"{url.scheme or 'no scheme'} is not http or https, with a host")
    address = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=_port(url), target=b"/")
    auth = (url.username.encode(), url.password.encode()) if url.userinfo else None
    context = tls_context(env) if url.scheme == "https" else None
    return httpcore2.Proxy(address, auth=auth, ssl_context=context), written(url.host, _port(url))


# Their debug logs hold headers.
for _name in ("httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.WARNING)

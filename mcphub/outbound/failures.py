"""Owns what a failure on the way to a server, or of its HTTP, is called.

It must not know which request failed, nor say what was in it.
"""

from __future__ import annotations

import re
import socket
import ssl
import zlib
from collections.abc import Iterator

import anyio
import httpcore2
import msgspec

from mcphub.errors import TransportError
from mcphub.outbound.connections import CONNECT_TIMEOUT, TlsTimeout
from mcphub.outbound.guard import Forbidden
from mcphub.outbound.line import LOOKS_LIKE_TLS
from mcphub.outbound.tls_handshake import parties

#: How a proxy says that it wants credentials, or others (RFC 9110, 15.5.8).
WANTS_PASSWORD = re.compile(r"\b407\b")


class Peer(msgspec.Struct, frozen=True):
    """Whom failures are about: the server, and the proxy in between, as `HOST:PORT`; "" = none."""

    server: str
    proxy: str = ""


def proxy_refuses(peer: Peer, said: str) -> TransportError:
    """The proxy lets nothing through; `said` is its status, in its words."""
    hint = ""
    if WANTS_PASSWORD.search(said):
        hint = "; give its user and password in the URL of HTTP_PROXY, HTTPS_PROXY or ALL_PROXY"
    return TransportError(f"the proxy {peer.proxy} refuses: {said}{hint}", kind="unreachable")


def renamed(error: Exception, peer: Peer) -> TransportError:
    """A failure of the HTTP client under a name of our own.

    Kinds: `unreachable`, `tls` and `forbidden` (nothing was sent), `lost`, `config` (the request cannot be sent).
    """
    causes = list(_causes(error))
    first = peer.proxy or peer.server
    to = f"the proxy {peer.proxy}" if peer.proxy else peer.server
    if isinstance(error, httpcore2.ProxyError):
        return proxy_refuses(peer, short(error))
    for cause in causes:
        # With TLS 1.3 a server refuses a client only after the handshake, when the first answer is read.
        reason = (cause.reason or "") if isinstance(cause, ssl.SSLError) else ""
        if "ALERT" in reason and "CERTIFICATE_REQUIRED" in reason:
            text = f"{peer.server} wants a client certificate; name one in tls.cert and tls.key of the entry"
            return TransportError(text, kind="tls")
        if "ALERT" in reason and any(part in reason for part in ("CERTIFICATE", "UNKNOWN_CA", "DECRYPT_ERROR")):
            why = reason.replace("_", " ").lower()
            return TransportError(f"{peer.server} refuses the client certificate: {why}", kind="tls")
    if isinstance(error, TlsTimeout):
        text = f"{peer.server} takes the connection, but did not finish the TLS handshake within {CONNECT_TIMEOUT:g} s"
        return TransportError(text, kind="tls")
    if isinstance(error, httpcore2.ConnectTimeout | httpcore2.PoolTimeout):
        return TransportError(f"no connection to {to} within {CONNECT_TIMEOUT:g} s", kind="unreachable")
    if isinstance(error, httpcore2.ConnectError):
        for cause in causes:
            if isinstance(cause, Forbidden):
                return TransportError(str(cause), kind="forbidden")
            if isinstance(cause, ssl.SSLCertVerificationError):
                why = (cause.verify_message or str(cause)) + parties(cause)
                return TransportError(f"the certificate of {peer.server} cannot be trusted: {why}", kind="tls")
            if isinstance(cause, ssl.SSLError):
                why = (cause.reason or str(cause)).replace("_", " ").lower()
                return TransportError(f"TLS with {peer.server} failed: {why}", kind="tls")
            if isinstance(cause, socket.gaierror):
                return TransportError(f"cannot resolve {first.rpartition(':')[0]}", kind="unreachable")
        if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
            return TransportError(f"nothing listens at {first}", kind="unreachable")
        named = [c.strerror for c in causes if isinstance(c, OSError) and c.strerror]
        why = named[-1] if named else "the connection was closed"
        return TransportError(f"cannot connect to {to}: {why}", kind="unreachable")
    if isinstance(error, httpcore2.TimeoutException):
        return TransportError(f"{peer.server} takes no data", kind="lost")
    if isinstance(error, httpcore2.RemoteProtocolError):
        if str(error) == LOOKS_LIKE_TLS:
            return wants_tls(peer.server, "https")
        if "without sending a response" in str(error):
            return TransportError(f"{peer.server} closed the connection without an answer", kind="lost")
        if "incomplete" in str(error) or "peer closed" in str(error):
            return TransportError(f"{peer.server} closed the connection in the middle of its answer", kind="lost")
        return TransportError(f"{peer.server} does not speak HTTP as it should: {short(error)}", kind="lost")
    if isinstance(error, zlib.error):
        return TransportError(f"the answer of {peer.server} is badly compressed", kind="lost")
    if isinstance(error, httpcore2.LocalProtocolError | httpcore2.UnsupportedProtocol):
        return TransportError(f"cannot send this request to {peer.server}: {short(error)}", kind="config")
    return TransportError(f"the connection to {peer.server} broke", kind="lost")


def wants_tls(server: str, scheme: str) -> TransportError:
    """A server was asked without TLS, and speaks it; `scheme` is the one that its URL should have."""
    text = f"{server} looks like TLS, and was asked without: the URL should begin with {scheme}://"
    return TransportError(text, kind="tls")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """What is behind an error, all of it, each once."""
    seen: set[int] = set()
    stack: list[BaseException | None] = [error]
    while stack:
        one = stack.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, BaseExceptionGroup):
            stack += one.exceptions
        stack += [one.__context__, one.__cause__]


def short(error: Exception) -> str:
    """What an error of the HTTP client says, fit for a message."""
    return ascii(str(error))[1:-1][:200] or type(error).__name__


#: What of the HTTP client is renamed. AnyIO's own, and those of the system, come through where a connection is closed
#: under a request that is being written.
FAILURES = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.UnsupportedProtocol,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    OSError,
    zlib.error,
)

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
from mcphub.outbound.connections import CONNECT_TIMEOUT, TlsClosed, TlsTimeout
from mcphub.outbound.guard import Forbidden
from mcphub.outbound.line import LOOKS_LIKE_TLS
from mcphub.outbound.proxied import LEAD_WITHIN, AtProxy, NoWay
from mcphub.outbound.tls_handshake import parties

#: How a proxy says that it wants credentials, or others (RFC 9110, 15.5.8).
WANTS_PASSWORD = re.compile(r"\b407\b")
#: What TLS says of an answer that is none of TLS; which of them depends on the version of OpenSSL.
_NO_TLS = frozenset(["WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"])
#: What a server says that gives no reason for ending the handshake.
_NO_REASON = frozenset(["SSLV3_ALERT_HANDSHAKE_FAILURE", "SSL/TLS_ALERT_HANDSHAKE_FAILURE"])


class Peer(msgspec.Struct, frozen=True):
    """Whom failures are about: the server, and the proxy in between, as `HOST:PORT`; "" = none. `variable` names the
    proxy, "" = it is not known which; `plain` is the scheme that the server's URL has without TLS."""

    server: str
    proxy: str = ""
    variable: str = ""
    plain: str = "http"

    @property
    def the_proxy(self) -> str:
        """How the proxy is called."""
        return f"the proxy {self.proxy}" + (f" of {self.variable}" if self.variable else "")


def written(host: str, port: int) -> str:
    """`HOST:PORT`, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def unusable_proxy(variable: str, why: str) -> TransportError:
    """What the environment names is no proxy; nothing of it is shown, since there may be a password in it."""
    text = f"cannot use the proxy of the environment ({variable}): {why}; correct {variable} in the hub's environment"
    return TransportError(text, kind="config")


def proxy_refuses(peer: Peer, said: str) -> TransportError:
    """The proxy lets nothing through; `said` is its status, in its words."""
    if WANTS_PASSWORD.search(said):
        where = peer.variable or "HTTP_PROXY, HTTPS_PROXY or ALL_PROXY"
        hint = f"give its user and password in the URL of {where}"
    else:
        hint = "where it is not to be asked for this host, name the host in NO_PROXY"
    return TransportError(f"{peer.the_proxy} refuses: {said}; {hint}", kind="unreachable")


def of_proxy(error: Exception, peer: Peer) -> TransportError:
    """What failed on the way to the proxy, or at it, before anything was asked of the server. Kinds: `unreachable`,
    `tls`."""
    who, variable = peer.the_proxy, peer.variable or "HTTP_PROXY, HTTPS_PROXY or ALL_PROXY"
    remedy = f"start it, or correct {variable} in the hub's environment; NO_PROXY excepts a host"
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = (cause.verify_message or str(cause)) + parties(cause)
            own = "where your own company signs it, name its authority by SSL_CERT_FILE or NODE_EXTRA_CA_CERTS"
            return TransportError(f"the certificate of {who} cannot be trusted: {why}; {own}", kind="tls")
        if isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
            text = f"{who} does not speak TLS, and was asked to: its URL should begin with http://; correct {variable}"
            return TransportError(text, kind="tls")
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
            why = (cause.reason or str(cause)).replace("_", " ").lower()
            return TransportError(f"TLS with {who} failed: {why}; {remedy}", kind="tls")
    if isinstance(error, NoWay):
        text = f"{who} takes the connection, but did not lead to {peer.server} within {LEAD_WITHIN:g} s; {remedy}"
        return TransportError(text, kind="unreachable")
    if isinstance(error, TlsTimeout):
        why = f"it did not finish the TLS handshake within {CONNECT_TIMEOUT:g} s"
    elif isinstance(error, TlsClosed) or any(isinstance(cause, ssl.SSLEOFError) for cause in causes):
        why = "it closed the connection in the TLS handshake: does it speak TLS?"
    elif isinstance(error, httpcore2.TimeoutException):
        why = f"no connection within {CONNECT_TIMEOUT:g} s"
    elif any(isinstance(cause, socket.gaierror) for cause in causes):
        why = f"cannot resolve {peer.proxy.rpartition(':')[0]}"
    elif any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        why = "nothing listens there"
    elif isinstance(error, httpcore2.RemoteProtocolError) and "without sending a response" not in str(error):
        why = f"it does not speak HTTP as a proxy should: {short(error)}"
    elif isinstance(error, httpcore2.ProtocolError | httpcore2.ReadError | httpcore2.WriteError):
        why = "it closed the connection without an answer"
    else:
        named = [c.strerror for c in causes if isinstance(c, OSError) and c.strerror]
        why = named[-1] if named else "the connection was closed"
    return TransportError(f"cannot reach {who}: {why}; {remedy}", kind="unreachable")


def renamed(error: Exception, peer: Peer) -> TransportError:
    """A failure of the HTTP client under a name of our own.

    Kinds: `unreachable`, `tls` and `forbidden` (nothing was sent), `lost`, `config` (the request cannot be sent).
    """
    if isinstance(error, AtProxy):
        return of_proxy(error.error, peer)
    if isinstance(error, httpcore2.ProxyError):
        return proxy_refuses(peer, short(error))
    found = _of_server(error, peer)
    return found if found.kind == "config" else by_way(found, peer)


def by_way(found: TransportError, peer: Peer) -> TransportError:
    """The same, and which proxy stands in between, which may have had its part in it."""
    return TransportError(f"{found} (by way of {peer.the_proxy})", kind=found.kind) if peer.proxy else found


def _of_server(error: Exception, peer: Peer) -> TransportError:
    causes = list(_causes(error))
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
        return TransportError(f"no connection to {peer.server} within {CONNECT_TIMEOUT:g} s", kind="unreachable")
    if isinstance(error, httpcore2.ConnectError):
        for cause in causes:
            if isinstance(cause, Forbidden):
                return TransportError(str(cause), kind="forbidden")
            if isinstance(cause, ssl.SSLCertVerificationError):
                why = (cause.verify_message or str(cause)) + parties(cause)
                return TransportError(f"the certificate of {peer.server} cannot be trusted: {why}", kind="tls")
            if isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
                return wants_no_tls(peer)
            if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
                why = (cause.reason or str(cause)).replace("_", " ").lower()
                if cause.reason in _NO_REASON:
                    why += "; it may want a client certificate (tls.cert and tls.key of the entry), or other TLS"
                return TransportError(f"TLS with {peer.server} failed: {why}", kind="tls")
            if isinstance(cause, socket.gaierror):
                return TransportError(f"cannot resolve {peer.server.rpartition(':')[0]}", kind="unreachable")
        if isinstance(error, TlsClosed) or any(isinstance(cause, ssl.SSLEOFError) for cause in causes):
            text = f"{peer.server} takes the connection, but closed it in the TLS handshake: does it speak TLS?"
            return TransportError(text, kind="unreachable")
        if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
            return TransportError(f"nothing listens at {peer.server}", kind="unreachable")
        named = [c.strerror for c in causes if isinstance(c, OSError) and c.strerror]
        why = named[-1] if named else "the connection was closed"
        return TransportError(f"cannot connect to {peer.server}: {why}", kind="unreachable")
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


def wants_no_tls(peer: Peer) -> TransportError:
    """A server was asked with TLS, and does not speak it."""
    text = f"{peer.server} answers without TLS, and was asked with it: the URL should begin with {peer.plain}://"
    return TransportError(f"{text}, or its port is another", kind="tls")


def wants_certificate(found: TransportError, peer: Peer, given: bool) -> TransportError:
    """A server asked for a client certificate, and ended a connection that it never answered on, with what `found`
    says; `given`: it was shown one."""
    if given:
        text = f"{found}; it asks for a client certificate: is that of tls.cert the right one?"
        return TransportError(text, kind=found.kind)
    text = f"{peer.server} asks for a client certificate, and ends the connection without one"
    return TransportError(f"{text}; name one in tls.cert and tls.key of the entry", kind="tls")


def may_want_certificate(found: TransportError) -> TransportError:
    """The same of a server that cannot be looked at."""
    return TransportError(f"{found}; it may want a client certificate (tls.cert and tls.key)", kind=found.kind)


def ended_unsaid(error: Exception) -> bool:
    """Whether a server ended a connection, or TLS on it, before any answer and without a reason."""
    causes = list(_causes(error))
    if any(isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError) for cause in causes):
        return any(isinstance(cause, ssl.SSLError) and cause.reason in _NO_REASON for cause in causes)
    if isinstance(error, httpcore2.RemoteProtocolError):
        return "without sending a response" in str(error)
    return isinstance(error, TlsClosed | httpcore2.ReadError | httpcore2.WriteError)


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
    AtProxy,
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

"""A table for the names of failures; tests/test_net.py makes them happen."""

from __future__ import annotations

import socket
import ssl
import zlib

import httpcore2
import pytest

from mcphub.outbound.connections import TlsClosed, TlsTimeout
from mcphub.outbound.failures import FAILURES, Peer, renamed
from mcphub.outbound.proxied import AtProxy, NoWay

DIRECT = Peer("m.example:443")
UNNAMED = Peer("m.example:443", "p.example:3128")
PROXIED = Peer("m.example:443", "p.example:3128", "https_proxy")
START = "start it, or correct https_proxy in the hub's environment; NO_PROXY excepts a host"


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def no_tls() -> ssl.SSLError:
    error = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    error.reason = "WRONG_VERSION_NUMBER"  # made by hand it has none
    return error


def no_reason() -> ssl.SSLError:
    error = ssl.SSLError(1, "[SSL: SSLV3_ALERT_HANDSHAKE_FAILURE] handshake failure")
    error.reason = "SSLV3_ALERT_HANDSHAKE_FAILURE"
    return error


def at_proxy(error: Exception) -> Exception:
    return AtProxy(error)


def connect(cause: BaseException) -> Exception:
    return caused(httpcore2.ConnectError("all attempts failed"), cause)


@pytest.mark.parametrize(
    ("error", "peer", "kind", "words"),
    [
        (
            httpcore2.ProxyError("407 No"), UNNAMED, "unreachable",
            "the proxy p.example:3128 refuses: 407 No; give its user and password in the URL of HTTP_PROXY, "
            "HTTPS_PROXY or ALL_PROXY",
        ),
        (httpcore2.ProxyError("502 Bad"), PROXIED, "unreachable",
         "the proxy p.example:3128 of https_proxy refuses: 502 Bad; where it is not to be asked for this host, name"),
        (httpcore2.ConnectTimeout(), DIRECT, "unreachable", "no connection to m.example:443 within 10 s"),
        (at_proxy(httpcore2.ConnectTimeout()), PROXIED, "unreachable",
         f"cannot reach the proxy p.example:3128 of https_proxy: no connection within 10 s; {START}"),
        (at_proxy(TlsTimeout()), PROXIED, "unreachable",
         "cannot reach the proxy p.example:3128 of https_proxy: it did not finish the TLS handshake within 10 s; "),
        (at_proxy(TlsClosed()), PROXIED, "unreachable",
         "cannot reach the proxy p.example:3128 of https_proxy: it closed the connection in the TLS handshake: does"),
        (at_proxy(NoWay()), PROXIED, "unreachable",
         "the proxy p.example:3128 of https_proxy takes the connection, but did not lead to m.example:443 within 20 s"),
        (at_proxy(httpcore2.RemoteProtocolError("x")), PROXIED, "unreachable",
         "cannot reach the proxy p.example:3128 of https_proxy: it does not speak HTTP as a proxy should: x; "),
        (at_proxy(httpcore2.ReadError()), PROXIED, "unreachable",
         "cannot reach the proxy p.example:3128 of https_proxy: it closed the connection without an answer; "),
        (at_proxy(connect(no_tls())), PROXIED, "tls",
         "the proxy p.example:3128 of https_proxy does not speak TLS, and was asked to: its URL should begin with "
         "http://; correct https_proxy"),
        (at_proxy(connect(no_reason())), PROXIED, "tls",
         "TLS with the proxy p.example:3128 of https_proxy failed: sslv3 alert handshake failure; "),
        (at_proxy(connect(OSError(113, "No route to host"))), PROXIED, "unreachable",
         "cannot reach the proxy p.example:3128 of https_proxy: No route to host; "),
        (connect(ConnectionRefusedError()), DIRECT, "unreachable", "nothing listens at m.example:443"),
        (at_proxy(connect(ConnectionRefusedError())), PROXIED, "unreachable",
         f"cannot reach the proxy p.example:3128 of https_proxy: nothing listens there; {START}"),
        (at_proxy(connect(socket.gaierror(-2, "no"))), PROXIED, "unreachable",
         f"cannot reach the proxy p.example:3128 of https_proxy: cannot resolve p.example; {START}"),
        (connect(socket.gaierror(-2, "no")), DIRECT, "unreachable", "cannot resolve m.example"),
        (connect(OSError(113, "No route to host")), DIRECT, "unreachable",
         "cannot connect to m.example:443: No route to host"),
        (connect(ExceptionGroup("", [OSError(), ConnectionRefusedError()])), DIRECT, "unreachable",
         "nothing listens at m.example:443"),
        (connect(ValueError()), DIRECT, "unreachable", "cannot connect to m.example:443: the connection was closed"),
        (connect(no_tls()), PROXIED, "tls",
         "m.example:443 answers without TLS, and was asked with it: the URL should begin with http://, or its port is "
         "another (by way of the proxy p.example:3128 of https_proxy)"),
        (connect(no_tls()), Peer("m.example:443", plain="ws"), "tls",
         "m.example:443 answers without TLS, and was asked with it: the URL should begin with ws://"),
        (connect(no_reason()), DIRECT, "tls",
         "TLS with m.example:443 failed: sslv3 alert handshake failure; it may want a client certificate (tls.cert"),
        (TlsClosed(), DIRECT, "unreachable",
         "m.example:443 takes the connection, but closed it in the TLS handshake: does it speak TLS?"),
        (TlsTimeout(), PROXIED, "tls",
         "m.example:443 takes the connection, but did not finish the TLS handshake within 10 s (by way of the proxy "),
        (httpcore2.WriteTimeout(), DIRECT, "lost", "m.example:443 takes no data"),
        (httpcore2.RemoteProtocolError("x\n" * 999), DIRECT, "lost",
         "m.example:443 does not speak HTTP as it should: "),
        (zlib.error("bad"), DIRECT, "lost", "the answer of m.example:443 is badly compressed"),
        (httpcore2.LocalProtocolError("illegal"), DIRECT, "config",
         "cannot send this request to m.example:443: illegal"),
        (OSError(), DIRECT, "lost", "the connection to m.example:443 broke"),
    ],
)  # fmt: skip
def test_names(error: Exception, peer: Peer, kind: str, words: str) -> None:
    """C091: each failure says who failed, the proxy or the server, and whether anything was sent; in one short line."""
    found = renamed(error, peer)
    assert isinstance(error, FAILURES)
    assert found.kind == kind
    assert str(found).startswith(words)
    assert str(found).isprintable()
    assert len(str(found)) < 320


def test_causes_in_a_circle() -> None:
    """An error that is its own cause does not hang."""
    error = httpcore2.ConnectError("x")
    inner = OSError(1, "Odd")
    inner.__context__ = error
    assert "Odd" in str(renamed(caused(error, inner), DIRECT))

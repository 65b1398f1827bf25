"""A table for the names of failures; tests/test_net.py makes them happen."""

from __future__ import annotations

import socket
import ssl
import zlib

import httpcore2
import pytest

from mcphub.outbound.failures import FAILURES, Peer, renamed

DIRECT = Peer("m.example:443")
PROXIED = Peer("m.example:443", "p.example:3128")


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def no_tls() -> ssl.SSLError:
    error = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    error.reason = "WRONG_VERSION_NUMBER"  # made by hand it has none
    return error


def connect(cause: BaseException) -> Exception:
    return caused(httpcore2.ConnectError("all attempts failed"), cause)


@pytest.mark.parametrize(
    ("error", "peer", "kind", "words"),
    [
        (
            httpcore2.ProxyError("407 No"), PROXIED, "unreachable",
            "the proxy p.example:3128 refuses: 407 No; give its user and password in the URL of HTTP_PROXY, "
            "HTTPS_PROXY or ALL_PROXY",
        ),
        (httpcore2.ProxyError("502 Bad"), PROXIED, "unreachable", "the proxy p.example:3128 refuses: 502 Bad"),
        (httpcore2.ConnectTimeout(), DIRECT, "unreachable", "no connection to m.example:443 within 10 s"),
        (httpcore2.ConnectTimeout(), PROXIED, "unreachable", "no connection to the proxy p.example:3128 within 10 s"),
        (connect(ConnectionRefusedError()), DIRECT, "unreachable", "nothing listens at m.example:443"),
        (connect(ConnectionRefusedError()), PROXIED, "unreachable", "nothing listens at p.example:3128"),
        (connect(socket.gaierror(-2, "no")), PROXIED, "unreachable", "cannot resolve p.example"),
        (connect(OSError(113, "No route to host")), DIRECT, "unreachable",
         "cannot connect to m.example:443: No route to host"),
        (connect(ExceptionGroup("", [OSError(), ConnectionRefusedError()])), DIRECT, "unreachable",
         "nothing listens at m.example:443"),
        (connect(ValueError()), DIRECT, "unreachable", "cannot connect to m.example:443: the connection was closed"),
        (connect(no_tls()), PROXIED, "tls", "TLS with m.example:443 failed: wrong version number"),
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
    assert len(str(found)) < 300


def test_causes_in_a_circle() -> None:
    """An error that is its own cause does not hang."""
    error = httpcore2.ConnectError("x")
    inner = OSError(1, "Odd")
    inner.__context__ = error
    assert "Odd" in str(renamed(caused(error, inner), DIRECT))

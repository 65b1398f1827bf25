"""A table of what httpcore2 tells of a request by way of a proxy; tests/test_net.py makes the failures happen."""

from __future__ import annotations

import anyio
import httpcore2
import pytest

from mcphub.outbound.connections import TlsClosed, TlsTimeout
from mcphub.outbound.proxied import AtProxy, Way

pytestmark = pytest.mark.anyio

CONNECTED = ("connection.connect_tcp.started", "connection.connect_tcp.complete")
ASKED = ("http11.send_request_headers.started",)


class Told(httpcore2.AsyncConnectionPool):
    """Tells these events of a request, and then fails."""

    def __init__(self, events: tuple[str, ...], error: Exception) -> None:
        super().__init__()
        self.events = events
        self.error = error

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        for event in self.events:
            await request.extensions["trace"](event, {})
        raise self.error


@pytest.mark.parametrize(
    ("tunnel", "events", "error", "raised", "at_proxy", "missing"),
    [
        (True, CONNECTED[:1], httpcore2.ConnectError(), httpcore2.ConnectError, True, "connection to the proxy p:1"),
        (True, CONNECTED, httpcore2.ReadError(), httpcore2.ReadError, True, "answer of the proxy p:1"),
        (True, (*CONNECTED, *ASKED), httpcore2.ReadError(), httpcore2.ReadError, True, "answer of the proxy p:1"),
        (False, CONNECTED, httpcore2.WriteError(), httpcore2.WriteError, True, "answer by way of the proxy p:1"),
        (False, (*CONNECTED, *ASKED), httpcore2.ReadError(), httpcore2.ReadError, False,
         "answer by way of the proxy p:1"),
        (True, (*CONNECTED, "connection.start_tls.started"), httpcore2.ConnectTimeout(), TlsTimeout, True,
         "answer of the proxy p:1 to the TLS handshake"),
        (True, (*CONNECTED, *ASKED, "proxy.start_tls.started"), httpcore2.ConnectTimeout(), TlsTimeout, False,
         "answer to the TLS handshake"),
        (True, (*CONNECTED, *ASKED, "proxy.start_tls.started", "proxy.start_tls.complete"), httpcore2.ReadError(),
         httpcore2.ReadError, False, ""),
        (True, (), httpcore2.ReadError(), httpcore2.ReadError, False, ""),
        (True, (*CONNECTED, *ASKED), httpcore2.ProxyError("403"), httpcore2.ProxyError, False,
         "answer of the proxy p:1"),
        (True, CONNECTED, httpcore2.LocalProtocolError("x"), httpcore2.LocalProtocolError, False,
         "answer of the proxy p:1"),
    ],
)  # fmt: skip
async def test_whose_failure(
    tunnel: bool, events: tuple[str, ...], error: Exception, raised: type[Exception], at_proxy: bool, missing: str
) -> None:
    """What fails before the proxy has led to the server is the proxy's, and what is waited for is named; a connection
    that is used again is the server's."""
    waited: list[str] = []
    way = Way("p:1", tunnel, waited.append)
    request = httpcore2.Request("POST", "https://m.example/", extensions={"trace": way.trace})
    with pytest.raises((AtProxy, raised)) as caught:
        await way.request(Told(events, error), request)
    found = caught.value.error if isinstance(caught.value, AtProxy) else caught.value
    assert type(found) is raised
    assert isinstance(caught.value, AtProxy) == at_proxy
    assert (waited or [""])[-1] == missing


async def test_a_connection_that_is_closed_in_the_handshake() -> None:
    """It is told apart from one that could not be made."""
    error = httpcore2.ConnectError()
    error.__cause__ = anyio.EndOfStream()
    way = Way("p:1", True, lambda text: None)
    request = httpcore2.Request("POST", "https://m.example/", extensions={"trace": way.trace})
    with pytest.raises(TlsClosed):
        await way.request(Told((*CONNECTED, *ASKED, "proxy.start_tls.started"), error), request)

"""Sign-ins under way, against a real authorization server of the test's own."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import anyio.lowlevel
import pytest

from mcphub.auth.challenge import Challenge
from mcphub.auth.failures import FlowFailure
from mcphub.auth.home import BROWSER
from mcphub.auth.sign_in import SignIn
from mcphub.login.logins import Logins
from mcphub.spec import OAuthSpec, ServerSpec
from tests.auth import homes
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_as import Guarded, RudeAs
from tests.fakes.rude_http import RudeHttp
from tests.login.browser import get, raw

pytestmark = pytest.mark.anyio


class World:
    def __init__(self, logins: Logins, server: RudeAs, url: str, hub: homes.Hub) -> None:
        self.logins = logins
        self.server = server
        self.url = url
        self.hub = hub
        self.woken = 0

    def spec(self, **oauth: object) -> ServerSpec:
        return homes.server(self.url, OAuthSpec(**oauth), "far")  # type: ignore[arg-type]

    async def agree(self, url: str) -> int:
        """What a person does who agrees; the status of the last page."""
        parts = urlsplit(url)
        assert parts.port is not None
        asked = f"GET {parts.path}?{parts.query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        head = (await raw(parts.port, asked.encode())).decode()
        back = urlsplit(next(one for one in head.split("\r\n") if one.lower().startswith("location")).split(": ", 1)[1])
        assert back.port is not None
        return (await get(back.port, f"{back.path}?{back.query}", Host=back.netloc)).status


@asynccontextmanager
async def world(tmp_path: Path, patience: float = 300.0) -> AsyncIterator[World]:
    async with RudeAs() as server, RudeHttp(Guarded(server, OrdinaryMcp()), "/mcp") as mcp:
        server.protects(mcp.url)
        async with homes.hub(tmp_path, homes.Clock()) as hub, anyio.create_task_group() as tasks:
            w = World(Logins(hub.credentials, lambda: "", lambda: woken(w), patience=patience), server, mcp.url, hub)
            started = anyio.Event()
            tasks.start_soon(w.logins.run, started)
            await started.wait()
            with anyio.fail_after(20):
                yield w
            tasks.cancel_scope.cancel()


def woken(w: World) -> None:
    w.woken += 1


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


async def test_one_for_each_server(tmp_path: Path) -> None:
    """C100, C118: a second one takes the place of the first, at the same port where that is fixed; what was signed in
    stays so until the new tokens are kept."""
    port = free_port()
    async with world(tmp_path) as w:
        credential = w.hub.of(w.spec(client_id="cid", callback_port=port, callback_host="localhost"))
        first = w.logins.to_server(credential)
        await first.begun.wait()
        assert w.logins.of_server(credential) is first
        second = w.logins.to_server(credential)
        await second.begun.wait()
        assert first.over.is_set() and first.superseded
        assert redirect(second) == f"http://localhost:{port}/callback"
        assert await w.agree(second.url) == 200
        await second.over.wait()
        assert second.failure is None and credential.tokens is not None
        held = credential.tokens
        assert w.logins.of_server(credential) is None

        third = w.logins.to_server(credential)
        await third.begun.wait()
        third.cancel()
        await third.over.wait()
        assert third.failure is not None and third.failure.reason is FlowFailure.CANCELLED
        assert credential.tokens is held and credential.need is None
        fourth = w.logins.to_server(credential)
        await fourth.begun.wait()
        assert (await w.logins.out_of(credential)).was
        assert fourth.over.is_set() and credential.tokens is None


def redirect(sign_in: SignIn) -> str:
    return parse_qs(urlsplit(sign_in.url).query)["redirect_uri"][0]


async def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """C100, C101: a port that the entry fixes is an error that names it; one that is only remembered is another one
    today, with which the client is registered anew."""
    async with world(tmp_path) as w:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            failed = w.logins.to_server(w.hub.of(w.spec(client_id="cid", callback_port=port)))
            await failed.over.wait()
            assert failed.failure is not None
            assert failed.failure.reason is FlowFailure.CALLBACK_UNAVAILABLE and str(port) in failed.failure.detail
        credential = w.hub.of(w.spec())
        first = w.logins.to_server(credential)
        await first.begun.wait()
        assert await w.agree(first.url) == 200
        await first.over.wait()
        used = urlsplit(redirect(first)).port
        assert used is not None
        again = w.logins.to_server(credential)
        await again.begun.wait()
        assert redirect(again) == redirect(first)
        again.cancel()
        await again.over.wait()
        with socket.create_server(("127.0.0.1", used)):
            other = w.logins.to_server(credential)
            await other.begun.wait()
            assert redirect(other) != redirect(first)
        assert len(w.server.asked("register")) == 2
        assert await w.agree(other.url) == 200


async def test_how_a_person_failed_last(tmp_path: Path) -> None:
    """What the page in the browser could not say is seen in the row, until the next attempt; who cancelled knows it."""
    async with world(tmp_path) as w:
        credential = w.hub.of(w.spec(client_id="cid"))
        await credential.refused(0, Challenge())
        sign_in = w.logins.to_server(credential)
        await sign_in.begun.wait()
        asked = {name: values[0] for name, values in parse_qs(urlsplit(sign_in.url).query).items()}
        back = urlsplit(asked["redirect_uri"])
        assert back.port is not None
        query = urlencode({"error": "access_denied", "state": asked["state"], "iss": w.server.issuer})
        await get(back.port, f"{back.path}?{query}", Host=back.netloc)
        await sign_in.over.wait()
        await until(lambda: credential.fell is not None)
        shown = credential.shown
        assert shown is not None and (shown.how, shown.failure.reason) == (BROWSER, FlowFailure.DENIED)
        again = w.logins.to_server(credential)
        assert credential.shown is credential.need
        again.cancel()
        await again.over.wait()
        assert credential.fell is None


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await anyio.lowlevel.checkpoint()

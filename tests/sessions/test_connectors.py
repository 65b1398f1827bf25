"""A catalogue of connectors on a real HTTP server: what is asked, what is kept, and what agents see of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcphub.sessions.connectors import ConnectorsRefresher
from mcphub.store.connectors import Said, connectors_file
from tests.fakes.rude_http import Reply, Request, RudeHttp, body, empty, redirect
from tests.sessions.house import House, house
from tests.transport.peers import clean

pytestmark = pytest.mark.anyio


class Catalogue:
    """What it says; each state has its own ETag."""

    def __init__(self) -> None:
        self.names = ["wiki"]

    def __call__(self, request: Request) -> Reply:
        servers = {name: {"type": "http", "url": "https://h.example/", "enabled": False} for name in self.names}
        etag = f'"{len(self.names)}"'
        if request.header("If-None-Match") == etag:
            return empty(304, ("ETag", etag))
        return body(json.dumps({"mcpServers": servers}).encode(), headers=[("ETag", etag)])


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue()


@pytest.fixture
async def server(catalogue: Catalogue) -> AsyncIterator[RudeHttp]:
    async with clean(), RudeHttp(catalogue, path="/connectors") as server:
        with anyio.fail_after(20):
            yield server


@pytest.fixture
async def home(server: RudeHttp) -> AsyncIterator[House]:
    async with house() as home:
        yield home


async def configure(home: House, url: str) -> None:
    path = home.root / "config/settings.toml"
    path.write_text(f'[webapp]\ncatalogue = "{url}"\n')
    await home.workspaces.tick(again=True)


@asynccontextmanager
async def refreshing(home: House, **times: Any) -> AsyncIterator[ConnectorsRefresher]:
    refresher = ConnectorsRefresher(home.workspaces, home.places, home.log, **times)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(refresher.run)
        yield refresher
        tasks.cancel_scope.cancel()


def seen(home: House) -> list[str]:
    return list(home.workspaces.visible(""))


def kept(home: House) -> Said:
    return connectors_file(home.places.webapp).load()[0]


async def test_what_a_catalogue_lists_is_there(home: House, server: RudeHttp) -> None:
    """As soon as the settings name it; what they do not name any more is gone."""
    async with refreshing(home):
        assert (seen(home), server.requests) == (["mcphub"], [])
        await configure(home, server.url)
        await home.until(lambda: seen(home) == ["wiki"])
        assert server.requests[0].header("Accept") == "application/json"
        assert kept(home).catalogue == server.url
        await configure(home, "")
        assert seen(home) == ["mcphub"]


async def test_it_is_asked_for_what_is_new(home: House, server: RudeHttp, catalogue: Catalogue) -> None:
    """By the name of the state that is kept; the answer that nothing is new keeps it."""
    await configure(home, server.url)
    refresher = ConnectorsRefresher(home.workspaces, home.places, home.log)
    assert await refresher.refresh(server.url) == ""
    first = kept(home)
    assert await refresher.refresh(server.url) == ""
    assert server.requests[1].header("If-None-Match") == first.etag
    assert kept(home).document == first.document
    catalogue.names = ["wiki", "mail"]
    assert await refresher.refresh(server.url) == ""
    await home.workspaces.tick()
    assert seen(home) == ["mail", "wiki"]


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (empty(500), "answered with status 500"),
        (redirect(307, "https://elsewhere.example/"), "leads to https://elsewhere.example"),
        (body(b"{"), "cannot use http://127.0.0.1"),
        (body(b'{"servers": []}'), "expected an object with the servers below 'mcpServers'"),
        (body(b"\xff{}"), "not UTF-8"),
    ],
)
async def test_what_was_good_stays(home: House, server: RudeHttp, answer: Reply, cause: str) -> None:
    """No answer, or one that is no catalogue, takes nothing away; the warning says why and since when."""
    await configure(home, server.url)
    refresher = ConnectorsRefresher(home.workspaces, home.places, home.log)
    await refresher.refresh(server.url)
    server.on("GET", answer)
    assert cause in await refresher.refresh(server.url)
    await home.workspaces.tick()
    assert seen(home) == ["wiki"]
    [warning] = home.workspaces.loaded[""].warnings()
    assert cause in warning and "they stay in force" in warning
    await refresher.refresh(server.url)
    await home.workspaces.tick()
    assert home.workspaces.loaded[""].warnings() == ()


async def test_a_catalogue_that_does_not_answer_is_asked_again(home: House, server: RudeHttp) -> None:
    """Soon, and the log says so once a look; nothing else waits for it."""
    server.on("GET", empty(503), times=2)
    async with refreshing(home, again=0.01):
        await configure(home, server.url)
        await home.until(lambda: seen(home) == ["wiki"])
    assert len(server.requests) == 3
    assert len([line for line in home.logged if "answered with status 503" in line]) == 2


async def test_the_copy_is_there_before_the_first_look(home: House, server: RudeHttp) -> None:
    """After a restart what was kept counts at once; of another catalogue it does not."""
    await configure(home, server.url)
    await ConnectorsRefresher(home.workspaces, home.places, home.log).refresh(server.url)
    await home.workspaces.tick()
    await configure(home, server.url + "?other")
    assert seen(home) == ["mcphub"]
    await configure(home, server.url)
    assert seen(home) == ["wiki"]


async def test_it_is_not_asked_in_the_open(home: House, server: RudeHttp) -> None:
    """A catalogue that is neither on this machine nor reached over https is a problem, and never asked."""
    async with refreshing(home):
        await configure(home, "http://c.example/")
        await anyio.lowlevel.checkpoint()
        assert [line for line in home.workspaces.loaded[""].problems() if "over https" in line]
    assert home.logged == []

"""Managed settings from a real HTTPS server: what is asked, what is kept, and what they do to what runs."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphub.config.places import Places
from mcphub.sessions.remote_settings import RemoteSettingsRefresher
from mcphub.spec import Off, Want
from mcphub.store.fetched_settings import Copy, fetched_settings_file
from tests.fakes.certificates import Authority
from tests.fakes.rude_http import Reply, Request, RudeHttp, body, empty
from tests.sessions.house import House, house
from tests.transport.peers import clean

pytestmark = pytest.mark.anyio

DENY_B: dict[str, Any] = {"deniedMcpServers": [{"serverName": "b"}]}


class Fleet:
    """What the server of the fleet says; each state has its own ETag."""

    def __init__(self) -> None:
        self.document: Any = {}

    def __call__(self, request: Request) -> Reply:
        text = self.document if isinstance(self.document, bytes) else json.dumps(self.document).encode()
        etag = f'"{hash(text)}"'
        if request.header("If-None-Match") == etag:
            return empty(304, ("ETag", etag))
        return body(text, headers=[("ETag", etag)])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.made(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def tls(authority: Authority) -> ssl.SSLContext:
    return authority.server("127.0.0.1")


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


@pytest.fixture
async def server(tls: ssl.SSLContext, fleet: Fleet) -> AsyncIterator[RudeHttp]:
    async with clean(), RudeHttp(fleet, path="/settings", tls=tls) as server:
        with anyio.fail_after(30):
            yield server


@pytest.fixture
async def home(server: RudeHttp) -> AsyncIterator[House]:
    """Two servers of the person's."""
    async with house() as home:
        home.write({"a": {}, "b": {}})
        await home.workspaces.tick()
        yield home


async def ask(home: House, authority: Authority, server: RudeHttp, **more: Any) -> None:
    """What the administrator's file says about the URL, and a look at it."""
    ca = home.root / "ca.pem"
    put(ca, authority.path.read_text())
    text = json.dumps({"remoteSettings": {"url": server.url, "caFile": str(ca), **more}})
    put(Path(home.places.system.directory, "managed-settings.json"), text)
    await home.workspaces.tick()


def put(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o755, exist_ok=True)
    draft = path.with_name(".draft")
    draft.write_text(text)
    draft.chmod(0o644)
    draft.replace(path)


@asynccontextmanager
async def refreshing(home: House, **times: float) -> AsyncIterator[RemoteSettingsRefresher]:
    refresher = RemoteSettingsRefresher(home.workspaces, home.places, home.log, **times)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(refresher.run)
        yield refresher
        tasks.cancel_scope.cancel()


def kept(places: Places) -> Copy:
    return fetched_settings_file(places.fetched_settings).load()[0]


def wish(home: House, name: str) -> Any:
    found = {key.name: wish for key, wish in home.supervisor.snapshot.value.desired.items()}
    return found.get(name)


def off(home: House, name: str) -> Callable[[], bool]:
    return lambda: isinstance(wish(home, name), Off)


def wanted(home: House, name: str) -> Callable[[], bool]:
    return lambda: isinstance(wish(home, name), Want)


async def test_from_nothing_to_a_rule_and_back(
    home: House, server: RudeHttp, fleet: Fleet, authority: Authority
) -> None:
    """A rule that is fetched stops what it forbids; the next look asks by ETag; a new document lets it run again."""
    async with refreshing(home, every=0.1):
        await home.up("a", "b")
        assert server.requests == []
        fleet.document = DENY_B
        await ask(home, authority, server)
        await home.until(off(home, "b"))
        assert "127.0.0.1" in wish(home, "b").detail
        assert wanted(home, "a")()
        await server.until(lambda: len(server.requests) >= 2)
        assert server.requests[0].header("If-None-Match") is None
        assert server.requests[1].header("If-None-Match") == f'"{hash(json.dumps(DENY_B).encode())}"'
        fleet.document = {}
        await home.up("a", "b")
    assert kept(home.places).document == "{}"


async def test_the_last_good_one_stays(home: House, server: RudeHttp, fleet: Fleet, authority: Authority) -> None:
    """While the server fails or answers with something broken, what was good holds, and status says why."""
    fleet.document = DENY_B
    await ask(home, authority, server)
    async with refreshing(home, every=0.05, again=0.05):
        await home.until(off(home, "b"))
        table = {b'{"deniedMcp': "string without end", b"\xff": "not UTF-8", b"[]": "expected an object"}
        table[b'{"denyMcpServers":[]}'] = "probably meant as deniedMcpServers"
        for broken, cause in table.items():
            fleet.document = broken
            await home.until(lambda cause=cause: cause in kept(home.places).error)
            await home.until(lambda cause=cause: cause in " ".join(home.workspaces.loaded[""].warnings()))
        server.on("GET", empty(500), times=None)
        await home.until(lambda: "answered with status 500" in kept(home.places).error)
        assert isinstance(wish(home, "b"), Off)
        assert isinstance(wish(home, "a"), Want)
        assert kept(home.places).document == json.dumps(DENY_B)
    assert any("cannot refresh the managed settings of https://127.0.0.1" in line for line in home.logged)


async def test_the_first_answer_is_broken(home: House, server: RudeHttp, fleet: Fleet, authority: Authority) -> None:
    """Rules were meant to come, so only the organisation's servers run, until a good one comes."""
    fleet.document = b'{"deniedMcp'
    await ask(home, authority, server)
    async with refreshing(home, every=0.05, again=0.05):
        await home.until(off(home, "a"), timeout=10)
        assert isinstance(wish(home, "b"), Off)
        fleet.document = {}
        await home.up("a", "b")


async def test_fail_closed(home: House, server: RudeHttp, fleet: Fleet, authority: Authority) -> None:
    """Where the file says so, nothing of a person's runs before the settings came."""
    server.on("GET", empty(503), times=None)
    await ask(home, authority, server, failClosed=True)
    async with refreshing(home, every=0.05, again=0.05):
        await home.until(off(home, "a"), timeout=10)
        assert "not fetched yet: 127.0.0.1" in wish(home, "a").detail
        server.forget()
        await home.up("a", "b")


async def test_without_fail_closed(home: House, server: RudeHttp, authority: Authority) -> None:
    """A server of the fleet that is down stops nobody, and status says that it is."""
    server.on("GET", empty(503), times=None)
    await ask(home, authority, server)
    async with refreshing(home, every=0.05, again=0.05):
        await home.until(lambda: "status 503" in kept(home.places).error)
        await home.up("a", "b")
        await home.until(lambda: any("not fetched yet" in w for w in home.workspaces.loaded[""].warnings()))


async def test_a_copy_that_somebody_changed_is_fetched_whole(
    home: House, server: RudeHttp, fleet: Fleet, authority: Authority
) -> None:
    """The server's word that nothing is new vouches only for what this daemon wrote itself."""
    fleet.document = DENY_B
    await ask(home, authority, server)
    remote = home.workspaces.remote
    assert remote is not None
    refresher = RemoteSettingsRefresher(home.workspaces, home.places, home.log)
    assert await refresher.refresh(remote) == ""
    good = kept(home.places)
    fetched_settings_file(home.places.fetched_settings).change(lambda copy: Copy(copy.url, "{}", copy.etag, 1))
    assert await refresher.refresh(remote) == ""
    assert kept(home.places).document == good.document
    assert await refresher.refresh(remote) == ""
    assert [request.header("If-None-Match") for request in server.requests] == [None, None, good.etag]


async def test_who_vouches_for_the_server(home: House, server: RudeHttp, authority: Authority) -> None:
    """C131: a user's own variables make no server trusted, and neither does a file that others can write."""
    await ask(home, authority, server)
    remote = home.workspaces.remote
    assert remote is not None
    refresher = RemoteSettingsRefresher(home.workspaces, home.places, home.log)
    os.chmod(remote.ca_file, 0o666)
    assert "others can write to it" in await refresher.refresh(remote)
    os.unlink(remote.ca_file)
    assert f"there is no {remote.ca_file}" in await refresher.refresh(remote)
    put(Path(home.places.config_dir, "environment"), f"SSL_CERT_FILE={authority.path}\n")
    await ask(home, authority, server, caFile="")
    assert home.workspaces.environment()["SSL_CERT_FILE"] == str(authority.path)
    remote = home.workspaces.remote
    assert remote is not None
    assert "certificate" in await refresher.refresh(remote)
    assert server.requests == []

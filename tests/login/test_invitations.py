"""mcphub's own page for signing in: who may open it, in which browser, and what it says."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
import pytest

from mcphub.auth.challenge import Challenge
from mcphub.auth.credential import Credential
from mcphub.login import invitations as module
from mcphub.login.invitations import Invitations
from mcphub.login.logins import Logins
from mcphub.spec import OAuthSpec
from tests.auth import homes
from tests.fakes.hub import eventually
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_as import Guarded, RudeAs
from tests.fakes.rude_http import RudeHttp
from tests.login.browser import Answer, get, raw

pytestmark = pytest.mark.anyio


class World:
    def __init__(self, invitations: Invitations, credential: Credential, server: RudeAs) -> None:
        self.invitations = invitations
        self.credential = credential
        self.server = server

    async def page(self, url: str, **headers: str) -> Answer:
        parts = urlsplit(url)
        assert parts.port is not None
        return await get(parts.port, parts.path, **headers)


@asynccontextmanager
async def world(tmp_path: Path, owner: int | None = None) -> AsyncIterator[World]:
    async with RudeAs() as server, RudeHttp(Guarded(server, OrdinaryMcp()), "/mcp") as mcp:
        server.protects(mcp.url)
        async with homes.hub(tmp_path, homes.Clock()) as hub, anyio.create_task_group() as tasks:
            logins = Logins(hub.credentials, lambda: "", lambda: None)
            started = anyio.Event()
            tasks.start_soon(logins.run, started)
            await started.wait()
            invitations = Invitations(logins, lambda level, text: None, owner)
            tasks.start_soon(invitations.run)
            credential = hub.of(homes.server(mcp.url, OAuthSpec(), "far & away"))
            await anyio.lowlevel.checkpoint()
            yield World(invitations, credential, server)
            tasks.cancel_scope.cancel()


async def test_from_the_page_to_the_tokens(tmp_path: Path) -> None:
    """One page for a server until it is opened; it says which server and which host, and leads on in the browser that
    opened it first, and in no other. Whoever wants to know is told by which page somebody has signed in."""
    done: list[str] = []
    async with world(tmp_path) as w:
        w.invitations.done = done.append
        assert w.invitations.page_for(w.credential) == ""
        await w.credential.refused(0, Challenge())
        url = w.invitations.page_for(w.credential)
        assert w.invitations.page_for(w.credential) == url
        assert (await w.page(url + "/go")).status == 404
        assert (await w.page(url + "x")).status == 404
        assert (await w.page(url, Sec_Fetch_Dest="iframe")).status == 404
        assert not w.server.asked("register")

        first = await w.page(url)
        assert first.status == 200
        assert "far &amp; away" in first.page and f"127.0.0.1:{w.server.port}" in first.page
        assert "/authorize" not in first.page
        cookie = first.headers["Set-Cookie"]
        assert "HttpOnly; SameSite=Strict" in cookie and f"Path={urlsplit(url).path};" in cookie
        mine = cookie.partition(";")[0]
        other = w.invitations.page_for(w.credential)
        assert other != url and other != ""
        for headers in ({}, {"Cookie": "mcphub-sign-in=x"}, {"Cookie": "\x01;;="}):
            assert (await w.page(url, **headers)).status == 404
            assert (await w.page(url + "/go", **headers)).status == 404

        assert (await w.page(url, Cookie=mine)).page == first.page
        onward = await w.page(url + "/go", Cookie=mine)
        assert onward.status == 303 and onward.headers["Location"].startswith(f"{w.server.origin}/authorize?")
        parts = urlsplit(onward.headers["Location"])
        assert parts.port is not None
        back = urlsplit(await get_location(parts.port, f"{parts.path}?{parts.query}"))
        assert back.port is not None
        assert (await get(back.port, f"{back.path}?{back.query}")).status == 200
        await eventually(lambda: w.credential.need is None, timeout=10)
        assert w.credential.tokens is not None
        await eventually(lambda: done == [url.rpartition("/")[2]], timeout=10)
        assert "is signed in to" in (await w.page(url, Cookie=mine)).page
        assert w.invitations.page_for(w.credential) == ""


async def get_location(port: int, path: str) -> str:
    asked = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
    head = (await raw(port, asked.encode())).decode()
    return next(line.partition(": ")[2] for line in head.split("\r\n") if line.lower().startswith("location"))


async def test_another_user(tmp_path: Path) -> None:
    """A process of somebody else's is shown nothing, whatever path it knows, and nothing begins."""
    async with world(tmp_path, os.geteuid() + 1) as w:
        await w.credential.refused(0, Challenge())
        answer = await w.page(w.invitations.page_for(w.credential))
        assert answer.status == 403 and "far" not in answer.page
        assert not w.server.asked("register")


async def test_what_cannot_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why stands on the page, as text; a page that is too old is over, and nothing listens then."""
    async with world(tmp_path) as w:
        w.server.document = {"registration_endpoint": None, "code_challenge_methods_supported": ["<i>plain"]}
        await w.credential.refused(0, Challenge())
        url = w.invitations.page_for(w.credential)
        answer = await w.page(url)
        assert answer.status == 200 and "could not begin" in answer.page and "<i>" not in answer.page
    monkeypatch.setattr(module, "LIFE", 0.2)
    async with world(tmp_path / "again") as w:
        await w.credential.refused(0, Challenge())
        url = w.invitations.page_for(w.credential)
        with anyio.fail_after(10), pytest.raises(OSError):
            while True:
                await w.page(url)
        assert w.invitations.page_for(w.credential) != url

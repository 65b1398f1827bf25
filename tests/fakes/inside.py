"""Owns a whole daemon inside the test's own process, for tests that change a limit of it first.

It must not stand in for a part: everything is built as `mcphub serve` builds it, and its sockets and servers are real.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mcphub import daemon
from mcphub.config.places import places
from mcphub.transport.process import Launcher
from tests.fakes.http_agent import HttpAgent
from tests.fakes.hub import Hub, Place, Servers


class Inside(Hub):
    """A hub without a process."""

    async def url(self, **query: str) -> str:
        """The loopback URL with its token."""
        code, report = await self.control("GET", "/v1/url", query=query)
        assert code == 200, report
        found: str = report["url"]
        return found

    async def http_agent(self, **query: str) -> HttpAgent:
        return HttpAgent(await self.url(**query))


#: Agents are served over HTTP; and nobody waits for calls when the daemon stops.
HTTP = '[http]\nlisten = "127.0.0.1:0"\n'
HTTP_WITHOUT_DRAIN = f"{HTTP}[stop]\ndrain = 0\n"


@asynccontextmanager
async def inside(
    monkeypatch: pytest.MonkeyPatch, servers: Servers, settings: str = HTTP
) -> AsyncIterator[Inside]:
    place = Place()
    try:
        for name, value in place.environment().items():
            monkeypatch.setenv(name, value)
        place.configure(servers)
        (place.config / "settings.toml").write_text(settings, "utf-8")
        async with (
            Launcher() as launcher,
            daemon._serving(places(), {}, launcher, daemon._End({}, False), lambda values: None),
        ):
            yield Inside(place, None)
    finally:
        place.remove()

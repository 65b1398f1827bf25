"""Many servers at once, one of which never answers: the others are there, and those that wait say that they do."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import anyio
import anyio.abc
import pytest

from tests.fakes.agent import text
from tests.fakes.hub import Fake, Place, row, running
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import RudeHttp

pytestmark = pytest.mark.anyio

#: A server that answers nothing of the handshake.
HANGS: dict[str, Any] = {"on": {"server/discover": [], "initialize": []}}


async def test_twelve_programs_and_forty_remote_servers(place: Place) -> None:
    """C184: one of the programs hangs for ever, two are slow, three remote ones take connections and never answer;
    everybody else is connected at the pace of the limiter, and is used."""
    programs = {f"p{n}": Fake({"before": [{"pause": 1}]} if n < 2 else {}) for n in range(11)}
    async with AsyncExitStack() as stack:
        far = await stack.enter_async_context(RudeHttp(OrdinaryMcp()))
        hole = await stack.enter_async_context(await anyio.create_tcp_listener(local_host="127.0.0.1"))
        nowhere = f"http://127.0.0.1:{hole.extra(anyio.abc.SocketAttribute.local_port)}/mcp"
        lost = {f"x{n}": {"type": "http", "url": nowhere} for n in range(3)}
        remote = {f"r{n}": {"type": "http", "url": f"{far.url}?{n}"} for n in range(37)}
        begun = anyio.current_time()
        servers = {"hung": Fake(HANGS), **lost, **programs, **remote}
        hub = await stack.enter_async_context(running(servers, place=place))
        report = await hub.until_state(*programs, *remote)
        assert anyio.current_time() - begun < 15
        for name in ("hung", *lost):
            assert row(report, name)["state"] == "pending" and row(report, name)["reason"].startswith("starting")
        async with await hub.agent() as agent:
            await agent.initialize()
            for name in ("p0", "p10", "r36"):
                assert text(await agent.call(f"mcp__{name}__echo", {"text": name})) == name


async def test_those_that_wait_for_their_turn(place: Place) -> None:
    """C184: three that hang hold all places for programs: who was never begun is not called starting, but says how many
    are before it, to `why` too; a server at a URL does not wait for them."""
    hung = {f"h{n}": Fake(HANGS) for n in range(3)}
    async with RudeHttp(OrdinaryMcp()) as far:
        servers: dict[str, Any] = {**hung, "i": Fake(), "j": Fake(), "far": {"type": "http", "url": far.url}}
        async with running(servers, place=place) as hub:
            await hub.until_state("far")
            report = await hub.until(lambda r: all(row(r, name)["reason"].startswith("waits") for name in "ij"))
            waiting = sorted(row(report, name)["reason"] for name in "ij")
            assert waiting == [f"waits for its turn: 3 start now, and {n} wait before it" for n in (0, 1)]
            assert place.starts("i") == place.starts("j") == []
            status, why = await hub.control("GET", "/v1/why/i")
            assert status == 200 and "waits for its turn" in why["answer"]

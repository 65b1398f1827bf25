"""The subscription to changes: who is asked, and how often again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphub.connection.client import Client
from mcphub.connection.handshake import Facts
from mcphub.connection.listening import Listening
from mcphub.connection.machine import Connected
from mcphub.protocol.versions import Era
from mcphub.transport.link import Surroundings
from tests.connection.workers import (
    Bench,
    eventually,
    fake,
    methods,
    outcome,
    remote,
    start_call,
    working,
)
from tests.fakes.channel import Heard, KeptChannel
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import RudeHttp, empty

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


async def test_a_subscription_that_ends_at_once(around: Surroundings, log: Path) -> None:
    """It is asked for again less and less often."""
    script = {"era": "modern", "on": {"subscriptions/listen": [{"answer": {}}]}}
    async with working(Bench(fake(script, log=log), around)) as bench:
        began = anyio.current_time()
        await bench.connected()
        await eventually(lambda: methods(log).count("subscriptions/listen") == 4)
        assert anyio.current_time() - began > 0.1 + 0.2 + 0.4
        assert methods(log).count("tools/list") <= 5
        assert isinstance(bench.worker.state, Connected)


async def test_a_subscription_that_ends_is_taken_up_again(around: Surroundings, log: Path) -> None:
    """What was missed meanwhile is found by a new list."""
    script = {
        "era": "modern",
        "on": {"subscriptions/listen": [[{"tools": ["new"], "quiet": 1}, {"answer": {}}], [{"default": 1}]]},
    }
    async with working(Bench(fake(script, log=log), around)) as bench:
        await bench.connected()
        await bench.until(lambda w: len(w.tools) == 1 and b'"new"' in w.tools[0], timeout=2)
        assert methods(log).count("subscriptions/listen") == 2


async def test_a_subscription_that_is_refused(around: Surroundings, log: Path) -> None:
    """It is not asked for again."""
    no = {"error": {"code": -32601, "message": "no"}}
    async with working(Bench(fake({"era": "modern", "on": {"subscriptions/listen": [no]}}, log=log), around)) as bench:
        await bench.connected()
        await eventually(lambda: "subscriptions/listen" in methods(log))
        assert bench.worker.client is not None
        await bench.worker.client.request("tools/list", timeout=5)  # behind the refusal
        assert bench.worker._listening.at == float("inf")
        assert methods(log).count("subscriptions/listen") == 1


async def test_a_broken_listen(around: Surroundings) -> None:
    """A modern server whose stream of news breaks is asked for it again, and listed: news may have been lost."""
    mcp = OrdinaryMcp(era="modern")
    async with RudeHttp(mcp) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        await server.until(lambda: len(mcp.feeds) == 1)
        mcp.feeds[0].end()
        await server.until(lambda: len(mcp.feeds) == 2)
        await server.until(lambda: len(server.sent("tools/list")) == 2)
        assert bench.states == ["Pending", "Connected"]


async def test_a_listen_that_is_refused(around: Surroundings) -> None:
    """A server that does not want to be listened to is not asked again."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server:
        server.on("subscriptions/listen", empty(404), times=None)
        async with working(Bench(remote(server.url), around)) as bench:
            await bench.connected()
            await server.until(lambda: server.sent("subscriptions/listen"))
            for _ in range(3):
                assert await outcome(start_call(bench)) == ["answered"]
            assert len(server.sent("subscriptions/listen")) == 1


# --- by itself --------------------------------------------------------------------------------------------------------


def facts(era: Era = "modern", **capabilities: Any) -> Facts:
    return Facts(era, "", {}, capabilities, "")


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        (facts(tools={"listChanged": True}), {"toolsListChanged": True}),
        (
            facts(tools={}, prompts={"listChanged": True}, resources={"listChanged": True, "subscribe": True}),
            {"promptsListChanged": True, "resourcesListChanged": True},
        ),
        (facts(tools={"listChanged": False}, prompts=None, resources=5), None),
        (facts("legacy", tools={"listChanged": True}), None),
    ],
)
async def test_what_is_asked_for(said: Facts, asked: dict[str, bool] | None) -> None:
    """Of a modern server, what it offers to tell; of others nothing."""
    client, wire = Client(Heard()), KeptChannel()
    client.use(wire)
    Listening(lambda: None).ask(client, said, 0.0)
    assert [frame["params"]["notifications"] for frame in wire.sent] == ([asked] if asked is not None else [])


async def test_when_it_is_asked_for_again() -> None:
    """After a pause that doubles to a bound, and is the first one again after a subscription that has lasted."""
    client, wire = Client(Heard()), KeptChannel()
    client.use(wire)
    told: list[int] = []
    listening = Listening(lambda: told.append(1))
    now, pauses = 0.0, []
    for lasted in [*[0.0] * 12, 61.0, 0.0]:
        listening.ask(client, facts(tools={"listChanged": True}), now)
        assert not listening.due(now) and listening.at == float("inf")
        now += lasted
        client.frame(memoryview(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % wire.sent[-1]["id"]))
        assert not listening.due(now)
        pauses.append(round(listening.at - now, 3))
        now = listening.at
        assert listening.due(now) and not listening.due(now)
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert pauses[-4:] == [60.0, 60.0, 0.05, 0.1]
    assert len(told) == len(pauses)
    listening.ask(client, facts(tools={"listChanged": True}), now)
    client.frame(memoryview(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % wire.sent[-1]["id"]))
    listening.reset()
    assert not listening.due(now + 1000), "that was another connection"


async def test_many_that_end_together_are_not_asked_for_together() -> None:
    """Chance adds up to a second to the pause."""
    client, wire = Client(Heard()), KeptChannel()
    client.use(wire)
    for jitter, at in ((0.0, 0.1), (0.5, 0.6), (1.0, 1.1)):
        listening = Listening(lambda: None)
        listening.ask(client, facts(tools={"listChanged": True}), 0.0)
        client.frame(memoryview(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % wire.sent[-1]["id"]))
        assert not listening.due(0.0, jitter)
        assert listening.at == pytest.approx(at)

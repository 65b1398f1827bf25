"""Calls that are carried over a session that was lost."""

from __future__ import annotations

import pytest

from mcphub.connection.carried import Carried
from mcphub.connection.client import Client
from mcphub.connection.machine import Connected
from mcphub.protocol.versions import Era
from mcphub.transport.link import Surroundings
from tests.connection.workers import (
    Bench,
    Call,
    outcome,
    remote,
    start_call,
    working,
)
from tests.fakes.channel import Heard, KeptChannel
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import RudeHttp, empty

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


async def test_a_session_that_expired(around: Surroundings) -> None:
    """C065: five calls at once are refused for it: one handshake without the old id, one list, and each call is sent
    again once under the new session; nobody but the agent's deadline knows."""
    mcp = OrdinaryMcp(era="legacy")
    async with RudeHttp(mcp) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        mcp.expire()
        calls = [start_call(bench) for _ in range(5)]
        assert [await outcome(call) for call in calls] == [["moved", "answered"]] * 5
        again = server.sent("initialize")[1:]
        assert len(again) == 1
        assert again[0].header("Mcp-Session-Id") is None
        assert len(server.sent("tools/list")) == 2
        sent = server.sent("tools/call")
        assert [request.header("Mcp-Session-Id") for request in sent] == ["session-1"] * 5 + ["session-2"] * 5
        assert bench.states == ["Pending", "Connected", "Pending", "Connected"]
        assert await outcome(start_call(bench)) == ["answered"]


async def test_a_session_that_expires_again(around: Surroundings) -> None:
    """C065: a call that is refused for it a second time is told, and the third session is not begun at once."""
    mcp = OrdinaryMcp(era="legacy")
    async with RudeHttp(mcp) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        server.on("tools/call", empty(404), times=None)
        call = start_call(bench)
        assert await outcome(call) == ["moved", "session_over"]
        await bench.until(lambda w: isinstance(w.state, Connected) and len(server.sent("initialize")) == 3)
        assert len(server.sent("tools/call")) == 2


async def test_a_session_that_cannot_be_had_again(around: Surroundings) -> None:
    """C091: a call that waits for the next session ends when there is none."""
    mcp = OrdinaryMcp(era="legacy")
    async with RudeHttp(mcp) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        mcp.expire()
        server.on("server/discover", empty(401), times=None)
        server.on("initialize", empty(401), times=None)
        assert await outcome(start_call(bench)) == ["session_over"]


async def test_a_call_that_is_withdrawn_between_two_sessions(around: Surroundings) -> None:
    """C065: what nobody wants any more is not sent again."""
    mcp = OrdinaryMcp(era="legacy")
    async with RudeHttp(mcp) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        mcp.expire()
        server.on("initialize", lambda r: mcp(r).after(0.3))
        old = bench.worker.client
        call = start_call(bench)
        await server.until(lambda: len(server.sent("initialize")) == 2)
        assert old is not None
        assert old.withdraw(old.next_id() - 1, "x")
        await bench.connected()
        assert await outcome(start_call(bench)) == ["answered"]
        assert call.told == []
        assert len(server.sent("tools/call")) == 2


# --- by itself --------------------------------------------------------------------------------------------------------


def channel(era: Era = "legacy") -> tuple[Client, KeptChannel]:
    client, wire = Client(Heard()), KeptChannel()
    client.use(wire)
    client.era = era
    return client, wire


def given_back(client: Client, *, session: bool = True) -> Call:
    """A call whose session was over, or that is in flight."""
    call = Call()
    mid = client.call_tool(call, b'"t"', b"{}", b"")
    if session:
        client.unanswered(mid, "session", "over")
    return call


async def test_what_is_sent_on() -> None:
    """Under the ids they had, before any other request; a call without its frame, or of another era, is refused."""
    old, _ = channel()
    calls = [given_back(old) for _ in range(3)]
    carried = Carried()
    carried.keep(old, {1: b'{"id":1}\n', 3: b'{"id":3}\n'})
    assert id(carried.of) == id(old)
    new, wire = channel()
    carried.continue_in(new)
    assert new.next_id() == 4
    carried.retire(old)
    assert [call.told for call in calls] == [[], [], []], "they are kept"
    carried.send_on(new)
    assert wire.frames == [b'{"id":1}\n', b'{"id":3}\n']
    assert [call.told for call in calls] == [["moved"], ["session_over"], ["moved"]]
    carried.send_on(new)
    carried.give_up()
    assert carried.of is None and len(wire.frames) == 2
    modern, wire = channel("modern")
    call = given_back(old)
    carried.keep(old, {4: b'{"id":4}\n'})
    carried.send_on(modern)
    assert (call.told, wire.frames) == (["session_over"], [])


async def test_what_is_not_kept() -> None:
    """Each call that was given back ends once; calls in flight are the connection's own business."""
    old, _ = channel()
    running, over = given_back(old, session=False), given_back(old)
    carried = Carried()
    carried.retire(old)
    assert (running.told, over.told) == ([], ["session_over"])
    carried.keep(old, {})
    assert carried.of is None
    call = given_back(old)
    carried.keep(old, {})
    for _ in range(2):
        carried.give_up()
    assert call.told == ["session_over"]
    new, _ = channel()
    carried.continue_in(new)
    assert new.next_id() == 1

"""What is kept of a stream whose connection broke, for whom and how long; and that a real client comes back for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from mcphub.protocol import jsonrpc
from mcphub.sessions import http_answer, http_replay
from mcphub.sessions.http_replay import Shelf, Track, data_of, number_in
from tests.fakes.http_agent import HttpAgent, Reply, encoded
from tests.fakes.hub import Fake, eventually
from tests.fakes.inside import Inside, inside

pytestmark = pytest.mark.anyio

DO = "mcp__a__do"
NOTE = jsonrpc.notification_frame("notifications/progress", b'{"progress":1}')
RESULT = jsonrpc.result_frame(b"1", b'{"a":1}')


def nothing() -> None:
    """Where nobody wants to know."""


@pytest.mark.parametrize(
    ("event_id", "found"),
    [
        ("ab-1-0", ("ab-1", 0)),
        ("ab-1-17", ("ab-1", 17)),
        ("", None),
        ("17", None),
        ("-17", None),
        ("ab-1-", None),
        ("ab-1-x", None),
        ("ab-1-\u0661", None),
        ("ab-1-\u00b2", None),
        ("ab-1-" + "9" * 13, None),
    ],
)
def test_ids(event_id: str, found: tuple[str, int] | None) -> None:
    """Whatever a client sends is one of ours or none."""
    assert number_in(event_id) == found


async def test_a_track() -> None:
    """Events are numbered, said again as they were, and their beginning is said to who knows such events."""
    shelf = Shelf()
    track = shelf.begin("t-1", True, nothing)
    said = track.say([NOTE, RESULT])
    assert said == b"event: message\nid: t-1-1\n" + data_of(NOTE) + b"event: message\nid: t-1-2\n" + data_of(RESULT)
    assert (track.again(0), track.again(2)) == (said, b"")
    assert track.again(1) == said[said.index(b"event: message\nid: t-1-2") :]
    assert track.prime() == b"id: t-1-0\nretry: 1000\ndata: \n\n"
    assert shelf.begin("t-2", False, nothing).prime() == b""
    assert (shelf.size, len(shelf)) == (len(NOTE) + len(RESULT), 2)
    shelf.close()
    assert (shelf.size, len(shelf), track.again(0)) == (0, 0, b"")
    assert b"id: t-1-3\n" in track.say([NOTE])
    assert shelf.size == 0


async def test_old_notifications_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that reports for hours stays small; what must be answered, and answers, are kept."""
    monkeypatch.setattr(http_replay, "MAX_NOTES", 3)
    shelf = Shelf()
    track = shelf.begin("t-1", True, nothing)
    asked = jsonrpc.request_frame(5, "elicitation/create")
    track.say([asked, *[NOTE] * 10, RESULT])
    assert [line for line in track.again(0).split(b"\n") if line.startswith(b"id")] == [
        b"id: t-1-%d" % number for number in (1, 9, 10, 11, 12)
    ]
    assert shelf.size == track.size == len(asked) + 3 * len(NOTE) + len(RESULT)
    monkeypatch.setattr(http_replay, "MAX_NOTE_BYTES", len(NOTE))
    track.put(NOTE)
    assert shelf.size == len(asked) + len(NOTE) + len(RESULT)
    track.forget()
    assert shelf.size == 0


async def test_the_shelf_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bytes and in streams: the one that ended first goes, then the oldest; a huge message drives nobody out."""
    monkeypatch.setattr(http_replay, "MAX_BYTES", 3 * len(RESULT))
    monkeypatch.setattr(http_replay, "MAX_STREAMS", 4)
    shelf = Shelf()
    gone: list[int] = []

    def begin(number: int) -> Track:
        return shelf.begin(f"t-{number}", True, lambda: gone.append(number))

    tracks = [begin(number) for number in range(3)]
    for track in tracks:
        track.put(RESULT)
    tracks[1].ended()
    tracks[1].ended()
    begin(3).put(RESULT)
    assert (gone, shelf.size) == ([1], 3 * len(RESULT))
    begin(4)
    assert gone == [1]
    begin(5)
    assert (gone, len(shelf)) == ([1, 0], 4)
    monkeypatch.setattr(http_replay, "MAX_MESSAGE", len(RESULT) - 1)
    tracks[2].put(RESULT)
    assert (gone, shelf.size) == ([1, 0, 2], len(RESULT))
    tracks[2].forget()
    assert gone == [1, 0, 2]


async def test_what_has_ended_is_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each its own time; what has not ended stays."""
    monkeypatch.setattr(http_replay, "KEPT_FOR", 0.02)
    shelf = Shelf()
    first, second, third = (shelf.begin(f"t-{number}", True, nothing) for number in range(3))
    first.ended()
    await eventually(lambda: not first.kept, timeout=5)
    second.ended()
    await eventually(lambda: not second.kept, timeout=5)
    assert third.kept and len(shelf) == 1


# -- over sockets


@asynccontextmanager
async def attached(
    monkeypatch: pytest.MonkeyPatch, version: str = "2025-11-25"
) -> AsyncIterator[tuple[Inside, HttpAgent]]:
    """A hub that soon makes streams, and an agent that can be asked, with a session of this version."""
    monkeypatch.setattr(http_replay, "OPENS_AFTER", 0.02)
    async with inside(monkeypatch, {"a": Fake()}) as hub:
        await hub.until_state("a")
        agent = await hub.http_agent()
        able = {"protocolVersion": version, "capabilities": {"elicitation": {}}, "clientInfo": {"name": "a"}}
        agent.session = (await agent.ask("POST", {}, encoded("initialize", able, 0))).headers["mcp-session-id"]
        agent.version = version
        yield hub, agent


def calling(*actions: dict[str, Any], id: int = 1) -> bytes:
    call = {"name": DO, "arguments": {"actions": [*actions, {"text": "done"}]}, "_meta": {"progressToken": "p"}}
    return encoded("tools/call", call, id)


async def after(agent: HttpAgent, event_id: str) -> Reply:
    return await agent.ask("GET", {**agent.legacy_headers, "Last-Event-ID": event_id})


def numbers(reply: Reply) -> list[int]:
    return [int(one.rpartition("-")[2]) for one in reply.ids]


async def test_a_connection_that_breaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """B70: a call whose connection breaks runs on; whoever comes back with the id that it saw last gets what came
    after it, each message once, and then the rest as it comes. Other ids, and other sessions, get nothing of it."""
    gates = [tmp_path / "one", tmp_path / "two"]
    actions: list[dict[str, Any]] = [{"progress": 1}, {"wait": str(gates[0])}, {"progress": 2}, {"wait": str(gates[1])}]
    async with attached(monkeypatch) as (hub, agent):
        with anyio.fail_after(30):
            async with agent.open("POST", agent.legacy_headers, calling(*actions)) as exchange:
                first = await exchange.event()
                assert first is not None and first["params"]["progress"] == 1
                assert (exchange.reply.retry, numbers(exchange.reply)) == (1000, [0, 1])
                begun, seen = exchange.reply.ids
            gates[0].touch()
            async with agent.open("GET", {**agent.legacy_headers, "Last-Event-ID": seen}) as again:
                assert await again.primed() == seen
                second = await again.event()
                assert second is not None and second["params"]["progress"] == 2
                for wrong in (f"{begun}9", "x", begun.replace("-1-", "-2-"), seen[:-1] + "9"):
                    assert (await after(agent, wrong)).status == 400
                other = await hub.http_agent()
                await other.initialize()
                assert (await after(other, seen)).status == 400
                gates[1].touch()
                reply = await again.whole()
            assert reply.messages[-1]["result"]["content"][0]["text"] == "done"
            assert numbers(reply) == [1, 2, 3]
            late = await after(agent, begun)
            assert [m.get("params", {}).get("progress") for m in late.messages] == [1, 2, None]
            assert (await after(agent, reply.ids[-1])).messages == []
            assert (await agent.ask("DELETE", agent.legacy_headers)).status == 204
            assert (await after(agent, begun)).status == 404


async def test_nobody_is_there_when_it_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A silent call can be taken up again too, after its answer; what an agent has not asked for in time is dropped."""
    async with attached(monkeypatch) as (hub, agent):
        with anyio.fail_after(30):
            waiting = calling({"wait": str(tmp_path / "go")}, {"touch": str(tmp_path / "done")})
            async with agent.open("POST", agent.legacy_headers, waiting) as exchange:
                begun = await exchange.primed()
            (tmp_path / "go").touch()
            await eventually((tmp_path / "done").exists, timeout=10)
            await at_rest(hub)
            for _ in range(2):
                reply = await after(agent, begun)
                assert reply.document["result"]["content"][0]["text"] == "done"
            monkeypatch.setattr(http_replay, "MAX_BYTES", 0)
            waiting = calling({"wait": str(tmp_path / "on")}, id=2)
            async with agent.open("POST", agent.legacy_headers, waiting) as exchange:
                begun = await exchange.primed()
            (tmp_path / "on").touch()
            await at_rest(hub)
            assert (await after(agent, begun)).status == 400


async def at_rest(hub: Inside) -> None:
    """Wait until no call is in flight."""
    with anyio.fail_after(10):
        while any(s["calls_in_flight"] for s in (await hub.status())["sessions"]):
            pass


async def test_the_newest_connection_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the one before is not known to be dead it ends in order, and nothing is said on both."""
    monkeypatch.setattr(http_answer, "KEEP_ALIVE", 0.02)
    async with attached(monkeypatch) as (_, agent):
        with anyio.fail_after(30):
            waiting = calling({"wait": str(tmp_path / "go")})
            async with agent.open("POST", agent.legacy_headers, waiting) as old:
                begun = await old.primed()
                async with agent.open("GET", {**agent.legacy_headers, "Last-Event-ID": begun}) as new:
                    assert await new.primed() == begun
                    assert await old.event() is None
                    assert await new.comment()
                    (tmp_path / "go").touch()
                    assert (await new.whole()).document["result"]["content"][0]["text"] == "done"


async def test_a_cancelled_call_is_not_taken_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whether its agent is there, or away."""
    async with attached(monkeypatch) as (hub, agent):
        with anyio.fail_after(30):
            for there in (True, False):
                never = calling({"wait": str(tmp_path / "never")})
                async with agent.open("POST", agent.legacy_headers, never) as exchange:
                    begun = await exchange.primed()
                    if there:
                        assert (await agent.notify("notifications/cancelled", {"requestId": 1})).status == 202
                        assert await exchange.event() is None
                if not there:
                    assert (await agent.notify("notifications/cancelled", {"requestId": 1})).status == 202
                assert (await after(agent, begun)).status == 400
            await at_rest(hub)


async def test_a_question_waits_for_its_agent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is asked while nobody is there is asked when somebody comes back, and its answer reaches the call."""
    form = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
    actions: list[dict[str, Any]] = [{"wait": str(tmp_path / "go")}, {"ask": "elicitation/create", "params": form}]
    async with attached(monkeypatch) as (hub, agent):
        with anyio.fail_after(30):
            async with agent.open("POST", agent.legacy_headers, calling(*actions)) as exchange:
                begun = await exchange.primed()
            (tmp_path / "go").touch()
            async with agent.open("GET", {**agent.legacy_headers, "Last-Event-ID": begun}) as again:
                question = await again.event()
                assert question is not None and question["method"] == "elicitation/create"
                answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
                assert (await agent.ask("POST", agent.legacy_headers, json.dumps(answer).encode())).status == 202
                reply = await again.whole()
            assert reply.messages[-1]["result"]["content"][0]["text"] == "done"
            await at_rest(hub)


async def test_older_clients(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before 2025-11-25 no event is without data, so that silence makes no stream; messages have ids all the same."""
    async with attached(monkeypatch, "2025-06-18") as (_, agent):
        with anyio.fail_after(30):
            actions: list[dict[str, Any]] = [{"progress": 1}, {"wait": str(tmp_path / "go")}]
            async with agent.open("POST", agent.legacy_headers, calling(*actions)) as exchange:
                await exchange.event()
                assert (exchange.reply.retry, numbers(exchange.reply)) == (-1, [1])
            (tmp_path / "go").touch()
            reply = await after(agent, exchange.reply.ids[0])
            assert (reply.retry, numbers(reply)) == (-1, [2])
            assert reply.document["result"]["content"][0]["text"] == "done"
            slow = await agent.ask("POST", agent.legacy_headers, calling({"pause": 0.1}, id=2))
            assert slow.headers["content-type"] == "application/json"


# -- a real client


class Cutter:
    """A relay in front of a hub that cuts a connection, once, when the hub has said something."""

    def __init__(self, host: str, port: int) -> None:
        self.word = b""
        self.cuts = 0
        self._target = host, port

    async def carry(self, near: SocketStream) -> None:
        async with near, await anyio.connect_tcp(*self._target) as far, anyio.create_task_group() as both:
            both.start_soon(self._copy, near, far, both.cancel_scope, False)
            both.start_soon(self._copy, far, near, both.cancel_scope, True)

    async def _copy(self, source: SocketStream, to: SocketStream, end: anyio.CancelScope, cuts: bool) -> None:
        try:
            async for data in source:
                await to.send(data)
                if cuts and self.word and self.word in data:
                    self.word = b""
                    self.cuts += 1
                    break
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        end.cancel()


async def test_the_official_client_comes_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The Python SDK's client, whose connection a proxy cuts in the middle of a call, gets its result, where
    nothing was said before and where progress was. The server has run each call once."""
    monkeypatch.setattr(http_replay, "RETRY", 20)
    async with attached(monkeypatch) as (hub, agent):
        found = urlsplit(agent.url)
        cutter = Cutter(found.hostname or "", found.port or 0)
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(SocketAttribute.local_port)
        with anyio.fail_after(30):
            async with listener, anyio.create_task_group() as tasks:
                tasks.start_soon(listener.serve, cutter.carry)
                async with (
                    streamable_http_client(f"http://127.0.0.1:{port}{found.path}") as (reading, writing),
                    ClientSession(reading, writing) as client,
                ):
                    assert (await client.initialize()).protocol_version == "2025-11-25"
                    for name, word in (("one", b"retry: "), ("two", b"notifications/progress")):
                        gate = tmp_path / name
                        actions: list[dict[str, Any]] = [{"wait": str(gate)}, {"progress": 2}, {"text": name}]
                        if name == "two":
                            actions.insert(0, {"progress": 1})
                        told: list[float] = []

                        async def note(
                            progress: float, total: float | None, message: str | None, told: list[float] = told
                        ) -> None:
                            told.append(progress)

                        async def open_gate(cuts: int, gate: Path) -> None:
                            await eventually(lambda: cutter.cuts == cuts, timeout=10)
                            await anyio.Path(gate).touch()

                        cutter.word = word
                        tasks.start_soon(open_gate, cutter.cuts + 1, gate)
                        result = await client.call_tool(DO, {"actions": actions}, progress_callback=note)
                        assert f"text='{name}'" in str(result.content)
                        assert told == ([2] if name == "one" else [1, 2])
                tasks.cancel_scope.cancel()
        assert cutter.cuts == 2
        assert sum(isinstance(m, dict) and m.get("method") == "tools/call" for m in hub.received("a")) == 2

"""What outlives a request: whether an agent is there, and a session as its requests see it."""

from __future__ import annotations

import asyncio
import json

import anyio
import pytest

from mcphub.protocol import jsonrpc
from mcphub.sessions.http_answer import Answer
from mcphub.sessions.http_replay import Shelf
from mcphub.sessions.http_session import Exchange, HttpSession, Presence
from mcphub.sessions.session import Session

pytestmark = pytest.mark.anyio

LOG = jsonrpc.notification_frame("notifications/message", b'{"level":"info","data":1}')
CHANGED = jsonrpc.notification_frame("notifications/tools/list_changed")


def session() -> Session:
    """Without a gateway: nothing here dispatches."""
    return Session(7, None, client="", workspace="", pid=None, since=0.0)  # type: ignore[arg-type]


async def test_an_agent_is_there_while_it_asks() -> None:
    """An open request keeps it, the time after the last one counts, an end from outside is an end at once."""
    presence = Presence()
    with anyio.fail_after(5):
        assert await presence.until_idle(0.01) == "idle"
        with presence:
            assert [presence.idle_since] == [None]
            with anyio.move_on_after(0.05):
                await presence.until_idle(0.01)
                pytest.fail("it is busy")
        assert presence.idle_since is not None
        assert await presence.until_idle(0.01) == "idle"
        presence.over.set()
        assert await presence.until_idle(100) == "over"


async def test_ids_are_random_and_visible() -> None:
    """Row 17: at least 128 bits, in characters that a header may hold."""
    ids = {HttpSession(session(), "p", "/mcp", Shelf()).id for _ in range(100)}
    assert len(ids) == 100
    assert all(len(one) >= 32 and all(0x21 <= ord(c) <= 0x7E for c in one) for one in ids)


async def test_an_exchange_shares_all_but_its_way_out() -> None:
    """What the gateway writes into one is seen by the session and by every other request of it."""
    agent = session()
    answer, other = Answer([b"1"]), Answer([b"2"])
    first, second = Exchange(agent, answer), Exchange(agent, other)
    first.version = "2025-06-18"
    assert [one.version for one in (agent, second)] == ["2025-06-18", "2025-06-18"]
    second.calls[b"2"] = None  # type: ignore[assignment]
    assert b"2" in agent.calls
    assert first.calls is agent.calls
    first.send(jsonrpc.result_frame(b"1", b"{}"))
    assert (answer.waiting, other.waiting) == ([], [b"2"])


async def test_an_exchange_is_its_session_to_a_table() -> None:
    """Tables of the gateway have agents as keys."""
    agent, stranger = session(), session()
    first, second = Exchange(agent, Answer([])), Exchange(agent, Answer([]))
    agents: dict[Session, int] = {agent: 1}
    assert agents[first] == agents[second] == 1
    agents = {first: 2}
    assert agents[agent] == agents[second] == 2
    assert first == agent
    assert first != stranger
    assert {(agent, b"1"), (first, b"1")} == {(second, b"1")}


async def test_where_words_without_a_request_go() -> None:
    """A log line goes beside the newest call that is running, changes to the stream, and without either a line is
    dropped."""
    one = HttpSession(session(), "p", "/mcp", Shelf())
    one.agent.send(LOG)
    first, second = Answer([b"1"]), Answer([b"2"])
    one.answers |= {first: None, second: None}
    one.agent.calls[b"1"] = None  # type: ignore[assignment]
    one.agent.send(CHANGED + LOG)
    await asyncio.sleep(0)
    written: list[bytes] = []

    async def send(message: object) -> None:
        written.append(json.dumps(message, default=bytes.decode).encode())

    second.send(jsonrpc.result_frame(b"2", b"{}"))
    await second.write(send, lambda code: 200)
    assert b"notifications/message" in b"".join(written)
    assert b"list_changed" not in b"".join(written)
    one.agent.calls.clear()
    written.clear()
    one.end()
    await one.stream.write(send)
    assert b"list_changed" in b"".join(written)
    assert b"notifications/message" not in b"".join(written)


async def test_the_end_of_a_session_is_the_end_of_its_answers() -> None:
    """Whoever waits is told; it may end twice."""
    one = HttpSession(session(), "p", "/mcp", Shelf())
    answer = Answer([b"1"])
    one.answers[answer] = None
    one.end()
    one.end()
    assert one.presence.over.is_set()
    assert answer.waiting == []

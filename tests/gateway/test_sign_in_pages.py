"""Which legacy agents are told that somebody has signed in by mcphub's own page."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest

from mcphub.channel import Receiver
from mcphub.connection.machine import NeedsAuth, Pending
from mcphub.connection.worker import Worker
from mcphub.errors import TransportError
from mcphub.gateway import sign_in_pages
from mcphub.gateway.call import Caller
from mcphub.gateway.sign_in_pages import SignInPages
from mcphub.sessions.http_replay import Shelf
from mcphub.sessions.http_session import Exchange, HttpSession
from mcphub.sessions.session import Session
from mcphub.spec import InstanceKey
from tests.gateway.bench import Bench, Server, call
from tests.gateway.shelves import Sent, Shelves

KEY = InstanceKey("far", "d")
PAGE = "http://127.0.0.1:9/sign-in/"


class Agent:
    def __init__(self) -> None:
        self.got: list[Any] = []

    def send(self, *parts: bytes) -> None:
        self.got.append(json.loads(b"".join(parts)))


class Row:
    """As much of a worker as is asked."""

    def __init__(self) -> None:
        self.state: object = NeedsAuth("wants a sign-in")


def made(server: Row) -> SignInPages:
    return SignInPages(cast("dict[InstanceKey, Worker]", {KEY: server}))


def give(pages: SignInPages, agent: Agent, page: str) -> None:
    pages.give(cast("Caller", agent), KEY, PAGE + page)


def test_told_once_the_server_is_there() -> None:
    """B45: `notifications/elicitation/complete` goes, once, to those that were sent to this page, with its id, when the
    server can be called again."""
    server, one, two, other = Row(), Agent(), Agent(), Agent()
    pages = made(server)
    give(pages, one, "a")
    give(pages, two, "a")
    give(pages, other, "b")
    pages.renew()
    pages.done("a")
    pages.done("unknown")
    server.state = Pending(0, 0.0)
    pages.renew()
    assert one.got == []
    server.state = object()
    for _ in range(2):
        pages.renew()
        pages.done("a")
    complete = {"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": "a"}}
    assert one.got == two.got == [complete] and other.got == []
    pages.done("b")
    assert other.got[0]["params"] == {"elicitationId": "b"}


def test_nobody_is_there_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that left is forgotten, and so is the oldest where there are too many; of a server that was removed it
    is told all the same."""
    monkeypatch.setattr(sign_in_pages, "MOST", 2)
    agent, gone, oldest = Agent(), Agent(), Agent()
    pages = SignInPages({})
    for one in (oldest, gone, agent):
        give(pages, one, "a")
    pages.left(gone)
    pages.done("a")
    assert (len(agent.got), gone.got, oldest.got) == (1, [], [])


class Guarded(Shelves):
    """It wants a sign-in until somebody has signed in."""

    signed_in = False

    @asynccontextmanager
    async def open(self, receiver: Receiver) -> AsyncIterator[Server]:
        if not self.signed_in:
            raise TransportError("wants a sign-in: mcphub login s", kind="needs_auth")
        async with super().open(receiver) as link:
            yield link


@pytest.mark.anyio
async def test_an_agent_over_http(shelves: Bench) -> None:
    """B45: over HTTP the request that led to the page has its answer long ago: the agent is told on its session's
    stream."""
    shelves.want(server := Guarded("s"))
    await shelves.until(lambda: isinstance(shelves.worker(server).state, NeedsAuth))
    shelves.gateway.page_for = lambda worker: PAGE + "p"
    session = Session(1, shelves.gateway, client="", workspace="", pid=None, since=0.0)
    http = HttpSession(session, "me", "/mcp", Shelf())
    shelves.gateway.join(session)
    able = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {"url": {}}}}
    answers = []
    for number, (method, params) in enumerate([("initialize", able), ("tools/call", call())]):
        answers.append(Sent())
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        Exchange(session, answers[-1]).frame(memoryview(json.dumps(message).encode()))
    [error] = answers[1].got
    assert b"-32042" in error and b'"elicitationId":"p"' in error
    told: list[bytes] = []
    http.stream.put = told.append  # type: ignore[method-assign, assignment]
    shelves.gateway.signed_in("p")
    assert told == []
    server.signed_in = True
    shelves.worker(server).signed_in()
    with anyio.fail_after(5):
        await shelves.until(lambda: told != [])
    assert json.loads(told[0])["params"] == {"elicitationId": "p"} and len(answers[1].got) == 1
    shelves.gateway.leave(session)

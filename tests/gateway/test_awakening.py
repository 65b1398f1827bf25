"""Requests that wait for a server which is started for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import anyio
import pytest
from msgspec.structs import replace

from mcphub.connection.worker import Worker
from mcphub.gateway import awakening
from mcphub.gateway.awakening import Awakening
from mcphub.spec import InProcessSpec, InstanceKey, Origin, Scope, ServerSpec

KEY = InstanceKey("s", "d")
OTHER = InstanceKey("t", "d")
SPEC = ServerSpec("s", Origin(Scope.USER, "/mcp.json", "s"), InProcessSpec("s"), call_timeout=60.0)

pytestmark = pytest.mark.anyio


class Sleeper:
    """As much of a worker as is asked: it says whether it is on its way."""

    def __init__(self, key: InstanceKey, *, sleeps: bool = True) -> None:
        self.key = key
        self.sleeps = sleeps
        self.waking = False
        self.woken = 0
        self.tried = 0
        self.spec = SPEC

    def wake_idle(self) -> None:
        self.woken += 1
        self.waking = self.sleeps

    def wake_failed(self) -> None:
        self.tried += 1


@pytest.fixture
def sleeper() -> Sleeper:
    return Sleeper(KEY)


@pytest.fixture
def other() -> Sleeper:
    return Sleeper(OTHER)


@pytest.fixture
def awake(sleeper: Sleeper, other: Sleeper) -> Iterator[Awakening]:
    workers = {KEY: sleeper, OTHER: other}
    yield Awakening(cast("dict[InstanceKey, Worker]", workers))


def hold(awake: Awakening, agent: object, mid: bytes, worker: Any, done: list[bytes]) -> bool:
    return awake.hold(agent, mid, worker, lambda: done.append(mid), lambda: done.append(b"late " + mid))


async def test_it_waits_for_its_own_server(awake: Awakening, sleeper: Sleeper, other: Sleeper) -> None:
    """Each is done again once, when its server is there, in the order in which they came."""
    done: list[bytes] = []
    assert hold(awake, "a", b"1", sleeper, done)
    assert hold(awake, "b", b"1", other, done)
    assert hold(awake, "a", b"2", sleeper, done)
    awake.renew()
    assert done == []
    sleeper.waking = False
    awake.renew()
    awake.renew()
    assert done == [b"1", b"2"]
    assert list(awake.held) == [("b", b"1")]


async def test_a_server_that_does_not_sleep(awake: Awakening) -> None:
    """Nothing is waited for: what is the matter is told at once."""
    done: list[bytes] = []
    assert not hold(awake, "a", b"1", Sleeper(KEY, sleeps=False), done)
    assert awake.held == {}


async def test_nobody_waits_any_more(awake: Awakening, sleeper: Sleeper) -> None:
    """A request that was cancelled, and those of an agent that left, are not done."""
    done: list[bytes] = []
    for agent, mid in (("a", b"1"), ("a", b"2"), ("b", b"1"), ("b", b"2")):
        hold(awake, agent, mid, sleeper, done)
    assert awake.cancel("a", b"1")
    assert not awake.cancel("a", b"1")
    awake.left("b")
    sleeper.waking = False
    awake.renew()
    assert done == [b"2"]


async def test_a_request_that_takes_another_along(awake: Awakening, sleeper: Sleeper) -> None:
    """What is done again may end others: they are not done after all."""
    done: list[bytes] = []
    awake.hold("a", b"1", cast("Worker", sleeper), lambda: awake.left("a"), lambda: None)
    hold(awake, "a", b"2", sleeper, done)
    sleeper.waking = False
    awake.renew()
    assert done == []


async def test_a_server_that_was_removed(sleeper: Sleeper) -> None:
    """The request is done again, and finds that out."""
    awake, done = Awakening({}), list[bytes]()
    hold(awake, "a", b"1", sleeper, done)
    awake.renew()
    assert done == [b"1"]


async def test_too_many(awake: Awakening, sleeper: Sleeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a limit to what is kept; the server is started all the same."""
    monkeypatch.setattr(awakening, "MAX_HELD", 1)
    assert hold(awake, "a", b"1", sleeper, [])
    assert not hold(awake, "a", b"2", sleeper, [])
    assert sleeper.woken == 2


async def test_one_deadline(awake: Awakening, sleeper: Sleeper) -> None:
    """B71: what waits too long is told so once, and not done; what is done says since when it waits, to the end."""
    done: list[bytes] = []
    sleeper.spec = replace(SPEC, call_timeout=0.01)
    hold(awake, "a", b"1", sleeper, done)
    with anyio.fail_after(5):
        while not done:  # noqa: ASYNC110
            await anyio.sleep(0.005)
    sleeper.waking = False
    awake.renew()
    assert done == [b"late 1"] and awake.held == {}
    sleeper.spec = SPEC
    since: list[float] = []

    def again() -> None:
        since.append(awake.since)
        if len(since) == 1:
            assert awake.hold("a", b"2", cast("Worker", sleeper), again, lambda: None)

    awake.hold("a", b"2", cast("Worker", sleeper), again, lambda: None)
    for _ in range(2):
        sleeper.waking = False
        awake.renew()
    assert since[0] == since[1] > 0 and awake.since == 0


async def test_a_server_that_failed(awake: Awakening, sleeper: Sleeper) -> None:
    """It is tried again for a request that finds it so, and for none that has waited for what failed just now."""
    awake.met_failed(cast("Worker", sleeper))
    assert sleeper.tried == 1
    awake.hold("a", b"1", cast("Worker", sleeper), lambda: awake.met_failed(cast("Worker", sleeper)), lambda: None)
    sleeper.waking = False
    awake.renew()
    assert sleeper.tried == 1 and awake.held == {}

"""Requests that wait for a server which is started for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from mcphub.connection.worker import Worker
from mcphub.gateway import awakening
from mcphub.gateway.awakening import Awakening
from mcphub.spec import InstanceKey

KEY = InstanceKey("s", "d")
OTHER = InstanceKey("t", "d")


class Sleeper:
    """As much of a worker as is asked: it says whether it is on its way."""

    def __init__(self, key: InstanceKey, *, sleeps: bool = True) -> None:
        self.key = key
        self.sleeps = sleeps
        self.waking = False
        self.woken = 0

    def wake_idle(self) -> None:
        self.woken += 1
        self.waking = self.sleeps


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
    return awake.hold(agent, mid, worker, lambda: done.append(mid))


def test_it_waits_for_its_own_server(awake: Awakening, sleeper: Sleeper, other: Sleeper) -> None:
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


def test_a_server_that_does_not_sleep(awake: Awakening) -> None:
    """Nothing is waited for: what is the matter is told at once."""
    done: list[bytes] = []
    assert not hold(awake, "a", b"1", Sleeper(KEY, sleeps=False), done)
    assert awake.held == {}


def test_nobody_waits_any_more(awake: Awakening, sleeper: Sleeper) -> None:
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


def test_a_request_that_takes_another_along(awake: Awakening, sleeper: Sleeper) -> None:
    """What is done again may end others: they are not done after all."""
    done: list[bytes] = []
    awake.hold("a", b"1", cast("Worker", sleeper), lambda: awake.left("a"))
    hold(awake, "a", b"2", sleeper, done)
    sleeper.waking = False
    awake.renew()
    assert done == []


def test_a_server_that_was_removed(sleeper: Sleeper) -> None:
    """The request is done again, and finds that out."""
    awake, done = Awakening({}), list[bytes]()
    hold(awake, "a", b"1", sleeper, done)
    awake.renew()
    assert done == [b"1"]


def test_too_many(awake: Awakening, sleeper: Sleeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a limit to what is kept; the server is started all the same."""
    monkeypatch.setattr(awakening, "MAX_HELD", 1)
    assert hold(awake, "a", b"1", sleeper, [])
    assert not hold(awake, "a", b"2", sleeper, [])
    assert sleeper.woken == 2

"""Being told of networks and sleep by a real kernel."""

from __future__ import annotations

import os
import resource
import struct
from collections.abc import AsyncIterator, Iterator

import anyio
import pytest

from mcphub.outage import news as module
from mcphub.outage.clocks import Clocks
from mcphub.outage.kernel import clocks
from mcphub.outage.news import News
from tests.fakes.namespaces import Namespace, namespace

pytestmark = pytest.mark.anyio

NOW = Clocks(100, 100, 1.7e9)


def readings(*asleep: float) -> Iterator[Clocks]:
    """Of a machine that slept so long before each of these, and not any more later."""
    total = 0.0
    for one in asleep:
        total += one
        yield Clocks(100, 100 + total, 1.7e9 + total)
    while True:
        yield Clocks(100, 100 + total, 1.7e9 + total)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def here() -> AsyncIterator[Namespace]:
    async with namespace() as here:
        yield here


@pytest.mark.parametrize(
    "command",
    [
        "link add tunnel type veth peer name end",
        "link set tunnel up",
        "link set end up",
        "addr add 10.8.0.2/24 dev tunnel",
        "addr add 2001:db8::2/64 dev tunnel nodad",
        "route add 10.9.0.0/24 via 10.8.0.1",
        "-6 route add default via 2001:db8::1",
        "route del 10.9.0.0/24",
        "addr del 10.8.0.2/24 dev tunnel",
        "link set tunnel down",
        "link del tunnel",
    ],
)
async def test_what_happens_to_networks(here: Namespace, command: str) -> None:
    """Links, addresses and routes of both protocols are told when they come and when they go, and that is no sleep."""
    news = here.inside(News().__enter__)
    try:
        assert news.complete
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(here.ip, command)
            with anyio.fail_after(5):
                assert await news.wait() == 0
    finally:
        news.__exit__(None, None, None)


async def test_several_at_once_are_one(here: Namespace) -> None:
    """A network that is joined in several steps is told once, when they are done."""
    news = here.inside(News().__enter__)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(here.ip, "link add tunnel type veth\naddr add 10.8.0.2/24 dev tunnel\nlink del tunnel")
            with anyio.fail_after(5):
                await news.wait()
        with anyio.move_on_after(2 * module.QUIET) as quiet:
            await news.wait()
        assert quiet.cancelled_caught
    finally:
        news.__exit__(None, None, None)


async def test_nothing_happens() -> None:
    """C189: while nothing happens nothing is told, and waiting for it uses no processor."""
    with News() as news:
        before = resource.getrusage(resource.RUSAGE_THREAD)
        with anyio.move_on_after(0.5) as quiet:
            await news.wait()
        after = resource.getrusage(resource.RUSAGE_THREAD)
        assert quiet.cancelled_caught
        assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.1


async def test_sleep_is_told_where_the_system_does_not_tell() -> None:
    """There somebody looks, and sees it at the next look; once."""
    with News(readings(0, 0, 0, 3600).__next__, every=0.01) as news:
        assert not news.complete
        with anyio.fail_after(5):
            assert [await news.wait() for _ in range(5)] == [0, 0, 3600, 0, 0]


async def test_sleep_that_is_found_with_other_news(here: Namespace) -> None:
    """Whatever wakes whoever waits, the clocks are looked at: networks change with sleep, too."""
    news = here.inside(News(readings(0, 7200).__next__).__enter__)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(here.ip, "link add tunnel type veth\nlink del tunnel")
            with anyio.fail_after(5):
                assert await news.wait() == 7200
    finally:
        news.__exit__(None, None, None)


async def test_a_timer_that_ended() -> None:
    """The clock's timer that became readable is armed anew: it is told again, and never without end."""
    with News(lambda: NOW) as news:
        fd = news._clock
        assert fd >= 0
        module._libc().timerfd_settime(fd, 0, struct.pack("@4l", 0, 0, 0, 1), None)  # as if it were set
        with anyio.move_on_after(0.3) as quiet:
            await news.wait()
        assert quiet.cancelled_caught
        with pytest.raises(BlockingIOError):
            os.read(fd, 8)


def test_nothing_is_left_open() -> None:
    """What was opened is closed, also where it is opened time and again."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with News(clocks):
            assert len(os.listdir("/proc/self/fd")) > before
    assert len(os.listdir("/proc/self/fd")) == before

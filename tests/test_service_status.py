"""What the service manager hears while the daemon runs, on a real datagram socket."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Mapping

import anyio
import msgspec
import pytest

from mcphub import service_status
from mcphub.connection.faults import Fault, FaultKind
from mcphub.connection.machine import Connected, Disabled, Failed, NeedsAuth, Pending, State
from mcphub.connection.view import View
from mcphub.service_status import beat, headline, tell
from mcphub.spec import InstanceKey, Origin, Scope, ServerSpec, StdioSpec
from mcphub.supervisor.watch import Watch
from tests.fakes.raw_http import short_directory

pytestmark = pytest.mark.anyio

UP = Connected(0.0)
FAILED = Failed(Fault(FaultKind.EXITED, "serve", "it ended"), 5)
AUTH = NeedsAuth("sign in")


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ([], "no servers"),
        ([Disabled("person")], "no servers"),
        ([UP], "1 server connected"),
        ([UP] * 12 + [AUTH], "12 servers connected, 1 needs sign-in"),
        ([AUTH, AUTH, FAILED, FAILED], "0 servers connected, 2 need sign-in, 2 failed"),
        ([Pending(0, 0.0), Pending(3, 1.0), Pending(0, 0.0, idle=True), UP], "1 server connected, 2 starting, 1 idle"),
    ],
)
def test_one_line_on_all(states: list[State], said: str) -> None:
    """What a person would ask first, without names; what is switched off does not count."""
    assert headline(enumerate(states)) == said


def test_instances_of_one_server_are_one() -> None:
    """A server with an instance a workspace counts once in each state, and as idle where it is nothing else."""
    idle = Pending(0, 0.0, idle=True)
    assert headline([("a", UP), ("a", UP), ("b", UP)]) == "2 servers connected"
    assert headline([("a", UP), ("a", FAILED), ("a", FAILED), ("a", idle)]) == "1 server connected, 1 failed"
    assert headline([("a", idle), ("a", idle), ("b", idle), ("b", UP)]) == "1 server connected, 1 idle"


class Snapshot(msgspec.Struct, frozen=True):
    views: Mapping[InstanceKey, View] = msgspec.field(default_factory=dict)


def snapshot(*states: State) -> Snapshot:
    views = {}
    for number, state in enumerate(states):
        spec = ServerSpec(f"s{number}", Origin(Scope.USER, "/f", "k", 1), StdioSpec("x"))
        views[spec.key()] = View(spec.key(), spec, state, None, (), 0, None)
    return Snapshot(views)


@pytest.fixture
async def manager() -> AsyncIterator[tuple[socket.socket, dict[str, str]]]:
    with short_directory() as directory, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"{directory}/notify")
        sock.setblocking(False)
        with anyio.fail_after(10):
            yield sock, {"NOTIFY_SOCKET": f"{directory}/notify"}


async def heard(sock: socket.socket) -> str:
    await anyio.wait_readable(sock)
    return sock.recv(1000).decode()


async def test_the_status_line_follows(manager: tuple[socket.socket, dict[str, str]]) -> None:
    """Each change is told once, many at once as one, and what changes nothing in the line is not told."""
    sock, environ = manager
    watch = Watch(snapshot())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tell, environ, watch, 0.01)
        assert await heard(sock) == "STATUS=no servers"
        for number in range(20):
            watch.publish(snapshot(*[UP] * number, AUTH))
        assert await heard(sock) == "STATUS=19 servers connected, 1 needs sign-in"
        watch.publish(snapshot(*[UP] * 19, AUTH, Disabled("policy")))
        watch.publish(snapshot(FAILED))
        assert await heard(sock) == "STATUS=0 servers connected, 1 failed"
        tasks.cancel_scope.cancel()
    with pytest.raises(BlockingIOError):
        sock.recv(1)


async def test_the_loop_says_that_it_is_alive(manager: tuple[socket.socket, dict[str, str]]) -> None:
    """At half of the watchdog's time, again and again, and never while the loop is kept busy."""
    sock, environ = manager
    environ |= {"WATCHDOG_USEC": "400000", "WATCHDOG_PID": str(os.getpid())}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat, environ)
        times = []
        for _ in range(3):
            assert await heard(sock) == "WATCHDOG=1"
            times.append(anyio.current_time())
        gaps = [after - before for before, after in zip(times, times[1:], strict=False)]
        assert min(gaps) > 0.4 * service_status.SHARE / 4  # a machine that is busy reads some of them late
        sock.setblocking(True)
        sock.settimeout(0.3)  # the loop waits here, as one that hangs does
        with pytest.raises(TimeoutError):
            sock.recv(1)
        sock.setblocking(False)
        assert await heard(sock) == "WATCHDOG=1"
        tasks.cancel_scope.cancel()


async def test_no_watchdog(manager: tuple[socket.socket, dict[str, str]]) -> None:
    """Nothing wakes the loop for nobody."""
    sock, environ = manager
    await beat(environ)
    with pytest.raises(BlockingIOError):
        sock.recv(1)

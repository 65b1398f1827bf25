"""How a host is reached: all its addresses, a slow one not waited for."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from mcphub.outbound import dial as dial_module
from mcphub.outbound.dial import dial
from mcphub.outbound.guard import Forbidden, Guard

pytestmark = pytest.mark.anyio


@contextmanager
def listener() -> Iterator[int]:
    """The port of a socket on 127.0.0.1 that takes connections."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        yield one.getsockname()[1]


def unused_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[str, int]]]:
    """What names stand for, in place of the system's resolver."""
    known: dict[str, list[tuple[str, int]]] = {}

    async def look_up(host: str, port: int) -> list[Any]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        kind = socket.SOCK_STREAM
        return [(socket.AF_INET, kind, socket.IPPROTO_TCP, "", place) for place in known[host]]

    monkeypatch.setattr(dial_module, "look_up", look_up)
    return known


async def test_an_address_is_dialled_as_it_is() -> None:
    """No resolver is asked."""
    with listener() as port:
        with anyio.fail_after(5):
            sock = await dial("127.0.0.1", port)
        with sock:
            assert sock.getpeername() == ("127.0.0.1", port)
            assert sock.getblocking() is False


async def test_a_name_is_dialled(names: dict[str, list[tuple[str, int]]]) -> None:
    """The second address is tried when the first refuses, without waiting."""
    with listener() as port, anyio.fail_after(5):
        names["two.example"] = [("127.0.0.1", unused_port()), ("127.0.0.1", port)]
        with await dial("two.example", port) as sock:
            assert sock.getpeername()[1] == port


async def test_an_address_that_does_not_answer_is_not_waited_for(
    names: dict[str, list[tuple[str, int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is tried beside it, and the slow one is closed."""
    monkeypatch.setattr(dial_module, "NEXT_ADDRESS", 0.01)
    with socket.socket() as full, listener() as port, anyio.fail_after(5):
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with socket.create_connection(full.getsockname()):  # its queue is full: further ones hang
            names["slow.example"] = [full.getsockname(), ("127.0.0.1", port)]
            with await dial("slow.example", port) as sock:
                assert sock.getpeername()[1] == port


async def test_no_address_takes_it(names: dict[str, list[tuple[str, int]]]) -> None:
    """The error is the system's, of an address."""
    names["none.example"] = [("127.0.0.1", unused_port()), ("127.0.0.1", unused_port())]
    for host, port in (("none.example", 1), ("127.0.0.1", unused_port())):
        with anyio.fail_after(5), pytest.raises(OSError) as caught:
            await dial(host, port)
        assert caught.value.errno == errno.ECONNREFUSED


async def test_a_name_that_nobody_knows(names: dict[str, list[tuple[str, int]]]) -> None:
    """It stays the resolver's error."""
    with anyio.fail_after(5), pytest.raises(socket.gaierror):
        await dial("nobody.example", 1)


def test_families_take_turns() -> None:
    """RFC 8305, section 4: a broken family costs one wait, not as many as it has addresses."""
    six, four = socket.AF_INET6, socket.AF_INET
    kind = socket.SOCK_STREAM
    places: list[Any] = [(six, kind, 6, ("a",)), (six, kind, 6, ("b",)), (four, kind, 6, ("c",))]
    assert [place[3][0] for place in dial_module._by_turns(places)] == ["a", "c", "b"]


async def test_all_addresses_of_a_name_are_judged(names: dict[str, list[tuple[str, int]]]) -> None:
    """S3: one bad address among several refuses the name, whichever it is; nothing is connected to, and none is looked
    up a second time."""
    with listener() as port:
        for order in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            places = [("127.0.0.1", port), ("192.0.2.1", port), ("127.0.0.2", port)]
            names["rebound.example"] = [places[number] for number in order]
            with pytest.raises(Forbidden, match="rebound.example leads to"):
                await dial("rebound.example", port, Guard(frozenset(["loopback"])))
        names["good.example"] = [("127.0.0.1", port), ("127.0.0.2", port)]
        with anyio.fail_after(5):
            sock = await dial("good.example", port, Guard(frozenset(["loopback"])))
        with sock:
            assert sock.getpeername() == ("127.0.0.1", port)


@pytest.mark.parametrize("host", ["127.0.0.1", "0x7f000001", "2130706433", "127.1", "::1", "::ffff:127.0.0.1", "0"])
async def test_addresses_that_no_server_may_name(host: str) -> None:
    """S3: nothing is connected to, in whichever way this machine is written."""
    with listener() as port, pytest.raises(Forbidden):
        await dial(host, port, Guard())

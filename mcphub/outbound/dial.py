"""Owns how a host is reached over TCP: its addresses, one tried beside the other where the first is slow.

It must not know what is spoken. Source: RFC 8305 (happy eyeballs), in its simplest form.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from itertools import chain, zip_longest

import anyio
import anyio.abc

from mcphub.outbound.guard import Guard
from mcphub.outbound.lookup import Found, look_up

#: Seconds after which the next address is tried beside those that have not answered.
NEXT_ADDRESS = 0.25

#: Family, type and protocol, address; as `socket.getaddrinfo` has them.
_Place = tuple[socket.AddressFamily, socket.SocketKind, int, tuple[object, ...]]


async def dial(host: str, port: int, guard: Guard | None = None) -> socket.socket:
    """A connected socket that does not block; with a guard, only where it lets all addresses of the host
    through. Raises OSError, of the address that failed last."""
    found: Found
    try:
        # An address needs no thread to be looked up.
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        )
    except socket.gaierror:
        found = await look_up(host, port)
    except UnicodeError:
        # An empty label, or one that is too long: nobody can have such a name.
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from None
    if guard is not None:
        for *_, address in found:
            guard.check(host, port, str(address[0]))
    places = [(family, kind, protocol, where) for family, kind, protocol, _, where in found]
    if len(places) == 1:
        return await _connected(places[0])
    return await _first(_by_turns(places))


def _by_turns(places: Sequence[_Place]) -> list[_Place]:
    """The families by turns, that of the first address first."""
    first = [place for place in places if place[0] == places[0][0]]
    others = [place for place in places if place[0] != places[0][0]]
    return [place for place in chain(*zip_longest(first, others)) if place is not None]


async def _connected(place: _Place) -> socket.socket:
    family, kind, protocol, where = place
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, where)
    except BaseException:
        sock.close()
        raise
    return sock


async def _first(places: Sequence[_Place]) -> socket.socket:
    """The first that answers; the others are given up."""
    won: list[socket.socket] = []
    errors: list[OSError] = []

    async def attempt(place: _Place, tasks: anyio.abc.TaskGroup, failed: anyio.Event) -> None:
        try:
            sock = await _connected(place)
        except OSError as e:
            errors.append(e)
            failed.set()
            return
        if won:
            sock.close()
            return
        won.append(sock)
        tasks.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as tasks:
            for place in places:
                failed = anyio.Event()
                tasks.start_soon(attempt, place, tasks, failed)
                with anyio.move_on_after(NEXT_ADDRESS):
                    await failed.wait()
    except BaseException:
        for sock in won:
            sock.close()
        raise
    if not won:
        raise errors[-1]
    return won[0]

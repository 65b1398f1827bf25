"""Owns looking up the addresses of a host's name, in a thread that nobody waits for at the end.

It must not know what they are for. Where a network's directory does not answer, the system looks for ten seconds and
more, and cannot be told to stop: in the event loop's own threads it would hold up the end of the daemon for as long.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Sequence

#: Family, type and protocol, canonical name, address; as `socket.getaddrinfo` has them.
Found = Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[object, ...]]]


async def look_up(host: str, port: int | None = None) -> Found:
    """The addresses of a host, for TCP. Raises OSError where it has none, UnicodeError for what cannot be a name."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Found] = loop.create_future()

    def tell(set_it: Callable[..., None], what: object) -> None:
        if not answer.done():
            set_it(what)

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as e:
            told = (answer.set_exception, e)
        else:
            told = (answer.set_result, found)  # type: ignore[assignment]
        try:
            loop.call_soon_threadsafe(tell, *told)
        except RuntimeError:
            pass  # the loop has ended meanwhile

    threading.Thread(target=ask, name=f"look up {host}", daemon=True).start()
    return await answer

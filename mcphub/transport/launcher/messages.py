"""Owns the wire between daemon and launcher: what the messages are, and how they become bytes.

It must not know who sends which, nor what a message causes.

Unix stream socket; each message is a 4-byte little-endian length and a marshalled tuple:

    -> ("spawn", key, path, argv, env, cwd, limits)  bytes; the first one carries stdin, stdout, stderr (SCM_RIGHTS);
                                              limits are memory, processor time and nice, as limits.take_limits has them
    -> ("signal", key, request, signo)        to the whole tree of that server; SIGKILL is repeated until it is gone
    <- ("hello", mark)                        the highest mark of this launcher, 0 = marks do not work here
    <- ("spawned", key, pid)                  the program was executed
    <- ("refused", key, stage, errno)         it was not; stage is one of STAGES
    <- ("signalled", request, count)          that many processes were alive and were sent the signal
    <- ("exit", key, status)                  the direct child ended; status as waitpid(2) gives it
    <- ("gone", key)                          no process of that server's tree is left; the key is forgotten
"""

from __future__ import annotations

import marshal

TYPE_CHECKING = False  # the typing module itself would cost the launcher memory
if TYPE_CHECKING:
    from typing import Any

#: A message longer than this is refused by the daemon's side; the kernel takes about 2 MiB of arguments.
MAX_MESSAGE = 16 << 20
#: Where the start of a program can fail, in this order.
STAGES = ("fork", "cwd", "exec")


def pack(message: tuple[Any, ...]) -> bytes:
    body = marshal.dumps(message)
    return len(body).to_bytes(4, "little") + body


def unpack(buffer: bytearray) -> list[tuple[Any, ...]]:
    """Take the complete messages out of `buffer`. Raises ValueError for a length that no peer of ours sends."""
    messages = []
    start = 0
    while len(buffer) - start >= 4:
        end = start + 4 + int.from_bytes(buffer[start : start + 4], "little")
        if end - start > MAX_MESSAGE:
            raise ValueError("message too long")
        if len(buffer) < end:
            break
        messages.append(marshal.loads(buffer[start + 4 : end]))
        start = end
    del buffer[:start]
    return messages

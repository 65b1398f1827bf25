"""Owns the greedy agent of a fairness measurement: a process of its own that keeps many calls in flight.

It must not measure; it says `ready` when all of its calls are in flight, and at the end of its standard input how many
were answered, and how many of those with an error.

    python -m tests.bench.greedy_agent SOCKET TOOL ARGUMENTS(JSON) IN_FLIGHT
"""

from __future__ import annotations

import json
import select
import sys
from pathlib import Path

from .wire import connect_unix


def refused(line: bytes) -> bool:
    """Whether a reply is an error, the protocol's or the tool's own."""
    return b'"error":' in line[:80] or b'"isError":true' in line[-80:] or b'"isError":true' in line[:80]


def work(path: Path, tool: str, arguments: dict[str, object], in_flight: int) -> tuple[int, int]:
    """Call until told to end; gives the number of replies, and of those that were errors."""
    client = connect_unix(path)
    count = errors = 0
    try:
        client.handshake()
        before, after = client.request_parts("tools/call", {"name": tool, "arguments": arguments})

        def call(number: int) -> None:
            for _ in range(number):
                client.last_id += 1
                client.start(before + b"%d" % client.last_id + after)
            client.flush()

        call(in_flight)
        print("ready", flush=True)
        while not select.select([0], [], [], 0)[0]:
            replies = client.poll(0.2)
            count += len(replies)
            errors += sum(refused(line) for _, line in replies)
            call(len(replies))
        return count, errors
    finally:
        client.close()


if __name__ == "__main__":
    print(*work(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])), flush=True)

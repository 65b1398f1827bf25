"""Owns the other agent of a neighbour measurement: a process of its own that calls one tool again and again.

It must not measure; it says `ready` after its first reply, and at the end of its standard input how many there were.

    python -m tests.bench.busy_agent TOOL ARGUMENTS(JSON) -- ARGV...

TOOL may be a bare name: the first listed tool that ends in it is taken.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys

from .wire import StreamClient, start_call, wait_reply

REPLY_SECONDS = 30.0


def work(base: str, arguments: dict[str, object], argv: list[str]) -> int:
    """Call until told to end; gives the number of replies."""
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    client = StreamClient(os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno()))
    process.stdin.close()
    process.stdout.close()
    count = 0
    try:
        client.handshake()
        names = [str(tool["name"]) for tool in client.list_tools()]
        name = next(one for one in names if one == base or one.endswith(base))
        while not select.select([0], [], [], 0)[0]:
            wait_reply(client, start_call(client, name, arguments), REPLY_SECONDS)
            count += 1
            if count == 1:
                print("ready", flush=True)
        return count
    finally:
        client.close()
        process.terminate()
        process.wait()


if __name__ == "__main__":
    print(work(sys.argv[1], json.loads(sys.argv[2]), sys.argv[sys.argv.index("--") + 1 :]), flush=True)

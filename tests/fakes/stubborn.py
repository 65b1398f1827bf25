"""A program that is hard to end: `stubborn.py TOKEN KIND...` becomes one process a kind, each with TOKEN in argv.

Every one of them ignores SIGTERM and the end of its input, and writes one byte to stdout when it does so. Kinds: `self`
the direct child stays; `child` an ordinary child; `setsid` a child in a session of its own; `double` forked twice, with
a session of its own, its parent gone; `cleared` the same with an empty environment; `leaf` what the others end up as.
"""

from __future__ import annotations

import os
import signal
import sys


def become_leaf(token: str, env: dict[str, str]) -> None:
    for signo in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(signo, signal.SIG_IGN)  # handed on by exec
    os.execve(sys.executable, [sys.executable, "-I", "-S", __file__, token, "leaf"], env)


def main(token: str, kinds: list[str]) -> None:
    env = dict(os.environ)
    if kinds == ["leaf"]:
        os.write(1, b"r")
        while True:
            signal.pause()
    for kind in kinds:
        if kind == "self" or os.fork():
            continue
        if kind != "child":
            os.setsid()
        if kind in ("double", "cleared") and os.fork():
            os._exit(0)
        become_leaf(token, {} if kind == "cleared" else env)
    if "self" in kinds:
        become_leaf(token, env)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

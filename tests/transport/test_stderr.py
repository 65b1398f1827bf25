from __future__ import annotations

import os
import time

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.transport.process import Launcher
from mcphub.transport.stderr import LINE, StderrReader, StderrRing, shown
from tests.transport.programs import PYTHON, running


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\nunfinished", ["one", "unfinished"]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b"\n\nx\n", ["", "", "x"]),
        (b"10%\r50%\r100%\ndone\n", ["100%", "done"]),
        (b"10%\r50%\r", ["50%"]),
        (b"10%\r50%", ["50%"]),
        (b"bad \xff byte\n", ["bad \\xff byte"]),
        (b"\x1b[31mred\x1b[0m\x07\n", ["\\x1b[31mred\\x1b[0m\\x07"]),
        ("Gr\u00fc\u00dfe \u4e16\u754c\u3000\u00a0\tx\n".encode(), ["Gr\u00fc\u00dfe \u4e16\u754c\u3000\u00a0\tx"]),
        ("a\u202eb\U000e0041\u0085\n".encode(), ["a\\u202eb\\U000e0041\\x85"]),
        (b"x" * (LINE + 5) + b"\n", ["x" * LINE, "xxxxx"]),
    ],
)
def test_lines_as_shown(data: bytes, lines: list[str]) -> None:
    """C038: lines, rewritten lines, long lines and odd bytes are shown as harmless text."""
    ring = StderrRing()
    ring.feed(data)
    assert ring.tail(100) == lines
    assert ring.tail(1) == lines[-1:]
    assert ring.tail(0) == []
    assert ring.dropped == 0


@given(st.lists(st.sampled_from([b"\r", b"\n", b"ab", b"\xe4\xb8\x96", b"x" * 3000]), max_size=30), st.integers(1, 50))
def test_cuts_do_not_matter(pieces: list[bytes], size: int) -> None:
    """The same bytes give the same lines, whatever pieces they come in, as long as no rewritten line is over-long."""
    data = b"".join(pieces)
    whole, cut = StderrRing(), StderrRing()
    whole.feed(data)
    for i in range(0, len(data), size):
        cut.feed(data[i : i + size])
    whole.end_line()
    cut.end_line()
    if b"\r" not in data or max(map(len, data.split(b"\n"))) <= LINE:
        assert cut.tail(1000) == whole.tail(1000)


def test_memory_is_bounded_and_what_was_let_go_is_counted() -> None:
    """C038: 10 MB leave no more than the limit; the oldest go first, and their bytes are counted."""
    ring = StderrRing(10_000)
    for number in range(100_000):
        ring.feed(b"line %06d\n" % number)
    assert len(ring) <= 10_000
    assert len(ring) + ring.dropped == 1_200_000
    assert ring.tail(2) == ["line 099998", "line 099999"]
    assert len(ring.tail(10_000)) == len(ring) // 12


@pytest.mark.parametrize("flood", [b"x", b"\n", b"\r", b"ab\r", b"\xff\n", b"a\r\n"])
def test_a_flood_is_read_fast_and_kept_small(flood: bytes) -> None:
    """C038: 10 MB of any shape are taken in well under the time that would stall a call, in bounded memory."""
    ring = StderrRing()
    chunk = (flood * 65536)[:65536]
    start = time.perf_counter()
    for _ in range(160):
        ring.feed(chunk)
    assert time.perf_counter() - start < 10
    assert len(ring) <= (1 << 20) + LINE


def test_a_new_process_begins_a_new_line() -> None:
    """Over a restart the text goes on, and the last words of the old process stay a line of their own."""
    ring = StderrRing()
    ring.feed(b"old, cut of")
    ring.end_line()
    ring.feed(b"new\n")
    assert ring.tail(5) == ["old, cut of", "new"]


def test_plain_text_is_shown_as_it_is() -> None:
    """Printable text is not touched."""
    assert shown("ok \u2713".encode()) == "ok \u2713"


FLOOD = """
import os, sys
block = b"progress %d\\r" * 300 + b"\\xff\\xfe broken \\n" + b"z" * 5000 + b"\\n"
sent = 0
while sent < 10_000_000:
    sent += os.write(2, block)
os.write(2, b"\\nlast words\\n")
os.write(1, b"answer\\n")
sys.stdin.read()
"""


@pytest.mark.anyio
async def test_ten_megabytes_never_block_the_server() -> None:
    """C038: a server that writes 10 MB to stderr during a call answers that call, and a bounded tail is kept."""
    ring = StderrRing()
    ours, theirs = os.pipe()
    reader = StderrReader(ours, ring)
    with anyio.fail_after(20):
        async with Launcher() as launcher:
            try:
                async with running(launcher, [*PYTHON, "-c", FLOOD], stderr=theirs) as program:
                    os.close(theirs)
                    assert await program.read(7) == b"answer\n"
                    reader.drain()
                    assert ring.tail(1) == ["last words"]
                    program.close_stdin()
                    await reader.ended.wait()
            finally:
                reader.close()
    assert len(ring) <= (1 << 20) + LINE
    assert ring.dropped > 0


@pytest.mark.anyio
async def test_closing_takes_the_last_words_while_another_holds_the_pipe() -> None:
    """C033: what a dying process said is there at once, though a grandchild keeps the pipe open."""
    ring = StderrRing()
    ours, theirs = os.pipe()
    reader = StderrReader(ours, ring)
    os.write(theirs, b"API_KEY missing")
    reader.close()
    reader.close()
    os.close(theirs)
    assert ring.tail(1) == ["API_KEY missing"]
    assert reader.ended.is_set()


def test_what_came_after() -> None:
    """Whole lines are counted, and those that came later are given once, as far as they are still kept."""
    ring = StderrRing(40)
    ring.feed(b"one\ntwo\nthr")
    assert (ring.count, ring.after(0), ring.after(1), ring.after(2)) == (2, ["one", "two"], ["two"], [])
    ring.feed(b"ee\n")
    assert ring.after(2) == ["three"]
    ring.feed(b"last")
    ring.end_line()
    assert (ring.count, ring.after(3)) == (4, ["last"])
    ring.feed(b"".join(b"line %d\n" % n for n in range(100)))
    assert ring.count == 104
    assert ring.after(4) == ring.tail(100)
    assert ring.after(102) == ["line 98", "line 99"]


@pytest.mark.anyio
async def test_waiting_for_more() -> None:
    """Whoever waits is told of the next whole line, and not of a part of one."""
    ring = StderrRing()
    found: list[int] = []

    async def wait() -> None:
        found.append(await ring.newer_than(0))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            ring.feed(b"par")
            await anyio.lowlevel.checkpoint()
            assert found == []
            ring.feed(b"t\nnext\n")
    assert found == [2]
    assert await ring.newer_than(1) == 2

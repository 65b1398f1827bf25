"""What a program writes to its stdout that is no message, and how much of a flood is kept."""

from __future__ import annotations

import pytest

from mcphub.connection.strays import KEPT, MOST, PERIOD, Strays
from mcphub.transport.stderr import KEPT as RING
from mcphub.transport.stderr import LINE, OTHER, StderrRing


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def begun(kept: int = RING) -> tuple[Strays, StderrRing, Clock]:
    ring, clock = StderrRing(kept), Clock()
    strays = Strays(ring, clock)
    strays.begin()
    return strays, ring, clock


def test_the_log_has_both_in_their_order() -> None:
    """A line of stdout stands marked between those of stderr, and is none of them."""
    strays, ring, _ = begun()
    ring.feed(b"one\nunfin")
    strays.take(memoryview(b"Error: no key\x1b[0m\r"))
    ring.feed(b"ished\n")
    assert ring.tail(9) == ["one", f"{OTHER}Error: no key\\x1b[0m", "unfinished"]
    assert ring.tail(9, alone=True) == ["one", "unfinished"]
    assert ring.tail(1, alone=True) == ["unfinished"]
    assert ring.after(1) == ring.tail(2)
    assert strays.tail(3) == ["Error: no key\\x1b[0m"]


def test_a_flood() -> None:
    """The log gets the first lines of each minute, how many are left out, and the last ones at the end."""
    strays, ring, clock = begun()
    for n in range(1000):
        strays.take(b"%d" % n)
    assert ring.tail(99) == [f"{OTHER}{n}" for n in range(MOST)]
    clock.now += PERIOD
    strays.take(b"later")
    assert ring.tail(2) == [f"{OTHER}({1000 - MOST} lines are left out here)", f"{OTHER}later"]
    for n in range(MOST + 50):
        strays.take(b"%d" % n)
    strays.end(b"")
    left = 50 - KEPT + 1
    assert ring.tail(KEPT + 1) == [
        f"{OTHER}({left} lines are left out here)",
        *(f"{OTHER}{n}" for n in range(MOST + 50 - KEPT, MOST + 50)),
    ]
    count = ring.count
    strays.end(b"")
    assert ring.count == count


def test_a_flood_between_messages() -> None:
    """However often it speaks the protocol in between, a minute brings the log no more than its share."""
    strays, ring, _ = begun()
    for n in range(2000):
        strays.take(b"x" * 50)
        if n % 7 == 0:
            strays.calmed()
    assert ring.count == MOST
    strays.end(b"")
    assert ring.count <= MOST + KEPT + 1


def test_what_it_keeps_is_bounded() -> None:
    """Lines without end, and many of them, leave a few lines of a few kilobytes."""
    strays, ring, _ = begun()
    for _ in range(50):
        strays.take(memoryview(b"x" * (LINE * 3)))
    assert [len(line) for line in strays.tail(99)] == [LINE] * KEPT
    assert len(ring) <= MOST * (LINE + 20)
    assert strays.tail(1) == strays.tail(99)[-1:]
    assert strays.tail(0) == []


@pytest.mark.parametrize(
    ("unfinished", "kept"),
    [(b"Password: ", ["Password: "]), (b"", []), (b" \t", []), (b'{"jsonrpc":"2.0","id":1,"result":{"text":"s', [])],
)
def test_the_end_of_its_stdout(unfinished: bytes, kept: list[str]) -> None:
    """A last line that lacks its newline counts, but for the beginning of a message."""
    strays, ring, _ = begun()
    strays.end(unfinished)
    assert strays.tail(9) == kept
    assert ring.tail(9) == [OTHER + line for line in kept]


def test_another_start() -> None:
    """What an earlier process said, or what it said before it spoke the protocol again, is no reason of what is now."""
    strays, _, _ = begun()
    strays.take(b"old")
    strays.begin()
    assert strays.tail(9) == []
    strays.take(b"debug")
    strays.calmed()
    assert strays.tail(9) == []

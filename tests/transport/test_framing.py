"""Bytes to lines, in any chunking."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.transport.framing import MAX_MESSAGE, SMALL, LineBuffer, LineTooLong

BOM = b"\xef\xbb\xbf"
TOO_LONG = b"(too long)"


def lines(
    chunks: Iterable[bytes], limit: int = MAX_MESSAGE, lend: bool = False, most: int = 1
) -> tuple[list[bytes], bool]:
    """The lines these chunks make, TOO_LONG for each that was, and whether one had no end. Each chunk is read as a
    transport reads: into `room`; the lines are taken so many at a time."""
    buffer = LineBuffer(limit)
    out: list[bytes] = []
    try:
        for chunk in chunks:
            while chunk:
                room = buffer.room()
                n = min(len(room), len(chunk))
                assert n > 0
                room[:n] = chunk[:n]
                chunk = chunk[n:]
                buffer.filled(n)
                held: list[bytes | memoryview] = []
                try:
                    while True:
                        try:
                            some = buffer.take(most)
                        except LineTooLong as e:
                            assert e.head is not None
                            held.append(TOO_LONG)
                            continue
                        held += some
                        if len(some) < most and not buffer.short:
                            break
                finally:
                    if lend:
                        buffer.lend()
                    out += [bytes(line) for line in held]
    except LineTooLong:
        return out, True
    return out, False


def oracle(data: bytes, limit: int) -> tuple[list[bytes], bool]:
    out: list[bytes] = []
    *whole, rest = data.removeprefix(BOM).split(b"\n")
    for line in whole:
        if len(line) > limit:
            out.append(TOO_LONG)
            continue
        line = line.removesuffix(b"\r")
        if line:
            out.append(line)
    return out, False


PIECES = st.lists(
    st.sampled_from(
        [b"\n", b"\r", b"\r\n", BOM, b"\xef", b"\xbb\xbf", b" ", b"{}", "\u6f22\U0001f642".encode(), b"x" * 9]
    )
    | st.binary(max_size=3),
    max_size=30,
).map(b"".join)


@given(
    PIECES,
    st.lists(st.integers(1, 9), min_size=1, max_size=9),
    st.booleans(),
    st.sampled_from([5, 12, 1000]),
    st.sampled_from([1, 2, 7]),
)
def test_any_chunking_gives_the_same_lines(data: bytes, sizes: list[int], lend: bool, limit: int, most: int) -> None:
    """C046, C047: where reads end does not matter: not inside a character, a CRLF or a byte order mark."""
    chunks = []
    at = i = 0
    while at < len(data):
        chunks.append(data[at : at + sizes[i % len(sizes)]])
        at += sizes[i % len(sizes)]
        i += 1
    assert lines(chunks, limit, lend, most) == oracle(data, limit)
    assert lines([data], limit, lend, most) == oracle(data, limit)


def test_what_is_read_between_two_takings() -> None:
    """It comes after the lines that were whole before, in order, wherever the reads ended."""
    buffer = LineBuffer()
    buffer.feed(b"1\n2\n3\n4")
    assert list(map(bytes, buffer.take(2))) == [b"1", b"2"]
    assert buffer.pending()
    buffer.feed(b"5\n6\n7\n8\n9")
    assert (list(map(bytes, buffer.take(2))), buffer.short) == ([b"3"], True)
    assert list(map(bytes, buffer.take(2))) == [b"45", b"6"]
    assert (list(map(bytes, buffer.take(9))), buffer.short) == ([b"7", b"8"], False)
    buffer.feed(b"\n")
    assert list(map(bytes, buffer.take(9))) == [b"9"]
    assert not buffer.pending()


def test_small_lines_before_a_large_one() -> None:
    """Lines that are split together and one that is not: none is lost, and none that was taken changes later."""
    buffer = LineBuffer()
    buffer.feed(b"a\nb\nc\n" + b"x" * 200_000 + b"\nd\n")
    found = [*buffer.take(2), *buffer.take(9)]
    while buffer.short:
        found += buffer.take(9)
    assert [bytes(line)[:2] for line in found] == [b"a", b"b", b"c", b"xx", b"d"]
    assert len(found[3]) == 200_000


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (BOM + b'{"a":1}\r\n  {"b":2}\r\n', [b'{"a":1}', b'  {"b":2}']),
        (BOM + BOM + b"x\n" + BOM + b"y\n", [BOM + b"x", BOM + b"y"]),
        (b"\n" + BOM + b"x\n", [BOM + b"x"]),
        (b"a\n" + BOM + b"\n", [b"a", BOM]),
        (BOM + b"\n" + BOM, []),
        (b"\n\r\n\n \na\r\r\n", [b" ", b"a\r"]),
        (b"\xef\xbb\n", [b"\xef\xbb"]),
        (b"a\rb\x0bc\x85\xe2\x80\xa8d\n", [b"a\rb\x0bc\x85\xe2\x80\xa8d"]),
        (b"no newline", []),
    ],
)
def test_lines(data: bytes, expected: list[bytes]) -> None:
    """C046: 0x0A alone ends a line, one CR before it goes, and a byte order mark counts at the very start only."""
    assert lines([data]) == (expected, False)
    assert lines([data[i : i + 1] for i in range(len(data))]) == (expected, False)


@pytest.mark.parametrize("chunk", [1 << 10, 60_000, 1 << 20])
def test_large_lines(chunk: int) -> None:
    """C049: twenty megabytes in one line arrive whole, in any chunking, in time that grows with their size."""
    data = b"a\n" + b"x" * (20 << 20) + b"\nb\n"
    start = time.perf_counter()
    found, too_long = lines(data[i : i + chunk] for i in range(0, len(data), chunk))
    assert time.perf_counter() - start < 10
    assert not too_long
    assert [len(line) for line in found] == [1, 20 << 20, 1]


@pytest.mark.parametrize(("size", "too_long"), [(1 << 20, False), ((1 << 20) + 1, True), (3 << 20, True)])
@pytest.mark.parametrize("chunk", [1 << 12, 1 << 16, 1 << 22])
def test_the_limit_is_the_same_in_any_chunking(size: int, too_long: bool, chunk: int) -> None:
    """C049: a line of exactly the limit passes, one byte more does not; what comes before it and behind it does."""
    data = b"a\n" + b"x" * size + b"\nb\nc\n" + b"y" * size + b"\nd\n"
    found, endless = lines((data[i : i + chunk] for i in range(0, len(data), chunk)), 1 << 20, most=8)
    long = TOO_LONG if too_long else None
    assert found == [b"a", long or b"x" * size, b"b", b"c", long or b"y" * size, b"d"]
    assert not endless


@pytest.mark.parametrize("chunk", [100, 4096, 1 << 20])
def test_the_beginning_of_a_line_that_is_too_long(chunk: int) -> None:
    """C049: it is kept, since it says whose answer it was."""
    data = b'{"id":7,' + b"x" * 400_000 + b"\nb\n"
    buffer = LineBuffer(100_000)
    heads = []
    for i in range(0, len(data), chunk):
        buffer.feed(data[i : i + chunk])
        try:
            buffer.take(1)
        except LineTooLong as e:
            heads.append(e.head)
            assert bytes(buffer.next() or b"b") == b"b"
    [head] = heads
    assert head == data[:4096]


def test_an_endless_line_costs_no_more_than_the_limit() -> None:
    """C050: without a newline the buffer grows to the limit and a little; what comes then is thrown away, and after
    four times the limit the line is refused."""
    buffer = LineBuffer(1 << 20)
    taken = 0
    with pytest.raises(LineTooLong, match="longer than 1 MiB, and does not end") as caught:
        while True:
            room = buffer.room()
            assert len(room) < 8 << 20
            buffer.filled(4096)
            taken += 4096
            assert buffer.next() is None
    assert caught.value.head is None
    assert 4 << 20 < taken < 8 << 20


def test_many_short_lines_fed_at_once_are_not_one_long_one() -> None:
    """Whole lines that wait to be taken do not make the limit shorter."""
    buffer = LineBuffer(1000)
    buffer.feed(b"x" * 900 + b"\n" + b"y\n" * 100_000)
    assert buffer.pending() > 200_000
    count = 0
    while buffer.next() is not None:
        count += 1
    assert count == 100_001
    buffer.feed(b"y\n" * 100_000 + b"x" * 3000 + b"\nz\n")
    count = 0
    with pytest.raises(LineTooLong):
        while buffer.next() is not None:
            count += 1
    assert count == 100_000
    assert bytes(buffer.next() or b"") == b"z"


def test_a_line_that_somebody_holds_is_not_overwritten() -> None:
    """A buffer that was lent keeps its bytes; reading goes on in another."""
    buffer = LineBuffer()
    buffer.feed(b"one\ntwo\nrest")
    first = buffer.next()
    second = buffer.next()
    assert buffer.next() is None
    buffer.lend()
    buffer.feed(b" of it\n" + b"z" * 200_000 + b"\n")
    third = buffer.next()
    assert first is not None
    assert second is not None
    assert third is not None
    assert (bytes(first), bytes(second), bytes(third)) == (b"one", b"two", b"rest of it")


def test_a_large_buffer_is_given_back() -> None:
    """C050: an idle connection that once had a large message holds a small buffer again."""
    buffer = LineBuffer()
    buffer.feed(b"x" * (8 << 20) + b"\n")
    assert len(bytes(buffer.next() or b"")) == 8 << 20
    assert buffer.next() is None
    assert buffer.pending() == 0
    assert len(buffer.room()) <= SMALL

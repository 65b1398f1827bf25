"""The event-stream grammar in any chunking."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.protocol.eventstream import EventDecoder, EventTooLarge, ServerSentEvent

E = ServerSentEvent
BOM = b"\xef\xbb\xbf"


def decoded(*chunks: bytes) -> list[ServerSentEvent]:
    decoder = EventDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def bytewise(data: bytes) -> list[ServerSentEvent]:
    return decoded(*(data[i : i + 1] for i in range(len(data))))


TABLE: list[tuple[bytes, list[ServerSentEvent]]] = [
    (b"data: a\n\n", [E("", b"a")]),
    (b"data:a\r\n\r\n", [E("", b"a")]),
    (b"data:a\r\r", [E("", b"a")]),
    (b"data:  a\n\n", [E("", b" a")]),
    (b"data: a\ndata: b\ndata\ndata: c\n\n", [E("", b"a\nb\n\nc")]),
    (b"event: x\ndata: a\n\ndata: b\n\n", [E("x", b"a"), E("", b"b")]),
    (b": a comment\n\n:\n\ndata: a\n\n", [E("", b"a")]),
    (b"\n\n\r\n\r\r\ndata: a\n\n", [E("", b"a")]),
    (b"id: 1\ndata: a\n\ndata: b\n\n", [E("", b"a", "1"), E("", b"b", "1")]),
    (b"id: 1\n\n: ping\n\n\n", [E("", None, "1")]),
    (b"id: 1\ndata:\n\n", [E("", None, "1")]),
    (b"id: 1\ndata: a\n\nid\ndata: b\n\n", [E("", b"a", "1"), E("", b"b")]),
    (b"id: a\0b\ndata: x\n\n", [E("", b"x")]),
    (b"retry: 250\n\n", [E()]),
    (b"retry: 2x\ndata: a\n\n", [E("", b"a")]),
    (b"foo: bar\ndata: a\nnothing\n\n", [E("", b"a")]),
    (b"event: x\n\ndata: a\n\n", [E("", b"a")]),
    (b"data: a", []),
    (b"data: a\n", []),
    (BOM + b"data: a\n\n", [E("", b"a")]),
    (BOM + BOM + b"data: a\n\ndata: b\n\n", [E("", b"b")]),
    (b"data: \xef\xbb\xbf\n\n", [E("", BOM)]),
    ("data: 漢🙂—\u2028\x85\n\n".encode(), [E("", "漢🙂—\u2028\x85".encode())]),
    (b"data: a\x0bb\x0cc\n\n", [E("", b"a\x0bb\x0cc")]),
    (b"data: \xff\xfe\n\n", [E("", b"\xff\xfe")]),
    (b"DATA: a\n\n data: b\n\n", []),
    (b"", []),
]


@pytest.mark.parametrize(("data", "events"), TABLE)
def test_grammar(data: bytes, events: list[ServerSentEvent]) -> None:
    """C080: one event a blank line, in one chunk and byte by byte; nothing for a blank line alone."""
    assert decoded(data) == events
    assert bytewise(data) == events


def test_a_stream_of_everything() -> None:
    """C080: a priming event sets the id and is not data, a bad id is no id, the unfinished event is dropped."""
    stream = (
        BOM + b": ping\r\n\r\n"
        b"retry: 250\r\n"
        b"id: e1\r\ndata:\r\n\r\n"
        b'event: message\r\ndata: {"jsonrpc":"2.0",\r\ndata: "id":2,"result":{}}\r\n\r\n'
        b'data:{"no":"space"}\n\n'
        b"foo: bar\n"
        b"data: cr\r\r"
        b"id: bad\0id\n"
        b"data: never finished"
    )
    decoder = EventDecoder()
    events = [event for i in range(len(stream)) for event in decoder.feed(stream[i : i + 1])]
    assert [event.data for event in events] == [
        None,
        b'{"jsonrpc":"2.0",\n"id":2,"result":{}}',
        b'{"no":"space"}',
        b"cr",
    ]
    assert decoder.last_id == "e1"
    assert decoder.retry == 0.25


@given(st.lists(st.sampled_from([data for data, _ in TABLE]) | st.binary(max_size=12), max_size=6), st.data())
def test_any_chunking_is_the_same(pieces: list[bytes], draw: st.DataObject) -> None:
    """C080: what comes out does not depend on where a read ended."""
    whole = b"".join(pieces)
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    one, other = EventDecoder(), EventDecoder()
    assert [e for c in chunks for e in one.feed(c)] == other.feed(whole)
    assert (one.last_id, one.retry) == (other.last_id, other.retry)


def test_a_stream_that_goes_on_keeps_the_id() -> None:
    """An event that says no id has the one of the stream before."""
    decoder = EventDecoder()
    decoder.resume_from("e7")
    assert decoder.feed(b"data: a\n\nid: e8\ndata: b\n\n") == [E("", b"a", "e7"), E("", b"b", "e8")]


@pytest.mark.parametrize("size", [1, 7, 64])
def test_an_event_above_the_limit(size: int) -> None:
    """C050: an endless line, or endless lines, end the stream in any chunking; one of exactly the limit passes."""
    fits = b"data: " + b"x" * 58 + b"\n\n"
    assert len(EventDecoder(limit=64).feed(fits)) == 1
    for endless in (b"data: " + b"x" * 59, b"data: " + b"x" * 30 + b"\ndata: " + b"x" * 30, b"event:" * 11):
        decoder = EventDecoder(limit=64)
        with pytest.raises(EventTooLarge, match="larger"):
            for i in range(0, len(endless) + 2, size):
                decoder.feed((endless + b"\n\n")[i : i + size])


def test_comments_without_end_are_no_large_event() -> None:
    """A server that keeps a stream alive for days is not cut off."""
    decoder = EventDecoder(limit=64)
    for _ in range(100):
        assert decoder.feed(b": still here\n") == []
    assert decoder.feed(b"data: a\n\n") == [E("", b"a")]


def test_time_is_linear() -> None:
    """C049: 8 MiB in pieces of 1 KiB cost about what one piece costs, not its square."""
    data = b"data: " + b"x" * (8 << 20) + b"\n\n"
    begun = time.process_time()
    assert len(decoded(*(data[i : i + 1024] for i in range(0, len(data), 1024)))[0].data or b"") == 8 << 20
    assert time.process_time() - begun < 10

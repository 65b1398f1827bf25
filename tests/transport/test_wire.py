"""A byte stream of frames over sockets and pipes: what arrives, what is sent, and every way in which it ends."""

from __future__ import annotations

import asyncio
import os
import tracemalloc
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcphub.channel import Data
from mcphub.transport import wire as module
from mcphub.transport.framing import MAX_MESSAGE
from mcphub.transport.wire import (
    BURST,
    FLOOD_BUDGET,
    FLUSH_EVERY,
    FRAME_BUDGET,
    SEVERAL,
    SHORT_PATIENCE,
    Batch,
    Wire,
)
from tests.transport.peers import KINDS, Recorder, attach, clean, wired

pytestmark = pytest.mark.anyio

kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    async with clean():
        with anyio.fail_after(30):
            yield


# --- in ---------------------------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
async def test_lines_in_any_chunking(kind: str, chunk: int) -> None:
    """C047: bytes are split at the newline and nowhere else, whatever pieces they come in."""
    lines = [b"{}", "漢🙂—".encode(), b"x" * 300, b"last"]
    recorder = Recorder()
    async with wired(kind, recorder) as (wire, peer):
        await peer.write(b"\n".join(lines) + b"\r\n", chunk)
        await recorder.until(4)
        assert recorder.lines == lines
        assert wire.frames_in == 4


@kinds
async def test_a_peer_that_is_held(kind: str) -> None:
    """What it sends stays where it is, in the system or in the buffer; what is sent to it still arrives."""
    recorder = Recorder()
    async with wired(kind, recorder) as (wire, peer):
        await peer.write(b"first\n")
        await recorder.until(1)
        wire.hold()
        wire.feed(b"kept\nhalf")
        await peer.write(b"second\n")
        wire.send(b"still\n")
        assert await peer.lines(1) == [b"still"]
        wire.pause_writing()
        wire.resume_writing()
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert recorder.lines == [b"first"]
        assert wire.unread(100) == (b"kept\n", b"half")


@kinds
async def test_the_end_with_half_a_line(kind: str) -> None:
    """An orderly end tells no reason, once; what was not finished is nothing."""
    recorder = Recorder()
    async with wired(kind, recorder) as (wire, peer):
        await peer.write(b"whole\nhal")
        peer.close_writing()
        await wire.closed.wait()
        assert recorder.lines == [b"whole"]
        assert recorder.reasons == [""]


@kinds
@pytest.mark.parametrize("chunk", [1000, 1 << 20])
@pytest.mark.parametrize("over", [0, 1])
async def test_the_limit_is_the_same_in_any_chunking(kind: str, chunk: int, over: int) -> None:
    """C049: a line of the limit passes; one byte more, and that line alone is thrown away, and its beginning told."""
    limit, recorder = 200_000, Recorder()
    async with wired(kind, recorder, limit=limit) as (_, peer):
        await peer.write(b"first\n" + b"x" * (limit + over) + b"\nnext\n", chunk)
        await recorder.until(2 if over else 3)
        assert [len(line) for line in recorder.lines] == ([5, 4] if over else [5, limit, 4])
        assert recorder.too_long_ones == ([(b"x" * 4096, "a line is longer than 0 MiB")] if over else [])
        assert recorder.reasons == []


@kinds
async def test_the_largest_message(kind: str) -> None:
    """64 MiB pass in one line, and the connection goes on."""
    recorder = Recorder(keep=False)
    async with wired(kind, recorder) as (_, peer):
        await peer.write(b"x" * MAX_MESSAGE + b"\nnext\n")
        await recorder.until(2)


@kinds
async def test_an_endless_line(kind: str) -> None:
    """C050: what came before it is delivered; memory stays near the limit; it is closed with the reason."""
    limit, recorder = 4 << 20, Recorder()
    block = b"A" * (1 << 18)
    tracemalloc.start()
    try:
        async with wired(kind, recorder, limit=limit) as (wire, peer):
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                await peer.write(b"valid\n" + block)
                while True:
                    await peer.write(block)
            await wire.closed.wait()
            assert tracemalloc.get_traced_memory()[1] < 4 * limit
    finally:
        tracemalloc.stop()
    assert recorder.lines == [b"valid"]
    assert recorder.reasons == ["a line is longer than 4 MiB, and does not end"]


@kinds
async def test_a_flood_leaves_the_others_their_turns(kind: str) -> None:
    """However much one peer has sent, at most the budget is handed on in one turn of the loop, in order."""
    count = 10_000
    recorder = Recorder()
    loop = asyncio.get_running_loop()
    async with wired(kind, recorder) as (wire, peer):
        most, before, going = 0, 0, True

        def turn() -> None:
            nonlocal most, before
            most, before = max(most, wire.frames_in - before), wire.frames_in
            if going:
                loop.call_soon(turn)

        loop.call_soon(turn)
        await peer.write(b"".join(b"%d\n" % n for n in range(count)))
        await recorder.until(count)
        going = False
        assert recorder.lines == [b"%d" % n for n in range(count)]
        assert most <= FRAME_BUDGET
        await peer.write(b"after\n")
        await recorder.until(count + 1)


async def test_what_was_read_before_the_connection(kind: str = "sockets") -> None:
    """Bytes that came while it was found out who attaches are handed on first, in the same portions."""
    recorder = Recorder()
    wire = Wire(Batch(), recorder)
    wire.feed(b"".join(b"%d\n" % n for n in range(1000)))
    assert recorder.count == FRAME_BUDGET
    peer = await attach(kind, wire)
    await peer.write(b"".join(b"%d\n" % n for n in range(1000, 1100)))
    await recorder.until(1100)
    assert recorder.lines == [b"%d" % n for n in range(1100)]
    peer.close()
    await wire.closed.wait()


class Clock:
    """A clock that moves where the test says, and by 50 us with each line that a recorder gets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(module, "monotonic", lambda: self.now)

    def tick(self, line: bytes | memoryview) -> None:
        self.now += 0.00005

    def flood(self, batch: Batch, lines: int, **options: Any) -> tuple[Wire, Recorder]:
        """So many lines, all at once, of one more peer."""
        recorder = Recorder(self.tick)
        wire = Wire(batch, recorder, **options)
        wire.feed(b"line\n" * lines)
        return wire, recorder


async def test_a_flood_beside_a_calm_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """From its second portion on each lasts so long, three lines here, and after some of them the flood rests; a server
    is read in such portions too, but goes on for longer, since its answers are not one agent's alone."""
    monkeypatch.setattr(module, "REST", 3600.0)
    clock, batch = Clock(monkeypatch), Batch()
    calm, polite = clock.flood(batch, 1)
    _, greedy = clock.flood(batch, 10 * FRAME_BUDGET)
    assert greedy.count == FRAME_BUDGET
    _, server = clock.flood(batch, 10 * FRAME_BUDGET, keep_reading=True)
    assert server.count == 3
    for turn in range(2, 50):
        before = greedy.count, server.count
        calm.feed(b"line\n")
        assert polite.count == turn
        await anyio.lowlevel.checkpoint()
        assert greedy.count - before[0] in (0, 3) and server.count - before[1] in (0, 3)
    assert greedy.count == FRAME_BUDGET + 3 * SHORT_PATIENCE
    assert server.count == 3 * (module.PATIENCE + 1)


async def test_floods_beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's portions are short where all bring much, though each brought little before."""
    clock, batch = Clock(monkeypatch), Batch()
    peers = [clock.flood(batch, 1) for _ in range(3)]
    for wire, _ in peers:
        wire.feed(b"line\n" * (module.FEW + 1))
    for _, recorder in peers:
        await recorder.until(module.FEW + 2)
    for wire, recorder in peers:
        wire.feed(b"line\n" * FRAME_BUDGET)
        assert recorder.count == module.FEW + 2 + FRAME_BUDGET


async def test_who_floods_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Portions are large again where the flood is over, where the calm one was not read lately, or one has left."""
    clock, batch = Clock(monkeypatch), Batch()
    calm, _ = clock.flood(batch, 1)
    wire, recorder = clock.flood(batch, FRAME_BUDGET)
    assert batch.uneven()
    clock.now += module.CALM + 0.001
    wire.feed(b"line\n")
    assert not batch.uneven()
    calm.feed(b"line\n")
    wire.feed(b"line\n" * FRAME_BUDGET)
    assert batch.uneven() and recorder.count == 2 * FRAME_BUDGET + 1
    clock.now += module.LATELY + 0.001
    assert not batch.uneven()
    calm.feed(b"line\n")
    wire.feed(b"line\n" * FRAME_BUDGET)
    assert batch.uneven() and recorder.count == 3 * FRAME_BUDGET + 1
    calm.abort()
    assert not batch.uneven()
    other, _ = clock.flood(batch, 1)
    assert batch.uneven()
    wire.abort()
    assert not batch.uneven()


async def test_one_line_is_a_portion_however_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that take longer than a portion go one by one, in order, and none is lost; an agent that brought just one
    is no flood for that."""
    clock, batch = Clock(monkeypatch), Batch()
    calm, _ = clock.flood(batch, 1)
    clock.flood(batch, FRAME_BUDGET)
    monkeypatch.setattr(module, "PORTION", 0.0)
    calm.feed(b"line\n")
    assert batch.uneven()
    recorder = Recorder()
    wire = Wire(batch, recorder)
    wire.feed(b"".join(b"%d\n" % n for n in range(7)) + b"half")
    assert recorder.lines == [b"0"]
    await recorder.until(7)
    wire.feed(b" and half\n")
    await recorder.until(8)
    assert recorder.lines == [*(b"%d" % n for n in range(7)), b"half and half"]


# --- several at once --------------------------------------------------------------------------------------------------


class Bursting(Recorder):
    """A receiver that is offered several lines at once; `takes` says whether it takes them."""

    def __init__(
        self,
        takes: Callable[[list[bytes]], bool] = lambda lines: True,
        on_frame: Callable[[bytes | memoryview], None] | None = None,
    ) -> None:
        super().__init__(on_frame)
        #: What it was offered, and how many came singly since the last offer, or before the first.
        self.offered: list[list[bytes]] = []
        self.single: list[int] = [0]
        self._takes = takes

    def burst(self, lines: Sequence[bytes]) -> bool:
        assert {type(line) for line in lines} == {bytes}
        self.offered.append(list(lines))
        self.single.append(0)
        if not self._takes(self.offered[-1]):
            return False
        self.lines += lines
        self.count += len(lines)
        self._tell()
        return True

    def frame(self, line: bytes | memoryview) -> None:
        self.single[-1] += 1
        super().frame(line)

    @property
    def sizes(self) -> list[int]:
        return [len(lines) for lines in self.offered]


def numbered(count: int, end: bytes = b"\n") -> tuple[list[bytes], bytes]:
    """So many lines, and the bytes of them."""
    lines = [b"%d" % n for n in range(count)]
    return lines, b"".join(line + end for line in lines)


@kinds
@pytest.mark.parametrize("chunk", [40, 1000, 1 << 20])
@pytest.mark.parametrize("odd", [0, 1, 2])
async def test_lines_that_come_together(kind: str, chunk: int, odd: int) -> None:
    """What takes several at once is offered so many as are there, within bounds; what it does not take comes singly,
    and all of it in the order in which it was sent."""
    lines, data = numbered(500)
    recorder = Bursting(lambda offered: odd == 0 or len(recorder.offered) % odd != 0)
    async with wired(kind, recorder) as (wire, peer):
        await peer.write(data, chunk)
        await recorder.until(500)
        assert recorder.lines == lines and wire.frames_in == 500
        assert recorder.sizes and all(SEVERAL <= size <= BURST for size in recorder.sizes)


@pytest.mark.parametrize("count", range(1, 9))
async def test_few_lines(count: int) -> None:
    """Fewer than it is worth while for come singly, though they came together."""
    lines, data = numbered(count)
    recorder = Bursting()
    wire = Wire(Batch(), recorder)
    wire.feed(data + b"half")
    assert recorder.lines == lines
    assert recorder.sizes == ([count] if count >= SEVERAL else [])
    assert sum(recorder.single) == (0 if count >= SEVERAL else count)
    wire.abort()


@pytest.mark.parametrize("takes", [True, False])
async def test_so_many_in_a_turn(takes: bool) -> None:
    """The budget of a turn, and the smaller one of a flood, counts lines whichever way they come."""
    lines, data = numbered(150)
    recorder = Bursting(lambda offered: takes)
    wire = Wire(Batch(), recorder)
    wire.feed(data)
    assert (recorder.sizes, recorder.count, wire.frames_in) == ([BURST, BURST], FRAME_BUDGET, FRAME_BUDGET)
    for turn in range(1, 6):
        await anyio.lowlevel.checkpoint()
        assert wire.frames_in == recorder.count == FRAME_BUDGET + turn * FLOOD_BUDGET
    await recorder.until(150)
    assert recorder.lines == lines
    assert recorder.sizes == [BURST, BURST] + [FLOOD_BUDGET] * 5 + [6]
    assert sum(recorder.single) == (0 if takes else 150)
    wire.abort()


@kinds
async def test_a_flood_of_several_at_once(kind: str) -> None:
    """Also of a real peer at most the budget is handed on in one turn of the loop."""
    lines, data = numbered(5000)
    recorder = Bursting(lambda offered: len(recorder.offered) % 3 != 0)
    loop, most, before, going = asyncio.get_running_loop(), 0, 0, True
    async with wired(kind, recorder) as (wire, peer):

        def turn() -> None:
            nonlocal most, before
            most, before = max(most, wire.frames_in - before), wire.frames_in
            if going:
                loop.call_soon(turn)

        loop.call_soon(turn)
        await peer.write(data)
        await recorder.until(5000)
        going = False
        assert recorder.lines == lines and most <= FRAME_BUDGET


@pytest.mark.parametrize(
    ("end", "size"), [(b"\r\n", 1), (b"\n", 5000), (b"\r\n", 5000)], ids=["returns", "large", "both"]
)
async def test_views_come_singly(end: bytes, size: int) -> None:
    """Lines that are no copies are valid for a moment only, and are never offered together."""
    lines = [b"%d" % (n % 10) * size for n in range(50)]
    seen: set[type] = set()
    recorder = Bursting(on_frame=lambda line: seen.add(type(line)))
    wire = Wire(Batch(), recorder)
    wire.feed(b"".join(line + end for line in lines))
    await recorder.until(50)
    assert recorder.lines == lines and recorder.offered == [] and seen == {memoryview}
    wire.feed(numbered(5)[1])
    assert recorder.sizes == [5]
    wire.abort()


async def test_before_and_behind_a_line_that_is_too_long() -> None:
    """What stands around it is offered as ever, and it is told in its place."""
    recorder = Bursting()
    wire = Wire(Batch(), recorder, limit=100)
    lines, data = numbered(10)
    wire.feed(data)
    wire.feed(b"x" * 101 + b"\n" + data)
    await recorder.until(20)
    assert recorder.lines == lines * 2 and len(recorder.too_long_ones) == 1
    assert all(SEVERAL <= size <= BURST for size in recorder.sizes)
    wire.abort()


async def written(recorder: Recorder, batch: Batch, answers: Wire, data: bytes) -> list[int]:
    """How many lines each write to `answers` had that these bytes caused."""
    transport = Keeping()
    answers.pair_with(transport)
    wire = Wire(batch, recorder)
    wire.feed(data)
    wire.abort()
    return [bytes(part).count(b"\n") for part in transport.kept]


async def test_what_lines_cause_is_written_between_them() -> None:
    """Those that are taken together are followed by a write; of those that are not, the peers begin to work while the
    rest is read, each time for twice as many."""
    batch = Batch()
    answers = Wire(batch, Recorder())

    def take(lines: list[bytes]) -> bool:
        answers.send(b"x\n" * len(lines))
        return True

    assert await written(Bursting(take), batch, answers, numbered(64)[1]) == [BURST, BURST]
    singly = Bursting(lambda lines: False, lambda line: answers.send(b"x\n"))
    assert await written(singly, batch, answers, numbered(64)[1]) == [FLUSH_EVERY, 2 * FLUSH_EVERY, FLUSH_EVERY, BURST]
    assert singly.sizes == [BURST, BURST]


async def test_what_lines_cause_where_none_are_taken_together() -> None:
    """A receiver that takes single lines only is handed them in such portions, too."""
    batch = Batch()
    answers = Wire(batch, Recorder())
    recorder = Recorder(lambda line: answers.send(b"x\n"))
    sizes = await written(recorder, batch, answers, numbered(64)[1])
    assert sizes == [FLUSH_EVERY, 2 * FLUSH_EVERY, 4 * FLUSH_EVERY, FLUSH_EVERY]
    assert recorder.lines == numbered(64)[0]


@pytest.mark.parametrize("takes", [True, False])
async def test_the_end_while_several_are_handed_on(takes: bool) -> None:
    """Nothing is handed on any more where the wire ends in the middle of it."""

    def ends(line: bytes | memoryview) -> None:
        if bytes(line) == b"12":
            wire.abort()

    def take(lines: list[bytes]) -> bool:
        if takes:
            wire.abort()
        return takes

    recorder = Bursting(take, ends)
    wire = Wire(Batch(), recorder)
    wire.feed(numbered(64)[1])
    assert recorder.lines == numbered(BURST if takes else 13)[0]
    assert recorder.reasons == [""] and recorder.sizes == [BURST]


async def test_it_is_held_while_several_are_handed_on() -> None:
    """What was not offered yet stays where it is."""

    def take(lines: list[bytes]) -> bool:
        wire.hold()
        return True

    recorder = Bursting(take)
    wire = Wire(Batch(), recorder)
    lines, data = numbered(64)
    wire.feed(data + b"half")
    assert recorder.lines == lines[:BURST]
    assert wire.unread(100) == (b"".join(line + b"\n" for line in lines[BURST:]), b"half")
    wire.abort()


async def test_several_beside_a_calm_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a flood is beside a calm agent its lines come one by one, in short portions, as ever."""
    monkeypatch.setattr(module, "REST", 3600.0)
    clock, batch = Clock(monkeypatch), Batch()
    calm, _ = clock.flood(batch, 1)
    recorder = Bursting(on_frame=clock.tick)
    wire = Wire(batch, recorder)
    wire.feed(b"line\n" * 10 * FRAME_BUDGET)
    assert recorder.sizes == [BURST, BURST] and recorder.single == [0, 0, 0]
    calm.feed(b"line\n")
    for turn in range(1, 4):
        await anyio.lowlevel.checkpoint()
        assert recorder.single == [0, 0, 3 * turn]
    assert recorder.sizes == [BURST, BURST]
    for one in (calm, wire):
        one.abort()


@kinds
async def test_what_takes_several_raises(kind: str) -> None:
    """A fault in handling several closes that connection only; it is reported, what it caused before is written."""
    batch, reported = Batch(), list[BaseException]()

    def fault(lines: list[bytes]) -> bool:
        other.send(b"before the fault\n")
        raise KeyError("boom")

    recorder, neighbour = Bursting(fault), Bursting()
    async with (
        wired(kind, neighbour, batch=batch) as (other, other_peer),
        wired(kind, recorder, batch=batch, on_error=reported.append) as (wire, peer),
    ):
        await peer.write(numbered(9)[1])
        await wire.closed.wait()
        assert recorder.lines == [] and recorder.sizes == [9]
        assert recorder.reasons == ["internal error: KeyError: 'boom'"]
        assert [type(e) for e in reported] == [KeyError]
        assert await other_peer.lines(1) == [b"before the fault"]
        await other_peer.write(numbered(9)[1])
        await neighbour.until(9)


# --- out --------------------------------------------------------------------------------------------------------------


@kinds
async def test_answers_leave_when_the_read_is_handled(kind: str) -> None:
    """What frames cause to be sent is written at the end of the read: each wire's own, in its order."""
    batch, wires = Batch(), list[Wire]()

    def answer(line: bytes | memoryview) -> None:
        for wire in reversed(wires):
            wire.send(b"got ", line, b"\n")

    async with (
        wired(kind, Recorder(), batch=batch) as (second, second_peer),
        wired(kind, Recorder(answer), batch=batch) as (first, first_peer),
    ):
        wires += [first, second]
        await first_peer.write(b"1\n2\n3\n")
        for peer in (first_peer, second_peer):
            assert await peer.lines(3) == [b"got 1", b"got 2", b"got 3"]


@kinds
async def test_sending_outside_a_read(kind: str) -> None:
    """What a timer or a task sends leaves in the next turn; small and large parts keep their order."""
    large = os.urandom(100_000).hex().encode()
    async with wired(kind, Recorder()) as (wire, peer):
        wire.send(b"a", b"b")
        wire.send(b"c", memoryview(large), b"d", b"\n")
        wire.send(b"e\n")
        assert await peer.lines(2) == [b"abc" + large + b"d", b"e"]


@kinds
async def test_what_is_sent_before_the_connection_is_kept(kind: str) -> None:
    """A greeting may be answered while the descriptors are still being attached."""
    recorder = Recorder()
    wire = Wire(Batch(), recorder)
    wire.send(b"early\n")
    await anyio.lowlevel.checkpoint()
    peer = await attach(kind, wire)
    assert await peer.lines(1) == [b"early"]
    peer.close()
    await wire.closed.wait()


@kinds
async def test_sending_after_the_end_does_nothing(kind: str) -> None:
    """A channel that is gone drops what it gets, and never raises."""
    recorder = Recorder()
    async with wired(kind, recorder) as (wire, peer):
        peer.close()
        await wire.closed.wait()
        wire.send(b"x\n")
        wire.finish()
        wire.close_writing()
        wire.abort()
        await anyio.lowlevel.checkpoint()
    assert len(recorder.reasons) == 1


@kinds
async def test_a_peer_that_goes_between_two_writes(kind: str) -> None:
    """C040: a broken pipe is an end like any other."""
    recorder = Recorder()
    async with wired(kind, recorder) as (wire, peer):
        wire.send(b"one\n")
        assert await peer.lines(1) == [b"one"]
        peer.close()
        for _ in range(10):
            wire.send(b"two\n")
            await anyio.lowlevel.checkpoint()
        await wire.closed.wait()
    assert len(recorder.reasons) == 1


@pytest.mark.parametrize("kind", ["sockets", "pipes"])
async def test_the_last_words_of_a_peer_that_does_not_listen_any_more(kind: str) -> None:
    """C040: what it had written is still read; then it is cut off, with the reason, if it does not end by itself."""
    recorder = Recorder()
    async with wired(kind, recorder) as (wire, peer):
        peer.close_reading()
        wire.send(b"too late\n")
        await peer.write(b"last words\n")
        assert await recorder.until_lost() == "the peer closed its reading side"
        assert recorder.lines == [b"last words"]
        await wire.closed.wait()


@pytest.mark.parametrize("kind", ["sockets", "pipes"])
async def test_an_end_of_both_sides_is_orderly(kind: str) -> None:
    """A program that exits closes both at once: which of the two is seen first makes no difference."""
    recorder = Recorder()
    async with wired(kind, recorder) as (wire, peer):
        peer.close_reading()
        await anyio.sleep(0.02)
        peer.close_writing()
        await wire.closed.wait()
    assert recorder.reasons == [""]


# --- a peer that does not read ----------------------------------------------------------------------------------------


@kinds
async def test_a_peer_that_does_not_read_is_not_read_either(kind: str) -> None:
    """What it sent is answered when it reads again; until then its answers do not pile up beyond the bound."""
    answer = b"x" * 65_535 + b"\n"
    full_at, count = 1 << 20, 2000
    waiting: list[int] = []

    def respond(line: bytes | memoryview) -> None:
        waiting.append(1)
        wire.send(answer)

    recorder = Recorder(respond, keep=False)
    async with wired(kind, recorder, full_at=full_at) as (wire, peer):
        await peer.write(b"ping\n" * count)
        for _ in range(200):
            await anyio.lowlevel.checkpoint()
        # The bound, what the system holds, and what one flush may add.
        assert recorder.count * len(answer) < full_at + (1 << 20) + module.FLUSH_EVERY * len(answer)
        got = 0
        while got < count * len(answer):
            got += len(await peer.read())
        assert recorder.count == count
        await peer.write(b"ping\n")
        await recorder.until(count + 1)


@kinds
async def test_an_upstream_is_read_whatever_it_takes(kind: str) -> None:
    """A server that does not read its requests is `full`, and its answers still arrive."""
    recorder = Recorder()
    async with wired(kind, recorder, full_at=1 << 20, keep_reading=True) as (wire, peer):
        while not wire.full:
            wire.send(b"x" * 65_536)
            await anyio.lowlevel.checkpoint()
        await peer.write(b"answer\n")
        await recorder.until(1)
        while wire.full:
            await peer.read()


@kinds
async def test_a_peer_that_never_reads_is_cut_off(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the last bound the connection is closed, with the reason, and frees what it held."""
    monkeypatch.setattr(module, "ABORT_AT", 4 << 20)
    recorder = Recorder()
    async with wired(kind, recorder) as (wire, _):
        while not recorder.reasons:
            wire.send(b"x" * (1 << 20))
            await anyio.lowlevel.checkpoint()
        await wire.closed.wait()
        assert "MiB of answers were not read" in recorder.reasons[0]


@kinds
async def test_a_peer_that_ended_and_never_reads(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was answered before its end is kept for a while, not for ever."""
    monkeypatch.setattr(module, "LINGER", 0.05)
    recorder = Recorder()
    async with wired(kind, recorder) as (wire, peer):
        wire.send(b"x" * (4 << 20))
        await anyio.lowlevel.checkpoint()
        peer.close_writing()
        await wire.closed.wait()
        assert recorder.reasons == [""]


@kinds
async def test_a_peer_that_ended_and_reads_slowly(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as somebody takes the answers, they are written to the last byte."""
    monkeypatch.setattr(module, "LINGER", 0.05)
    recorder = Recorder()
    async with wired(kind, recorder) as (wire, peer):
        wire.send(b"x" * (4 << 20))
        await anyio.lowlevel.checkpoint()
        peer.close_writing()
        assert await recorder.until_lost() == ""
        got = 0
        while data := await peer.read(1 << 17):
            got += len(data)
            await anyio.sleep(0.005)
        assert got == 4 << 20
        await wire.closed.wait()


# --- views ------------------------------------------------------------------------------------------------------------


class Keeping(asyncio.WriteTransport):
    """A transport that never gets rid of anything and keeps what it was given, as asyncio's do from Python 3.12 on."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Data] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.kept))

    def write(self, data: Any) -> None:
        self.kept.append(data)

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        pass

    def close(self) -> None:
        pass


@kinds
@pytest.mark.parametrize("size", [40_000, 300_000])
async def test_a_transport_may_keep_views(kind: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was passed on as a view is unchanged however much is read after it into the same place."""
    monkeypatch.setattr(module, "_KEEPS_VIEWS", True)
    batch, slow, transport = Batch(), Recorder(), Keeping()
    reader = Wire(batch, slow)
    reader.pair_with(transport)
    recorder = Recorder(lambda line: reader.send(b"got ", line, b"\n"))
    count = 40
    async with wired(kind, recorder, batch=batch) as (_, peer):
        for n in range(count):
            await peer.write(b"%d" % (n % 10) * size + b"\n" + b"small\n" * (n % 3), 50_000)
        await recorder.until(count + sum(n % 3 for n in range(count)))
    assert any(isinstance(part, memoryview) for part in transport.kept)
    sent = b"".join(bytes(part) for part in transport.kept).splitlines()
    assert sent == [b"got " + line for line in recorder.lines]


@kinds
async def test_a_slow_reader_gets_what_was_meant(kind: str) -> None:
    """The same over a real transport of this Python, whichever way it keeps what it could not write."""
    batch, size, count = Batch(), 50_000, 60
    async with wired(kind, Recorder(), batch=batch, keep_reading=True) as (slow, slow_peer):
        recorder = Recorder(lambda line: slow.send(b"got ", line, b"\n"))
        async with wired(kind, recorder, batch=batch) as (_, peer):
            for n in range(count):
                await peer.write(b"%d" % (n % 10) * size + b"\n", 20_000)
            await recorder.until(count)
            lines = await slow_peer.lines(count)
    assert lines == [b"got " + line for line in recorder.lines]


# --- ends -------------------------------------------------------------------------------------------------------------


@kinds
async def test_a_receiver_that_raises(kind: str) -> None:
    """A fault in handling one frame closes that connection only; it is reported, and the reason says what it was."""
    batch, reported = Batch(), list[BaseException]()

    def fault(line: bytes | memoryview) -> None:
        if bytes(line) == b"bad":
            other.send(b"before the fault\n")
            raise KeyError("boom")

    recorder, neighbour = Recorder(fault), Recorder()
    async with (
        wired(kind, neighbour, batch=batch) as (other, other_peer),
        wired(kind, recorder, batch=batch, on_error=reported.append) as (wire, peer),
    ):
        await peer.write(b"good\nbad\nnever\n")
        await wire.closed.wait()
        assert recorder.lines == [b"good"]
        assert recorder.reasons == ["internal error: KeyError: 'boom'"]
        assert [type(e) for e in reported] == [KeyError]
        assert await other_peer.lines(1) == [b"before the fault"]
        await other_peer.write(b"alive\n")
        await neighbour.until(1)


@kinds
async def test_a_receiver_that_raises_at_the_end(kind: str) -> None:
    """Also the last call cannot keep a connection from being closed."""

    class Faulty(Recorder):
        def lost(self, reason: str) -> None:
            super().lost(reason)
            raise RuntimeError("boom")

    reported: list[BaseException] = []
    recorder = Faulty()
    async with wired(kind, recorder, on_error=reported.append) as (wire, peer):
        peer.close()
        await wire.closed.wait()
    assert [str(e) for e in reported] == ["boom"]
    assert len(recorder.reasons) == 1


@kinds
async def test_finish_writes_what_is_queued(kind: str) -> None:
    """An orderly end from our side: the peer gets everything, then the end."""
    recorder = Recorder()
    async with wired(kind, recorder) as (wire, peer):
        large = b"x" * 3_000_000 + b"\n"
        wire.send(large)
        wire.finish()
        wire.send(b"not any more\n")
        assert await peer.rest() == large
        await wire.closed.wait()
    assert recorder.reasons == [""]


@kinds
async def test_finish_with_a_peer_that_does_not_read(kind: str) -> None:
    """Whoever asked for the end decides how long it may take."""
    recorder = Recorder()
    async with wired(kind, recorder) as (wire, _):
        wire.send(b"x" * 3_000_000)
        wire.finish()
        with anyio.move_on_after(0.05) as waited:
            await wire.closed.wait()
        assert waited.cancelled_caught
        wire.abort()
        await wire.closed.wait()
    assert len(recorder.reasons) == 1


@kinds
@pytest.mark.parametrize("queued", [0, 3_000_000])
async def test_abort_and_finish_in_any_number(kind: str, queued: int) -> None:
    """An end that is asked for again and again is one end."""
    for ends in ("aa", "fa", "af", "ff", "faa", "afa"):
        recorder = Recorder()
        async with wired(kind, recorder) as (wire, _):
            wire.send(b"x" * queued)
            for end in ends:
                wire.abort() if end == "a" else wire.finish()
        assert len(recorder.reasons) == 1, ends


@pytest.mark.parametrize("end", [Wire.abort, Wire.finish])
async def test_an_end_before_the_connection(end: Callable[[Wire], None]) -> None:
    """Whoever waits for `closed` of a wire that was never connected waits for nothing."""
    recorder = Recorder()
    wire = Wire(Batch(), recorder)
    end(wire)
    await wire.closed.wait()
    assert recorder.reasons == [""]


@kinds
async def test_a_wire_that_has_ended_before_it_is_connected(kind: str) -> None:
    """What was fed first may end it; the descriptors that come then are closed."""

    def fault(line: bytes | memoryview) -> None:
        raise ValueError("boom")

    recorder = Recorder(fault)
    wire = Wire(Batch(), recorder)
    wire.feed(b"x\n")
    assert recorder.reasons == ["internal error: ValueError: boom"]
    peer = await attach(kind, wire)
    assert await peer.rest() == b""
    peer.close()
    await wire.closed.wait()


@kinds
async def test_a_peer_that_is_gone_before_it_is_connected(kind: str) -> None:
    """A program that exits at once is an orderly end, and both sides are closed before `closed` is set."""
    for _ in range(5):
        recorder = Recorder()
        wire = Wire(Batch(), recorder)
        peer = await attach(kind, wire)
        peer.close()
        await wire.closed.wait()
        assert recorder.reasons == [""]


@kinds
async def test_close_writing_leaves_the_last_words(kind: str) -> None:
    """End of file for the peer, whose answer to that is still read."""
    recorder = Recorder()
    async with wired(kind, recorder) as (wire, peer):
        wire.send(b"bye\n")
        wire.close_writing()
        assert await peer.rest() == b"bye\n"
        await peer.write(b"last words\n")
        peer.close_writing()
        await wire.closed.wait()
        assert recorder.lines == [b"last words"]
        assert recorder.reasons == [""]


@kinds
async def test_one_wire_ends_others_in_the_middle_of_a_write(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that is cut off while all are flushed makes others be told, in the same flush."""
    monkeypatch.setattr(module, "ABORT_AT", 2 << 20)
    batch = Batch()

    class Telling(Recorder):
        def lost(self, reason: str) -> None:
            super().lost(reason)
            other.send(b"the neighbour is gone\n")

    async with (
        wired(kind, Recorder(), batch=batch) as (other, other_peer),
        wired(kind, Telling(), batch=batch) as (wire, _),
    ):
        other.send(b"one\n")
        wire.send(b"x" * (4 << 20))
        assert await other_peer.lines(2) == [b"one", b"the neighbour is gone"]
        await wire.closed.wait()

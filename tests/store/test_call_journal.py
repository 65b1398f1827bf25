"""The file of the outcome journal."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

import pytest

from mcphub.errors import ConfigError
from mcphub.store import call_journal as module
from mcphub.store.call_journal import CALLS, HEADER, SIZE, UNKNOWN_CALLS, CallJournal, read_file
from mcphub.store.call_record import ANSWERED, NOT_ACTED_ON, OPEN, RECORD, UNKNOWN, CallRecord, names
from tests.store.calls import DIGEST, TRACE, begin

KILLED = """
import os, signal, sys
from mcphub.store.call_journal import CallJournal
from tests.store.calls import begin
journal = CallJournal(sys.argv[1])
journal.close(begin(journal, "done"), 2)
begin(journal, "open")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(params=["mapped", "written"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where a journal may be, on a file system that writes in place or on another one."""
    monkeypatch.setattr(module, "_in_place", lambda fd: request.param == "mapped")
    return str(tmp_path / "state" / "calls")


@pytest.fixture
def journal(path: str) -> Iterator[CallJournal]:
    journal = CallJournal(path)
    yield journal
    journal.end()


def outcomes(records: Iterator[CallRecord]) -> list[tuple[str, int, str]]:
    return [(one.tool, one.outcome, one.reason) for one in records]


def test_a_call(journal: CallJournal, path: str) -> None:
    """It is there before it is sent, and closed in place; who looks at the file sees it at once."""
    number = begin(journal)
    (one,) = journal.records()
    assert (one.server, one.tool, one.outcome, one.ended, one.attempts) == ("db", "drop", OPEN, 0.0, 1)
    assert (one.digest, one.trace, one.agent_era, one.server_era) == (DIGEST.hex(), TRACE.hex(), "legacy", "modern")
    assert journal.is_open(number) and one.id == journal.id_of(number)
    assert journal.again(number, 2)
    journal.close(number, ANSWERED, 2)
    assert not journal.is_open(number)
    (one,) = read_file(path)
    assert (one.outcome, one.attempts) == (ANSWERED, 2) and one.ended >= one.began > 1e9
    journal.sync()


def test_nobody_else_may_look(path: str) -> None:
    """The file is the person's alone, whatever its mode was, and takes all its place at once."""
    CallJournal(path).end()
    Path(path).chmod(0o644)
    CallJournal(path).end()
    there = Path(path).stat()
    assert stat.S_IMODE(there.st_mode) == 0o600 and there.st_size == SIZE and there.st_blocks * 512 >= SIZE
    assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700


def test_the_next_daemon(path: str) -> None:
    """Numbers go on, and ids stay what they were; what was open is unknown and told, with why."""
    first = CallJournal(path)
    journal_id = first.id_of(begin(first, "done"))
    first.close(1, ANSWERED)
    begin(first, "open", request=77)
    first.end()
    first.end()
    assert begin(first) == 0 and not first.again(1, 2)
    assert outcomes(read_file(path)) == [("open", UNKNOWN, "stopped"), ("done", ANSWERED, "")]
    second = CallJournal(path)
    assert [(one.tool, one.request) for one in second.left] == [("open", 77)]
    assert outcomes(second.records()) == [("open", UNKNOWN, "stopped"), ("done", ANSWERED, "")]
    assert [one.id for one in second.records()][1] == journal_id
    assert begin(second) == 3
    second.close(3, NOT_ACTED_ON, 1, "tls")
    second.end()
    third = CallJournal(path)
    assert third.left == () and third.problem == "" and begin(third) == 4
    third.end()


def test_a_daemon_that_is_killed(path: str) -> None:
    """SIGKILL loses nothing that was stored; without a daemon the file itself says what it was."""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", KILLED, path], cwd=root, timeout=20)
    assert done.returncode == -signal.SIGKILL
    expected = [("open", UNKNOWN, "killed"), ("done", ANSWERED, "")]
    assert outcomes(read_file(path)) == expected
    journal = CallJournal(path)
    assert len(journal.left) == 1 and outcomes(journal.records()) == expected
    journal.end()


def test_one_daemon_at_a_time(journal: CallJournal, path: str) -> None:
    """A second one gets none, and harms nothing."""
    begin(journal)
    with pytest.raises(ConfigError, match="cannot keep .*: another program has it locked"):
        CallJournal(path)
    assert outcomes(journal.records()) == [("drop", OPEN, "")]


def test_going_round(journal: CallJournal) -> None:
    """The oldest that have ended make place; what is open is never written over, and what is unknown stays longer."""
    kept = begin(journal, "kept")
    lost = begin(journal, "lost")
    journal.close(lost, UNKNOWN, 1, "lost")
    for _ in range(CALLS + 10):
        journal.close(begin(journal, "many"), ANSWERED)
    found = outcomes(journal.records())
    assert len(found) == CALLS + 1
    assert found[-2:] == [("lost", UNKNOWN, "lost"), ("kept", OPEN, "")]
    assert journal.is_open(kept) and not journal.is_open(lost)
    assert not journal.again(lost, 2)
    journal.close(lost, ANSWERED)  # its place is another call's by now
    assert ("lost", UNKNOWN, "lost") in outcomes(journal.records())
    journal.close(kept, ANSWERED)
    assert outcomes(journal.records())[-1] == ("kept", ANSWERED, "")


def test_too_many_at_once(journal: CallJournal) -> None:
    """What has no place is not recorded, but counted; when one ends there is place again."""
    numbers = [begin(journal) for _ in range(CALLS)]
    assert all(numbers) and begin(journal) == 0 and journal.missed == 1
    journal.close(numbers[3], ANSWERED)
    assert begin(journal) == numbers[3] + CALLS


def test_many_unknown(journal: CallJournal, path: str) -> None:
    """The newest ones have copies; closing one again changes its copy, too."""
    numbers = [begin(journal, "lost") for _ in range(UNKNOWN_CALLS + 5)]
    for number in numbers:
        journal.close(number, UNKNOWN, 1, "lost")
    journal.close(numbers[-1], UNKNOWN, 1, "stopped")
    for _ in range(CALLS):
        journal.close(begin(journal, "many"), ANSWERED)
    found = outcomes(journal.records())[CALLS:]
    assert found == [("lost", UNKNOWN, "stopped")] + [("lost", UNKNOWN, "lost")] * (UNKNOWN_CALLS - 1)
    journal.end()
    again = CallJournal(path)
    assert outcomes(again.records())[CALLS:] == found and again.problem == ""
    again.end()


def filled(path: str) -> bytes:
    journal = CallJournal(path)
    for _ in range(20):
        journal.close(begin(journal), ANSWERED)
    journal.end()
    return Path(path).read_bytes()


def place(number: int) -> int:
    """Where its record begins."""
    return HEADER + number * RECORD


@pytest.mark.parametrize(
    ("damage", "kept"),
    [
        (lambda data: data[: place(10)], 9),
        (lambda data: data[: place(10) + 100], 9),
        (lambda data: data[:100], 0),
        (lambda data: b"\0" * HEADER + data[HEADER:], 20),
        (lambda data: data[:20] + b"\xff\xff" + data[22:], 20),
        (lambda data: data + b"x", 20),
        (lambda data: data[: place(5)] + os.urandom(RECORD) + data[place(6) :], 19),
        (lambda data: data[: place(5)] + data[place(6) : place(7)] + data[place(6) :], 19),
        (lambda data: b"not one at all\n" * 1000, 0),
    ],
    ids=["cut", "torn", "short", "headless", "header", "longer", "rubbish", "moved", "other"],
)
def test_damage(path: str, damage: object, kept: int) -> None:
    """What can be read is kept, under the same ids; the whole is set aside, told once; then it is as good as new."""
    data = filled(path)
    ids = [one.id for one in read_file(path)]
    damaged: bytes = damage(data)  # type: ignore[operator]
    Path(path).write_bytes(damaged)
    journal = CallJournal(path)
    assert f"and all of it is set aside as {path}.damaged" in journal.problem
    assert f": {kept} calls of it are kept" in journal.problem
    assert Path(f"{path}.damaged").read_bytes() == damaged
    found = [one.id for one in journal.records()]
    assert len(found) == kept and set(found) <= set(ids)
    assert begin(journal) > (20 if kept >= 19 else kept)
    journal.end()
    again = CallJournal(path)
    assert again.problem == "" and len(list(again.records())) == kept + 1
    again.end()
    assert sorted(os.listdir(Path(path).parent)) == ["calls", "calls.damaged"]


@pytest.mark.parametrize(("size", "open"), [(8, False), (16, False), (60, False), (90, False), (16, True)])
def test_a_record_that_was_just_written(
    journal: CallJournal, path: str, tmp_path: Path, size: int, open: bool
) -> None:
    """What is killed in the middle of a store leaves half a record: that call was not sent. It is told, and nothing is
    set aside."""
    for _ in range(CALLS + 5):
        journal.close(begin(journal), ANSWERED)
    if open:  # the next place is another's still
        journal.again(6, 2)
    number = CALLS + 6 + open
    data = bytearray(Path(path).read_bytes())
    at = place(number & (CALLS - 1))
    assert begin(journal, "other") == number
    data[at : at + size] = Path(path).read_bytes()[at : at + size]
    other = str(tmp_path / "other")
    Path(other).write_bytes(data)
    after = CallJournal(other)
    assert after.problem.startswith("the last record of the journal") and not os.path.exists(f"{other}.damaged")
    assert len(after.left) == open and len(list(after.records())) == CALLS - 1
    assert begin(after) == CALLS + 6
    after.end()


def test_a_copy_that_was_just_written(journal: CallJournal, path: str, tmp_path: Path) -> None:
    """The same of the copy of an unknown one: its record is there still."""
    numbers = [begin(journal, f"t{at}") for at in range(2)]
    data = bytearray(Path(path).read_bytes())
    journal.close(numbers[0], UNKNOWN, 1, "lost")
    at = HEADER + CALLS * RECORD
    copy = Path(path).read_bytes()[at : at + 60]
    assert any(copy)
    data[at : at + 60] = copy
    other = tmp_path / "other"
    other.write_bytes(data)
    after = CallJournal(str(other))
    assert not os.path.exists(f"{other}.damaged") and [one.tool for one in after.left] == ["t0", "t1"]
    after.end()


@pytest.mark.parametrize("which", ["newest", "oldest", "copy"])
@pytest.mark.parametrize("at", [0, 5, 24, 60, 100])
def test_one_record_is_damaged(journal: CallJournal, path: str, tmp_path: Path, which: str, at: int) -> None:
    """A bit that is another one in a record that was finished is damage, also where the daemon was killed: it is told,
    and the whole is set aside."""
    for _ in range(4):
        number = begin(journal)
        journal.close(number, ANSWERED)
    journal.close(begin(journal), UNKNOWN, 1, "lost")
    journal.close(number := begin(journal), ANSWERED)
    data = bytearray(Path(path).read_bytes())
    data[{"newest": place(number), "oldest": place(1), "copy": HEADER + CALLS * RECORD}[which] + at] ^= 1
    other = str(tmp_path / "other")
    Path(other).write_bytes(data)
    after = CallJournal(other)
    if at == 5:  # a reason, which no check is of
        assert len(list(after.records())) == 6
    else:
        assert "1 of its records cannot be read" in after.problem and os.path.exists(f"{other}.damaged")
    after.end()


@pytest.mark.parametrize("ended", [False, True])
def test_ids_after_a_power_failure(path: str, ended: bool) -> None:
    """An id that was given out never names another call, also where the disk has nothing of the call, or of the daemon
    that gave it."""
    first = CallJournal(path)
    kept = first.id_of(begin(first, "kept"))
    if ended:
        first.end()
    disk = Path(path).read_bytes()
    if ended:
        first = CallJournal(path)
    given = first.id_of(begin(first, "lost"))
    first.close(2, UNKNOWN, 1, "lost")
    first.end()
    Path(path).write_bytes(disk)
    second = CallJournal(path)
    assert begin(second, "another") == 2
    ids = {one.tool: one.id for one in second.records()}
    assert ids["kept"] == kept and given not in ids.values()
    assert second.id_of(2) == ids["another"]
    second.end()


def test_two_daemons_are_killed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first left open is known to the third, and for a while to those behind it; what was told to its agent at
    the time is not among that."""
    first = CallJournal(path)
    begin(first, "open", request=77)
    first.close(begin(first, "lost"), UNKNOWN, 1, "lost")
    killed = Path(path).read_bytes()
    first.end()
    Path(path).write_bytes(killed)
    second = CallJournal(path)
    assert ([one.tool for one in second.left], second.left_before) == (["open"], ())
    killed = Path(path).read_bytes()
    second.end()
    Path(path).write_bytes(killed)
    third = CallJournal(path)
    assert (third.left, [(one.tool, one.request) for one in third.left_before]) == ((), [("open", 77)])
    third.end()
    monkeypatch.setattr(module, "LEFT_SECONDS", 0.0)
    late = CallJournal(path)
    assert late.left == late.left_before == ()
    late.end()


def test_what_is_left_alone(path: str, tmp_path: Path) -> None:
    """What another version wrote, and what is no file, is not touched."""
    Path(path).parent.mkdir()
    Path(path).write_bytes(b"mcphub calls 2\n" + bytes(50))
    with pytest.raises(ConfigError, match="another version of mcphub wrote it"):
        CallJournal(path)
    with pytest.raises(ConfigError, match="another version of mcphub wrote it"):
        list(read_file(path))
    assert Path(path).read_bytes()[:15] == b"mcphub calls 2\n"
    (tmp_path / "link").symlink_to(path)
    for other in (str(tmp_path), str(tmp_path / "link")):
        with pytest.raises(ConfigError, match="cannot keep"):
            CallJournal(other)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ConfigError, match="it is not a regular file"):
        CallJournal(str(tmp_path / "fifo"))
    assert list(read_file(str(tmp_path / "none"))) == []
    with pytest.raises(ConfigError, match="cannot read"):
        list(read_file(str(tmp_path)))


def test_a_file_that_was_only_made(path: str) -> None:
    """A daemon that was killed before it wrote anything leaves nothing to complain of."""
    Path(path).parent.mkdir()
    Path(path).write_bytes(bytes(SIZE))
    journal = CallJournal(path)
    assert journal.problem == "" and begin(journal) == 1
    journal.end()


def test_where_it_is_mapped() -> None:
    """Where the system says nothing of file systems, or says another one, nothing is mapped."""
    fd = os.open("/proc/self/status", os.O_RDONLY)
    assert not module._in_place(fd)
    os.close(fd)


def dies(journal: CallJournal, path: str) -> None:
    """Leave the file as a SIGKILL would."""
    data = Path(path).read_bytes()
    journal.end()
    Path(path).write_bytes(data)


def test_what_a_daemon_recorded(path: str) -> None:
    """The next one knows who asked for each call of it, whatever came of it, and whether that is all of them."""
    first = CallJournal(path)
    assert first.whole_of == 0
    first.close(begin(first, request=1), ANSWERED)
    begin(first, request=2)
    dies(first, path)
    second = CallJournal(path)
    begin(second, request=3)
    assert second.whole_of == first.epoch != second.epoch
    assert second.requests_of(first.epoch) == (frozenset([1, 2]), False)
    second.end()
    third = CallJournal(path)
    assert third.whole_of == second.epoch
    assert third.requests_of(second.epoch) == (frozenset([3]), False)
    third.end()


def test_what_may_not_be_all(path: str) -> None:
    """Where a call was not recorded, a record cannot be read, or some have made place for others, that is known."""
    first = CallJournal(path)
    begin(first, request=1)
    first.doubt()
    dies(first, path)
    second = CallJournal(path)
    assert second.whole_of == 0
    for _ in range(CALLS):
        begin(second)
    assert begin(second) == 0  # it has no place
    second.end()
    third = CallJournal(path)
    assert third.whole_of == 0
    for request in range(CALLS + 1):
        third.close(begin(third, request=request), ANSWERED)
    assert third.requests_of(third.epoch) == (frozenset(range(1, CALLS + 1)), True)
    dies(third, path)
    data = bytearray(Path(path).read_bytes())
    data[HEADER + 100] ^= 0xFF
    Path(path).write_bytes(data)
    fourth = CallJournal(path)
    assert fourth.problem and fourth.whole_of == 0
    fourth.end()


# --- several at once --------------------------------------------------------------------------------------------------


@pytest.fixture
def mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CallJournal]:
    """One that is mapped into memory."""
    monkeypatch.setattr(module, "_in_place", lambda fd: True)
    journal = CallJournal(str(tmp_path / "mapped"))
    yield journal
    journal.end()


NAMES = names("db", "drop", "claude-code", "/w")


def begin_all(journal: CallJournal, requests: Sequence[int], text: bytes = NAMES, modern: bool = True) -> Sequence[int]:
    """Calls with these requests, whose arguments are of 20 bytes more than that, and digested to that."""
    form = journal.form(text, crc32(text), modern)
    return journal.begin_all(form, requests, [20 + one for one in requests], [b"%016d" % one for one in requests])


def begin_each(journal: CallJournal, requests: Sequence[int], text: bytes = NAMES, modern: bool = True) -> list[int]:
    """The same, one by one."""
    return [
        journal.begin(text, crc32(text), one, 20 + one, b"%016d" % one, bytes(16), False, modern) for one in requests
    ]


def go_to(journal: CallJournal, last: int) -> None:
    """Let this be the number of the newest call; all before have ended."""
    while journal.last < last:
        journal.close(begin(journal, "before, with a long name"), ANSWERED)


def state(journal: CallJournal) -> tuple[bytes, int, int, list[bool]]:
    """All that calls can change."""
    opened = [journal.is_open(number) for number in range(journal.last - 50, journal.last + 50)]
    return Path(journal.path).read_bytes(), journal.last, journal.missed, opened


@pytest.mark.parametrize(
    ("text", "modern"),
    [(NAMES, False), (names("", "", "", ""), True), (names("s" * 99, "t" * 999, "a" * 99, "/w" * 999), True)],
    ids=["usual", "none", "long"],
)
@pytest.mark.parametrize("last", [0, 7, CALLS - 1, 2 * CALLS + 2])
def test_many_are_stored_as_each_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int, text: bytes, modern: bool
) -> None:
    """The file has the same bytes after each step, whatever was at their places before."""
    monkeypatch.setattr(module, "_in_place", lambda fd: True)
    monkeypatch.setattr(module, "time_ns", lambda: 1_700_000_000_123_456_789)
    monkeypatch.setattr(os, "urandom", lambda n: b"\7" * n)
    together, singly = (CallJournal(str(tmp_path / name)) for name in ("together", "singly"))
    requests = [0, 5, 2**32 - 40, 7, 7, 1]
    for journal in (together, singly):
        go_to(journal, min(last, 15))
        journal.last = last  # as if it had gone round
    numbers = begin_all(together, requests, text, modern)
    assert list(numbers) == begin_each(singly, requests, text, modern) == list(range(last + 1, last + 7))
    assert state(together) == state(singly)
    for some in (numbers[2:4], [numbers[5], numbers[0]], numbers[1:2]):
        assert together.answered_all(some)
        for number in some:
            singly.close(number, ANSWERED)
        assert state(together) == state(singly)
    assert [one for one in numbers if together.is_open(one)] == [numbers[4]]
    assert list(together.records()) == list(singly.records())
    for journal in (together, singly):
        begin(journal, "next")
        journal.end()
    assert Path(together.path).read_bytes() == Path(singly.path).read_bytes()


def test_what_is_read_of_many(mapped: CallJournal) -> None:
    """Each is there under its own id before it is sent, and closed when it was answered."""
    numbers = begin_all(mapped, [3, 4, 5, 6])
    found = list(mapped.records())
    assert [one.id for one in reversed(found)] == [mapped.id_of(number) for number in numbers]
    assert [(one.request, one.size, one.digest) for one in reversed(found)] == [
        (one, 20 + one, (b"%016d" % one).hex()) for one in (3, 4, 5, 6)
    ]
    assert {(one.server, one.tool, one.agent, one.workspace) for one in found} == {("db", "drop", "claude-code", "/w")}
    assert {(one.trace, one.agent_era, one.server_era, one.attempts) for one in found} == {("", "legacy", "modern", 1)}
    assert {(one.outcome, one.ended) for one in found} == {(OPEN, 0.0)}
    assert mapped.answered_all(numbers[:2])
    now = [(one.outcome, one.attempts) for one in reversed(list(mapped.records()))]
    assert now == [(ANSWERED, 1), (ANSWERED, 1), (OPEN, 1), (OPEN, 1)]
    assert all(one.ended >= one.began > 1e9 for one in mapped.records() if one.outcome == ANSWERED)
    assert mapped.requests_of(mapped.epoch) == (frozenset([3, 4, 5, 6]), False)
    assert begin(mapped) == numbers[-1] + 1
    mapped.sync()


def test_many_at_the_end_of_the_ring(mapped: CallJournal) -> None:
    """Those that would go on at its beginning are not recorded together, and nothing is done; each finds its place by
    itself, and then there is place for many again."""
    go_to(mapped, CALLS - 5)
    assert list(begin_all(mapped, [1, 2])) == [CALLS - 4, CALLS - 3]
    before = state(mapped)
    assert begin_all(mapped, [3, 4, 5]) == () and state(mapped) == before
    assert begin_each(mapped, [3, 4, 5]) == [CALLS - 2, CALLS - 1, CALLS]
    assert list(begin_all(mapped, [6, 7])) == [CALLS + 1, CALLS + 2]
    assert mapped.answered_all([CALLS - 1, CALLS, CALLS + 1])
    assert [one.request for one in mapped.records() if one.outcome == OPEN] == [7, 3, 2, 1]


def test_many_that_just_fit(mapped: CallJournal) -> None:
    """The last place of the ring is one as well."""
    go_to(mapped, CALLS - 3)
    assert list(begin_all(mapped, [1, 2])) == [CALLS - 2, CALLS - 1]
    assert list(begin_all(mapped, [3, 4])) == [CALLS, CALLS + 1]
    assert mapped.answered_all([CALLS - 2, CALLS - 1, CALLS, CALLS + 1])


def test_all_places_at_once(mapped: CallJournal) -> None:
    """Every place but that of number 0, which is the last one."""
    assert len(begin_all(mapped, range(CALLS - 1))) == CALLS - 1
    before = state(mapped)
    assert begin_all(mapped, [1]) != () and begin_all(mapped, [1]) == ()
    assert mapped.missed == 0 and before != state(mapped)
    assert mapped.answered_all(range(1, CALLS + 1))
    assert {one.outcome for one in mapped.records()} == {ANSWERED}


@pytest.mark.parametrize("at", range(4))
def test_an_open_call_is_in_the_way(mapped: CallJournal, at: int) -> None:
    """What is open is not written over: nothing is recorded, each finds its place by itself, past the open one."""
    go_to(mapped, 9 + at)
    kept = begin(mapped, "kept")
    go_to(mapped, CALLS + 9)
    before = state(mapped)
    assert kept == 10 + at and begin_all(mapped, [1, 2, 3, 4]) == () and state(mapped) == before
    numbers = begin_each(mapped, [1, 2, 3, 4])
    assert numbers == [number for number in range(CALLS + 10, CALLS + 15) if number != kept + CALLS]
    assert mapped.answered_all(numbers) and mapped.is_open(kept)
    mapped.close(kept, ANSWERED)
    go_to(mapped, 2 * CALLS + 9)
    assert list(begin_all(mapped, [1, 2, 3, 4])) == list(range(2 * CALLS + 10, 2 * CALLS + 14))


def test_an_open_call_beside_them(mapped: CallJournal) -> None:
    """One right behind their places is not in their way, nor those that were begun just before."""
    go_to(mapped, 5)
    kept = [begin(mapped, "kept")]
    go_to(mapped, CALLS)
    kept.append(begin(mapped, "kept"))
    assert list(begin_all(mapped, [1, 2, 3, 4])) == list(range(CALLS + 2, CALLS + 6))
    assert all(map(mapped.is_open, kept)) and begin_all(mapped, [5]) == ()


@pytest.mark.parametrize("ended", [False, True])
def test_a_journal_that_takes_none_together(journal: CallJournal, path: str, ended: bool) -> None:
    """One that is not mapped, or has ended: nothing is recorded, and nothing closed."""
    number = begin(journal)
    if ended:
        journal.end()
    if journal.mapped:
        assert list(begin_all(journal, [1, 2])) == [2, 3] and journal.answered_all([number, 3])
        return
    before = Path(path).read_bytes()
    assert begin_all(journal, [1, 2]) == () and not journal.answered_all([number])
    assert Path(path).read_bytes() == before and journal.last == number
    if not ended:
        journal.close(number, ANSWERED)
        assert outcomes(journal.records()) == [("drop", ANSWERED, "")]


def test_one_of_many_has_made_place(mapped: CallJournal) -> None:
    """Its answer comes late: none of them is closed together, and closing them singly leaves the other one alone."""
    numbers = list(begin_all(mapped, [1, 2, 3]))
    mapped.close(numbers[1], ANSWERED)
    mapped.last = CALLS + 1
    assert begin(mapped, "other") == CALLS + numbers[1]
    before = state(mapped)
    assert not mapped.answered_all(numbers) and state(mapped) == before
    for number in numbers:
        mapped.close(number, ANSWERED)
    assert [(one.tool, one.request) for one in mapped.records() if one.outcome == OPEN] == [("other", 5)]


@pytest.mark.parametrize("at", range(3))
def test_one_of_many_is_unknown(mapped: CallJournal, at: int) -> None:
    """Its copy would have to be changed, too: nothing is, and closing them singly changes both."""
    numbers = begin_all(mapped, [1, 2, 3])
    mapped.close(numbers[at], UNKNOWN, 1, "lost")
    before = state(mapped)
    assert not mapped.answered_all(numbers) and state(mapped) == before
    assert mapped.answered_all([number for number in numbers if number != numbers[at]])
    mapped.close(numbers[at], ANSWERED)
    go_to(mapped, CALLS + 10)
    assert [one.outcome for one in mapped.records() if one.number < 4] == [ANSWERED]


def test_numbers_of_no_call(mapped: CallJournal) -> None:
    """0, which is what a call that was not recorded has, and what was never given, close nothing."""
    numbers = begin_all(mapped, [1, 2])
    before = state(mapped)
    for odd in (0, numbers[-1] + 1, numbers[0] + CALLS):
        for some in ([odd], [*numbers, odd], [odd, *numbers]):
            assert not mapped.answered_all(some) and state(mapped) == before
    assert mapped.answered_all(numbers)


def test_many_that_a_killed_daemon_leaves(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was answered is, what was not is unknown to the next daemon; numbers go on behind all of them."""
    monkeypatch.setattr(module, "_in_place", lambda fd: True)
    first = CallJournal(path)
    numbers = begin_all(first, [1, 2, 3, 4, 5])
    assert first.answered_all(numbers[1:3])
    ids = [first.id_of(number) for number in numbers]
    dies(first, path)
    second = CallJournal(path)
    assert second.problem == "" and second.whole_of == first.epoch
    assert [(one.id, one.request) for one in second.left] == [(ids[0], 1), (ids[3], 4), (ids[4], 5)]
    assert second.requests_of(first.epoch) == (frozenset([1, 2, 3, 4, 5]), False)
    assert [(one.outcome, one.reason) for one in reversed(list(second.records()))] == [
        (UNKNOWN, "killed"), (ANSWERED, ""), (ANSWERED, ""), (UNKNOWN, "killed"), (UNKNOWN, "killed"),
    ]  # fmt: skip
    # They had other numbers there, and are not this daemon's to close.
    before = state(second)
    assert not second.answered_all([1, 4, 5]) and state(second) == before
    assert list(begin_all(second, [6, 7])) == [6, 7]
    second.end()


@pytest.mark.parametrize("cleared", [16, 64])
def test_killed_while_a_place_is_cleared(mapped: CallJournal, tmp_path: Path, cleared: int) -> None:
    """What was there has ended, and what comes was not sent: nothing else is lost."""
    go_to(mapped, CALLS + 5)
    data = bytearray(Path(mapped.path).read_bytes())
    at = place((mapped.last + 1) & (CALLS - 1))
    data[at : at + cleared] = bytes(cleared)
    (tmp_path / "other").write_bytes(data)
    other = CallJournal(str(tmp_path / "other"))
    assert not os.path.exists(f"{other.path}.damaged") and other.left == ()
    assert len(list(other.records())) == CALLS - 1 and begin(other) == mapped.last + 1
    other.end()


@pytest.mark.parametrize("before", [5, CALLS + 5])
@pytest.mark.parametrize("whole", [0, 2, 3])
@pytest.mark.parametrize("size", [0, 1, 3, 4, 8, 16, 60, 90])
def test_killed_while_many_are_stored(
    mapped: CallJournal, tmp_path: Path, whole: int, size: int, before: int
) -> None:
    """Those that were stored may have been sent; one of which half is there was not, nor those behind it. Nothing is
    set aside. A store first clears its place."""
    go_to(mapped, before)
    data = bytearray(Path(mapped.path).read_bytes())
    numbers = begin_all(mapped, [1, 2, 3, 4])
    after = Path(mapped.path).read_bytes()
    start, stop = place(numbers[0] & (CALLS - 1)), place(numbers[whole] & (CALLS - 1)) + size
    data[start:stop] = after[start:stop]
    data[stop : stop - size + RECORD] = bytes(RECORD - size)
    (tmp_path / "other").write_bytes(data)
    other = CallJournal(str(tmp_path / "other"))
    assert not os.path.exists(f"{other.path}.damaged")
    assert other.problem.startswith("the last record of the journal") == bool(size)
    assert [one.request for one in other.left] == [1, 2, 3, 4][:whole]
    assert begin(other) == numbers[whole]
    other.end()

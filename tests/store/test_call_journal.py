"""The file of the outcome journal."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcphub.errors import ConfigError
from mcphub.store import call_journal as module
from mcphub.store.call_journal import CALLS, HEADER, SIZE, UNKNOWN_CALLS, CallJournal, read_file
from mcphub.store.call_record import ANSWERED, NOT_ACTED_ON, OPEN, RECORD, UNKNOWN, CallRecord
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

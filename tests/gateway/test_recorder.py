"""What the outcome journal is told of many calls at once is what it would be told of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import anyio
import msgspec
import pytest

from mcphub.gateway.call import Said
from mcphub.gateway.outcomes import DIGESTED, Outcomes
from mcphub.gateway.recorder import Recorder
from mcphub.protocol.jsonrpc import Raw
from mcphub.store import call_journal
from mcphub.store.call_journal import CALLS, CallJournal
from mcphub.store.call_record import ANSWERED, OPEN, UNKNOWN, CallRecord, names
from tests.gateway.bench import Bench, Server, call

pytestmark = pytest.mark.anyio

NAMES = names("s", "t", "test", "/w")
ARGUMENTS: list[Any] = [{}, {"a": 1}, {"a": [1, "\u00e9"]}, {"a": 1}, {"a": "x" * (DIGESTED - 9)}]


@pytest.fixture(autouse=True)
def in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the tests are: on a file system that writes in place."""
    monkeypatch.setattr(call_journal, "_in_place", lambda fd: True)


@pytest.fixture
async def outcomes(bench: Bench, tmp_path: Path) -> AsyncIterator[Outcomes]:
    """The journal of the gateway."""
    bench.gateway.outcomes.open(str(tmp_path / "calls"))
    yield bench.gateway.outcomes
    bench.gateway.outcomes.end()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[CallJournal]:
    journal = CallJournal(str(tmp_path / "alone"))
    yield journal
    journal.end()


def digest() -> Any:
    return hashlib.blake2b(digest_size=16, salt=b"salt")


def without_place(records: list[CallRecord]) -> list[CallRecord]:
    """All but what tells two records of the same call apart, oldest first."""
    return [msgspec.structs.replace(one, id="", number=0, began=0.0, ended=0.0) for one in reversed(records)]


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("pid", [None, 77])
async def test_records_are_those_of_single_calls(bench: Bench, outcomes: Outcomes, era: str, pid: int | None) -> None:
    """Digests, who asked, names, eras and sizes are the same, and so are the records once all are answered."""
    server = Server("s", era=era)
    await bench.up(server)
    agent = bench.agent("/w\0view")
    agent.session.pid = pid
    agent.initialize()
    for mid, arguments in enumerate(ARGUMENTS):
        agent.ask("tools/call", call(arguments=arguments), id=mid)
    recorder = outcomes.recorder(agent.session.toolset.routes["mcp__s__t"], agent.session, era == "modern")
    assert recorder is not None
    mids = [b"%d" % mid for mid in range(len(ARGUMENTS))]
    numbers = recorder.begin(mids, [Raw(json.dumps(arguments).encode()) for arguments in ARGUMENTS])
    assert list(numbers) == [6, 7, 8, 9, 10]
    found = without_place(outcomes.records()())
    assert found[:5] == found[5:]
    assert [one.size for one in found[:5]] == [len(json.dumps(arguments)) for arguments in ARGUMENTS]
    assert {(one.agent, one.workspace, one.server_era, one.outcome) for one in found} == {("test", "/w", era, OPEN)}
    assert [one.request for one in found[:5]] == [crc32(mid, pid or 0) for mid in mids]
    for number in range(1, 6):
        server.text(await server.call(number), "x")
    assert recorder.answered(numbers)
    found = without_place(outcomes.records()())
    assert found[:5] == found[5:] and {(one.outcome, one.attempts) for one in found} == {(ANSWERED, 1)}


async def test_it_is_put_on_the_disk(bench: Bench, outcomes: Outcomes) -> None:
    """The journal of the hub knows of what was recorded together, and of what was closed."""
    server = Server("s")
    await bench.up(server)
    agent = bench.agent().initialize()
    recorder = outcomes.recorder(agent.session.toolset.routes["mcp__s__t"], agent.session, False)
    assert recorder is not None
    assert not outcomes._news.is_set()
    numbers = recorder.begin([b"1", b"2"], [Raw(b"{}"), Raw(b"{}")])
    assert outcomes._news.is_set()
    outcomes._news, outcomes._due = anyio.Event(), False  # as it is once that was written
    assert recorder.answered(numbers) and outcomes._news.is_set()
    outcomes.end()
    assert list(recorder.begin([b"3"], [Raw(b"{}")])) == [] and not recorder.answered(numbers)


def test_news(journal: CallJournal) -> None:
    """Told with each begin and each answer, once for all."""
    told: list[int] = []
    said = Said(None, "test", NAMES, crc32(NAMES), 5)
    recorder = Recorder(journal, said, digest, True, lambda: told.append(journal.last))
    numbers = recorder.begin([b"1", b"2", b"3"], [Raw(b"{}"), Raw(b'{"a":1}'), Raw(b"{}")])
    assert told == [3]
    assert recorder.answered(numbers[:2])
    assert told == [3, 3]
    third, second, first = journal.records()
    assert (first.outcome, second.outcome, third.outcome) == (ANSWERED, ANSWERED, OPEN)
    assert first.digest == third.digest == hashlib.blake2b(b"{}", digest_size=16, salt=b"salt").hexdigest()
    assert second.digest == hashlib.blake2b(b'{"a":1}', digest_size=16, salt=b"salt").hexdigest()


def test_what_cannot_be_told_together(journal: CallJournal) -> None:
    """Nothing is recorded where there is no place for all, and nothing closed where one is unknown by now."""
    recorder = Recorder(journal, Said(None, "test", NAMES, crc32(NAMES), 5), digest, False, lambda: None)
    numbers = recorder.begin([b"1", b"2"], [Raw(b"{}")] * 2)
    journal.close(numbers[1], UNKNOWN, 1, "timeout")
    assert not recorder.answered(numbers) and journal.is_open(numbers[0])
    journal.last = CALLS - 2
    assert list(recorder.begin([b"3", b"4"], [Raw(b"{}")] * 2)) == [] and journal.last == CALLS - 2
    assert not recorder.answered([0])


async def test_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    """Without a journal, or with one that takes none together, calls are told singly."""
    outcomes, agent = Outcomes(b"key"), bench.agent()
    route: Any = None
    assert outcomes.recorder(route, agent.session, False) is None
    monkeypatch.setattr(call_journal, "_in_place", lambda fd: False)
    outcomes.open(str(tmp_path / "calls"))
    assert outcomes.recorder(route, agent.session, False) is None
    outcomes.end()

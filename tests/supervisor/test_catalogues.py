"""What servers offer, over the end of a daemon."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from mcphub.connection.doubts import MOST
from mcphub.connection.handshake import Facts
from mcphub.connection.rest import Known
from mcphub.connection.source import Source
from mcphub.spec import HttpSpec, InProcessSpec, InstanceKey, Origin, Scope, Secret, ServerSpec, StdioSpec
from mcphub.store import catalogues as files
from mcphub.store.catalogues import CatalogueStore
from mcphub.supervisor import catalogues as module
from mcphub.supervisor.catalogues import Catalogues

pytestmark = pytest.mark.anyio

TOOLS = (b'{"name": "a", "description":"\xc3\xa9"}', b'{"name":"b"}')
SHELF = {"prompts/list": (b'{"name":"p"}',), "resources/list": ()}
INFO: dict[str, Any] = {"name": "x", "version": "1", "more": [1, 2.5, None, {"deep": True}]}
FACTS = Facts("modern", "2026-07-28", INFO, {"tools": {"listChanged": True}}, "say", TOOLS, ("w",), SHELF, True)
TODAY = time.time_ns() // 10**9 // 86_400 * 86_400
KNOWN = Known(FACTS, TOOLS, SHELF, Source("modern", "2026-07-28", "x", declares=b"{}"), float(TODAY))


class Bench:
    """What one daemon after the other has of the files of one directory."""

    def __init__(self, root: Path) -> None:
        self.program = root / "program.py"
        self.program.write_text("1")
        self.directory = root / "catalogues"
        program = StdioSpec("/bin/sh", (Secret(str(self.program)),), {"TOKEN": Secret("s3cret-token")}, cwd=str(root))
        self.spec = ServerSpec("x", Origin(Scope.USER, "f", "k"), program, lazy=True)
        self.said: list[str] = []
        self.store = CatalogueStore(str(self.directory), bytes(32))

    def daemon(self, environment: Mapping[str, str] | None = None, principal: str | None = "") -> Catalogues:
        """One whose servers are used with these credentials, all of them."""

        async def whose(spec: ServerSpec) -> str | None:
            return principal

        log = lambda level, text: self.said.append(f"{level}: {text}")  # noqa: E731
        return Catalogues(self.store, lambda: environment or {}, log, whose)

    def saved(self, spec: ServerSpec | None = None, known: Known = KNOWN, environment: Any = None) -> None:
        """A daemon has run."""
        first, spec = self.daemon(environment), spec or self.spec
        first.note(spec.key(), spec, known)
        first.flush()

    def files(self) -> list[Path]:
        return sorted(self.directory.glob("*.catalogue"))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(module, "SETTLE", 0.01)
    return Bench(tmp_path)


@asynccontextmanager
async def living(catalogues: Catalogues) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(catalogues.run)
        yield
        tasks.cancel_scope.cancel()


def test_what_was_noted_comes_back(bench: Bench) -> None:
    """All of it, exactly; not for an entry that means another instance, and nothing of the entry is in the file."""
    first, key = bench.daemon(), bench.spec.key()
    assert first.recall(key, bench.spec) is None
    first.note(key, bench.spec, KNOWN)
    first.flush()
    assert bench.daemon().recall(key, bench.spec) == KNOWN
    assert isinstance(bench.spec.transport, StdioSpec)
    other = replace(bench.spec, transport=replace(bench.spec.transport, env={"TOKEN": Secret("another")}))
    assert bench.daemon().recall(other.key(), other) is None
    (path,) = bench.files()
    whole = path.name.encode() + path.read_bytes()
    for text in (b"s3cret", str(bench.program).encode(), key.digest.encode()):
        assert text not in whole
    assert bench.said == []


async def test_it_is_written_beside_the_loop_when_it_changes(bench: Bench) -> None:
    """Several changes at once are one; the same again writes nothing; where not all is known, nothing is kept."""
    catalogues, key = bench.daemon(), bench.spec.key()
    async with living(catalogues):
        for tools in ((), TOOLS[:1], TOOLS):
            catalogues.note(key, bench.spec, replace(KNOWN, tools=tools))
        await until(lambda: bool(bench.files()))
        assert bench.daemon().recall(key, bench.spec) == KNOWN
        before = bench.files()[0].stat()
        catalogues.note(key, bench.spec, KNOWN)
        await until(lambda: not catalogues._pending)
        after = bench.files()[0].stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
        catalogues.note(key, bench.spec, None)
        await until(lambda: not bench.files())


async def test_another_program_is_asked_again(bench: Bench) -> None:
    """A program that was changed while no daemon ran is named once; one that was not is left alone."""
    first, key = bench.daemon(), bench.spec.key()
    first.note(key, bench.spec, KNOWN)
    first.flush()
    found: list[InstanceKey] = []
    for text in ("1", "another"):
        if text != "1":
            bench.program.write_text(text)
        second = bench.daemon()
        second.outdated = found.append
        assert second.recall(key, bench.spec) == KNOWN
        async with living(second):
            await until(lambda second=second: not second._unproven)
            if text != "1":
                await until(lambda: bool(found))
    assert found == [key]


@pytest.mark.parametrize("content", [b"", b"\x00", b"\xc1", msgspec.msgpack.encode({"tools": 3})])
def test_content_of_another_kind_is_dropped(bench: Bench, content: bytes) -> None:
    """The server is listed again, which is said, and saved anew."""
    key = bench.spec.key()
    bench.store.save("\0".join((key.digest, key.workspace, key.name)), content)
    catalogues = bench.daemon()
    assert catalogues.recall(key, bench.spec) is None
    assert len(bench.said) == 1 and "x: what it offers is listed again" in bench.said[0]
    catalogues.note(key, bench.spec, KNOWN)
    catalogues.flush()
    assert bench.daemon().recall(key, bench.spec) == KNOWN


@pytest.mark.parametrize("info", [{"name": 1 << 70}, {"name": "\ud800"}])
def test_what_cannot_be_saved_is_said_once(bench: Bench, info: dict[str, Any]) -> None:
    """And what was saved before, which is not so any more, is gone."""
    catalogues, key = bench.daemon(), bench.spec.key()
    catalogues.note(key, bench.spec, KNOWN)
    catalogues.flush()
    odd = Known(Facts("legacy", "2025-11-25", info, {}, ""), TOOLS, {})
    for _ in range(2):
        catalogues.note(key, bench.spec, odd)
        catalogues.flush()
    assert bench.files() == []
    assert len(bench.said) == 1 and bench.said[0].startswith("warning: x: what it offers is not saved")


def test_a_place_that_cannot_be_written(bench: Bench) -> None:
    """It is said once, and costs nothing else."""
    bench.directory.write_bytes(b"")
    catalogues, key = bench.daemon(), bench.spec.key()
    for _ in range(2):
        catalogues.note(key, bench.spec, KNOWN)
        catalogues.flush()
    assert len(bench.said) == 1 and "cannot write" in bench.said[0]


def test_there_are_not_too_many(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go when new ones are written."""
    monkeypatch.setattr(files, "MAX_FILES", 2)
    catalogues = bench.daemon()
    for number in range(4):
        spec = replace(bench.spec, name=f"x{number}")
        catalogues.note(spec.key(), spec, KNOWN)
        catalogues.flush()
        for path in bench.files():
            os.utime(path, ns=(path.stat().st_mtime_ns - 10**9,) * 2)
    assert len(bench.files()) == 2
    assert catalogues.recall(spec.key(), spec) == KNOWN


def test_servers_inside_the_daemon_are_asked(bench: Bench) -> None:
    """Their key says only what they are called."""
    spec = replace(bench.spec, transport=InProcessSpec("x"))
    catalogues = bench.daemon()
    catalogues.note(spec.key(), spec, KNOWN)
    catalogues.flush()
    assert bench.files() == []
    assert catalogues.recall(spec.key(), spec) is None


async def looked_up(catalogues: Catalogues, *specs: ServerSpec) -> list[bool]:
    """Of which of these it is known."""
    found = await catalogues.look_up({spec.key(): spec for spec in specs})
    assert all(known == KNOWN for known in found.values())
    return [spec.key() in found for spec in specs]


async def test_what_other_servers_offer_is_looked_up(bench: Bench) -> None:
    """Of all that are asked for at once, exactly as it was; a damaged one is named once, and gone."""
    damaged, none = replace(bench.spec, name="damaged"), replace(bench.spec, name="none")
    bench.saved()
    (path,) = bench.files()
    bench.saved(damaged)
    (broken,) = set(bench.files()) - {path}
    broken.write_bytes(broken.read_bytes()[:-1])
    for _ in range(2):
        assert await looked_up(bench.daemon(), bench.spec, damaged, none) == [True, False, False]
    assert bench.files() == [path]
    (said,) = bench.said
    assert said.startswith("info: damaged: what it offers is listed again: cannot use")


async def test_another_program_is_another_server(bench: Bench) -> None:
    """What is not started for it must not be shown as what another release offers."""
    bench.saved()
    assert await looked_up(bench.daemon(), bench.spec) == [True]
    bench.program.write_text("another")
    assert await looked_up(bench.daemon(), bench.spec) == [False]
    assert bench.said == []


async def test_credentials_that_the_key_does_not_hold(bench: Bench) -> None:
    """B59: of another account, or while it is not known whose it is used with, nothing is used."""
    private = Source("modern", "2026-07-28", "x", "somebody", b"{}")
    bench.saved(known=replace(KNOWN, source=private))
    for principal, used in (("somebody", 1), ("another", 0), ("", 0), (None, 0)):
        catalogues = bench.daemon(principal=principal)
        assert len(await catalogues.look_up({bench.spec.key(): bench.spec})) == used


async def test_instances_with_other_credentials_share_nothing(bench: Bench) -> None:
    """B59: the same server with another token, in a variable or a header, or one that it takes over, has none of it."""
    assert isinstance(bench.spec.transport, StdioSpec)
    remote = HttpSpec(Secret("https://x.example/mcp"), {"Authorization": Secret("Bearer a")}, "https://x.example/mcp")
    taking = replace(bench.spec.transport, env={}, inherit_env=("TOKEN",))
    pairs = [
        (bench.spec.transport, replace(bench.spec.transport, env={"TOKEN": Secret("another")})),
        (remote, replace(remote, headers={"Authorization": Secret("Bearer b")})),
    ]
    for one, other in pairs:
        spec = replace(bench.spec, transport=one)
        bench.saved(spec)
        assert await looked_up(bench.daemon(), spec, replace(spec, transport=other)) == [True, False]
    spec = replace(bench.spec, transport=taking)
    bench.saved(spec, environment={"TOKEN": "one"})
    assert await looked_up(bench.daemon({"TOKEN": "one"}), spec) == [True]
    assert await looked_up(bench.daemon({"TOKEN": "another"}), spec) == [False]
    assert bench.daemon({"TOKEN": "another"}).recall(spec.key(), spec) is None
    assert not any(b"TOKEN" in path.read_bytes() or b"another" in path.read_bytes() for path in bench.files())


@pytest.mark.parametrize(("age", "used"), [(MOST - 90_000, True), (MOST + 3600, False), (-86_400, True)])
async def test_what_is_too_old(bench: Bench, age: float, used: bool) -> None:
    """Is not used, to the day; what was written by a clock that is ahead is."""
    bench.saved(known=replace(KNOWN, at=time.time_ns() / 1e9 - age))
    assert bool(await bench.daemon().look_up({bench.spec.key(): bench.spec})) is used


async def test_what_has_not_changed_is_written_once_a_day(bench: Bench) -> None:
    """However often its server was connected on that day."""
    bench.saved(known=replace(KNOWN, at=TODAY + 5.0))
    (path,) = bench.files()
    before = path.stat()
    bench.saved(known=replace(KNOWN, at=TODAY + 86_399.0))
    assert path.stat().st_ino == before.st_ino
    bench.saved(known=replace(KNOWN, at=TODAY + 86_400.0))
    assert path.stat().st_ino != before.st_ino


async def test_nothing_is_written_while_servers_start(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only once none has for a while, or after a longer time in all."""
    monkeypatch.setattr(module, "SETTLE", 3600.0)
    for most in (3600.0, 0.01):
        monkeypatch.setattr(module, "SETTLE_MOST", most)
        catalogues = bench.daemon()
        async with living(catalogues):
            for _ in range(3):
                catalogues.note(bench.spec.key(), bench.spec, KNOWN)
                await anyio.wait_all_tasks_blocked()
                assert bench.files() == [] or most < 1
            if most < 1:
                await until(lambda: bool(bench.files()))


async def until(condition: Any) -> None:
    """What a thread does gives no event."""
    with anyio.fail_after(5):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.005)

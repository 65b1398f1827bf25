"""What lazy servers offer, over the end of a daemon."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from mcphub.connection.handshake import Facts
from mcphub.connection.rest import Known
from mcphub.spec import InProcessSpec, InstanceKey, Origin, Scope, Secret, ServerSpec, StdioSpec
from mcphub.store import catalogues as files
from mcphub.store.catalogues import CatalogueStore
from mcphub.supervisor import catalogues as module
from mcphub.supervisor.catalogues import Catalogues

pytestmark = pytest.mark.anyio

TOOLS = (b'{"name": "a", "description":"\xc3\xa9"}', b'{"name":"b"}')
SHELF = {"prompts/list": (b'{"name":"p"}',), "resources/list": ()}
INFO: dict[str, Any] = {"name": "x", "version": "1", "more": [1, 2.5, None, {"deep": True}]}
FACTS = Facts("modern", "2026-07-28", INFO, {"tools": {"listChanged": True}}, "say", TOOLS, ("w",), SHELF, True)
KNOWN = Known(FACTS, TOOLS, SHELF)


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

    def daemon(self) -> Catalogues:
        return Catalogues(self.store, dict, lambda level, text: self.said.append(f"{level}: {text}"))

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


async def until(condition: Any) -> None:
    """What a thread does gives no event."""
    with anyio.fail_after(5):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.005)

"""The lists of one instance, on real servers: what counts, when they are looked at again, what that costs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace as replace_struct

from mcphub.connection import lists as module
from mcphub.connection.doubts import MOST
from mcphub.connection.handshake import Facts, Ignored
from mcphub.connection.lists import Lists
from mcphub.connection.machine import Asked, Connected
from mcphub.connection.source import Source
from mcphub.errors import JSONRPCError, TransportError
from mcphub.transport.link import Surroundings
from tests.connection.workers import (
    Bench,
    eventually,
    fake,
    methods,
    outcome,
    poke,
    remote,
    start_call,
    working,
)
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import RudeHttp

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


CHANGED = {"notify": "notifications/tools/list_changed"}


async def test_a_changed_list(around: Surroundings, log: Path) -> None:
    """K2.4: it is listed again, soon; a change that changes nothing is not news."""
    script = {"on": {"ping": [{"tools": ["a", "b"]}, {"tools": ["a", "b"]}]}, "tools": ["a"]}
    async with working(Bench(fake(script, log=log), around)) as bench:
        await bench.connected()
        poke(bench)
        await bench.until(lambda w: len(w.tools) == 2, timeout=1)
        assert bench.worker.listed == 2
        assert methods(log).count("tools/list") == 2
        poke(bench)
        await eventually(lambda: methods(log).count("tools/list") == 3)
        assert bench.worker.listed == 2


async def test_a_list_that_never_comes(around: Surroundings, log: Path) -> None:
    """A server that does not answer for prompts or resources is worth having for its tools."""
    script = {"capabilities": {"tools": {}, "prompts": {}}, "on": {"prompts/list": []}}
    async with working(Bench(fake(script, log=log, startup_timeout=2.4), around)) as bench:
        await bench.connected()
        assert len(bench.worker.tools) == 3
        assert bench.worker.facts is not None
        assert bench.worker.facts.warnings == ("prompts/list was not answered within 0.4 s",)


async def test_a_storm_of_changes(around: Surroundings, log: Path) -> None:
    """A server that says without end that its list has changed is asked less and less often; the last change counts."""
    script = {"on": {"ping": [CHANGED], "logging/setLevel": [{"tools": ["last"]}]}, "capabilities": {"tools": {}}}
    async with working(Bench(fake(script, log=log), around)) as bench:
        await bench.connected()
        for _ in range(60):
            poke(bench)
            await anyio.sleep(0.005)
        assert bench.worker.client is not None
        bench.worker.client.start(Ignored(float("inf")), "logging/setLevel")
        await bench.until(lambda w: len(w.tools) == 1 and b'"last"' in w.tools[0], timeout=5)
        assert methods(log).count("tools/list") <= 6


async def test_a_list_that_is_cut_short_does_not_replace_a_whole_one(around: Surroundings, log: Path) -> None:
    """The server's pages do not end: the old complete list is kept, and the log says why."""
    page = {"answer": {"tools": [{"name": "x", "inputSchema": {}}], "nextCursor": "again"}}
    script = {
        "on": {"tools/list": [[{"default": 1}], [page]], "ping": [CHANGED]},
    }
    async with working(Bench(fake(script, log=log), around)) as bench:
        await bench.connected()
        poke(bench)
        before = bench.worker.tools
        await eventually(lambda: any("the old list is kept" in text for text in bench.logged))
        assert bench.worker.tools is before
        assert isinstance(bench.worker.state, Connected)


FIRST_PAGE = {"answer": {"tools": [{"name": "p", "inputSchema": {"type": "object"}}], "nextCursor": "2"}}

NO_PAGE = {"error": {"code": -32603, "message": "out of order"}}


async def test_a_later_page_that_fails(around: Surroundings, log: Path) -> None:
    """C146: at first there is what came, marked as partial; once there was a whole list, that one is kept, also over a
    new connection."""
    script = {
        "capabilities": {"tools": {}},
        "on": {"tools/list": [[FIRST_PAGE], [NO_PAGE], [{"default": 1}], [FIRST_PAGE], [NO_PAGE]], "ping": [CHANGED]},
        "starts": [{}, {"on": {"tools/list": [[FIRST_PAGE], [NO_PAGE]]}}],
    }
    async with working(Bench(fake(script, log=log), around)) as bench:
        await bench.connected()
        worker = bench.worker
        assert worker.facts is not None and len(worker.tools) == 1
        wholes = [worker.lists.whole]
        assert worker.facts.warnings == ("tools/list was cut short: page 2: out of order",)
        poke(bench)
        await bench.until(lambda w: len(w.tools) == 3)
        assert [*wholes, worker.lists.whole] == [False, True]
        whole = worker.tools
        poke(bench)
        await eventually(lambda: any("page 2: out of order; the old list is kept" in text for text in bench.logged))
        worker.post(Asked())
        await bench.lost()
        await bench.connected()
        assert worker.tools == whole
        assert worker.facts.warnings == ("tools/list was cut short: page 2: out of order; the old list is kept",)


async def test_pages_without_end(around: Surroundings, log: Path) -> None:
    """C146: a server whose pages are slow and do not end is connected within its time, with those that came."""
    page = {"tools": [{"name": "p", "inputSchema": {"type": "object"}}]}
    slow = [[{"pause": 0.1}, {"answer": {**page, "nextCursor": f"{number}"}}] for number in range(100)]
    script = {"capabilities": {"tools": {}}, "on": {"tools/list": slow}}
    async with working(Bench(fake(script, log=log, startup_timeout=2.0), around)) as bench:
        await bench.connected()
        assert bench.worker.facts is not None and bench.worker.tools
        [warning] = bench.worker.facts.warnings
        assert warning.startswith("tools/list was cut short: ")


async def test_another_list_that_fails_later(around: Surroundings, log: Path) -> None:
    """C146: resources that cannot be listed again are those of before."""
    found = {"answer": {"resources": [{"uri": "x:1", "name": "n"}]}}
    script = {
        "capabilities": {"resources": {"listChanged": True}},
        "on": {
            "resources/list": [[found], [NO_PAGE]],
            "resources/templates/list": [{"answer": {"resourceTemplates": []}}],
            "ping": [{"notify": "notifications/resources/list_changed"}],
        },
    }
    async with working(Bench(fake(script, log=log), around)) as bench:
        await bench.connected()
        poke(bench)
        await eventually(lambda: any("resources/list was refused: out of order" in text for text in bench.logged))
        assert len(bench.worker.view().shelf["resources/list"]) == 1
        assert bench.worker.view().shelved == 1


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_list_that_nobody_tells_of(
    around: Surroundings, log: Path, monkeypatch: pytest.MonkeyPatch, era: str
) -> None:
    """B69 and its like: where the server tells of no changes, an agent that asks makes the list be looked at
    again, once its time is over, and not more often than may be."""
    monkeypatch.setattr(module, "UNTOLD_LEAST" if era == "modern" else "UNTOLD_LEGACY", 0.0)
    tools = {"capabilities": {"tools": {}}, "on": {"ping": [{"tools": ["a", "b"], "quiet": 1}]}, "tools": ["a"]}
    async with working(Bench(fake({"era": era, **tools}, log=log), around)) as bench:
        await bench.connected()
        worker = bench.worker
        monkeypatch.setattr(module, "UNTOLD_LEAST", 60.0)
        monkeypatch.setattr(module, "UNTOLD_LEGACY", 60.0)
        poke(bench)
        await eventually(lambda: "ping" in methods(log))
        worker.list_wanted("tools/list")
        await bench.until(lambda w: len(w.tools) == 2)
        assert worker.view().fresh["tools/list"].public is (era == "modern")
        for _ in range(5):
            worker.list_wanted("tools/list")
            worker.list_wanted("prompts/list")
        poke(bench)
        await eventually(lambda: methods(log).count("ping") == 2)
        assert methods(log).count("tools/list") == 2
        assert "prompts/list" not in methods(log)


async def test_a_list_that_the_server_tells_of(
    around: Surroundings, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that tells of changes is not asked because an agent asks, whatever it said of time."""
    monkeypatch.setattr(module, "UNTOLD_LEAST", 0.0)
    async with working(Bench(fake({"era": "modern"}, log=log), around)) as bench:
        await bench.connected()
        bench.worker.list_wanted("tools/list")
        poke(bench)
        await eventually(lambda: "ping" in methods(log))
        assert methods(log).count("tools/list") == 1


@pytest.mark.parametrize("standing", [False, True])
async def test_a_remote_server_that_cannot_tell(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch, standing: bool
) -> None:
    """C062: a legacy server that says it tells of changes, and has no stream to tell on, is asked like one that does
    not; one that has the stream is not."""
    monkeypatch.setattr(module, "UNTOLD_LEGACY", 0.0)
    mcp = OrdinaryMcp(era="legacy", standing=standing)
    async with RudeHttp(mcp) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        await server.until(lambda: server.sent("GET"))
        link = bench.worker._link
        assert link is not None
        if not standing:
            await eventually(lambda: link.deaf)
        mcp.tools = [*mcp.tools, {**mcp.tools[0], "name": "second"}]
        bench.worker.list_wanted("tools/list")
        assert bench.worker.view().deaf is not standing
        if standing:
            assert await outcome(start_call(bench)) == ["answered"]
            assert len(bench.worker.tools) == 1
        else:
            await bench.until(lambda w: len(w.tools) == 2)


# --- by itself --------------------------------------------------------------------------------------------------------


def quiet_lists(now: Callable[[], float] = lambda: 0.0) -> Lists:
    return Lists(1.0, now, wake=lambda: None, changed=lambda: None, warn=lambda text: None)


@pytest.mark.parametrize(
    ("method", "due"),
    [
        ("notifications/tools/list_changed", True),
        ("notifications/prompts/list_changed", True),
        ("notifications/resources/list_changed", True),
        ("notifications/resources/updated", False),
        ("notifications/message", False),
        ("tools/list", False),
    ],
)
async def test_what_speaks_of_lists(method: str, due: bool) -> None:
    """Nothing else makes one be looked at again; a new connection lists them all anyway."""
    lists = quiet_lists()
    assert lists.told(method) is due
    assert lists.due is due
    lists.reset()
    assert not lists.due


async def test_what_counts_as_another_list() -> None:
    """The numbers go up with the items, and once for the first list, even where that is empty."""
    lists = quiet_lists()
    lists.take((), {})
    assert (lists.listed, lists.shelved) == (1, 0)
    lists.take((b"a",), {"prompts/list": (b"p",)})
    lists.take((b"a",), {"prompts/list": (b"p",)})
    assert (lists.listed, lists.shelved) == (2, 1)
    lists.take((), {"resources/list": (b"r",)})
    assert (lists.listed, lists.shelved) == (3, 2)
    assert lists.shelf == {"prompts/list": (b"p",), "resources/list": (b"r",)}


async def test_how_long_changes_are_waited_for() -> None:
    """Twice as long each time in a storm, up to a bound."""
    clock = 100.0
    lists = quiet_lists(lambda: clock)
    lists.reset()
    assert lists.settle() == module.SETTLE, "nothing was listed for long"
    lists._listed_at = clock
    assert [round(lists.settle(), 2) for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    clock += 0.1
    lists.coming.awaited.add(module.TOOLS)
    assert round(lists.settle(), 2) == 0.4, "half a second after the last time, where somebody waits"
    clock += 0.4
    assert lists.settle() == module.SETTLE
    lists.coming.awaited.clear()
    assert lists.settle() == module.SETTLE_MOST
    clock += module.SETTLE_MOST + 1
    assert lists.settle() == module.SETTLE


def items(count: int) -> bytes:
    return json.dumps({"tools": [{"name": f"t{n}"} for n in range(count)], "ttlMs": 60_000}).encode()


def count(lists: Lists) -> int:
    return len(lists.tools)


def tools(lists: Lists) -> tuple[bytes, ...]:
    return lists.tools


def due(lists: Lists) -> bool:
    return lists.due


def whole(lists: Lists) -> bool:
    return lists.whole


class Tools:
    """A server's end of a connection: each request waits for its answer; others of the shelf it does not offer."""

    def __init__(self) -> None:
        self.over = False
        self.era = "modern"
        self.deaf = False
        self.asked: list[str] = []
        self.answers, self._answers = anyio.create_memory_object_stream[bytes | Exception](10)

    async def request(self, method: str, params: bytes, *, timeout: float) -> bytes:
        self.asked.append(method)
        answer = await self._answers.receive()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def usable(self, tools: tuple[bytes, ...]) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
        return tools, ()


FACTS = Facts("modern", "2026-07-28", {}, {"tools": {"listChanged": True}}, "")


@pytest.fixture
async def server() -> AsyncIterator[Tools]:
    tools = Tools()
    with tools.answers, tools._answers:
        yield tools


async def list_again(lists: Lists, server: Any) -> None:
    with anyio.fail_after(5):
        await lists.again(server, server, FACTS)


async def test_a_change_while_a_list_is_read(server: Tools) -> None:
    """What comes is shown, but is no list that anybody may keep: it may be of before the change. Another one is read,
    and that is."""
    changed: list[frozenset[str]] = []
    lists = Lists(
        1.0, time.monotonic, wake=lambda: None, changed=lambda: changed.append(lists.doubts.methods), warn=print
    )
    lists.take((b"a",), {})
    lists.told("notifications/tools/list_changed")
    assert changed == [{"tools/list"}], "from now on nobody keeps the old one"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(list_again, lists, server)
        await anyio.wait_all_tasks_blocked()
        for _ in range(3):
            lists.told("notifications/tools/list_changed")
        server.answers.send_nowait(items(1))
    assert due(lists) and count(lists) == 1 and "tools/list" in lists.doubts
    server.answers.send_nowait(items(2))
    await list_again(lists, server)
    assert count(lists) == 2 and lists.doubts.methods == frozenset() == changed[-1]
    assert not due(lists) and server.asked == ["tools/list"] * 2


async def test_all_who_ask_share_one_request(server: Tools) -> None:
    """K2.4: however many agents ask for a list that is old, or just being read."""
    later = 0.0
    clock = asyncio.get_running_loop().time
    lists = Lists(1.0, lambda: clock() + later, wake=lambda: None, changed=lambda: None, warn=print)
    silent = replace(FACTS, capabilities={"tools": {}})
    link: Any = server
    lists.take((), {})
    lists.look_again(module.TOOLS)
    server.answers.send_nowait(items(1))
    await list_again(lists, server)
    later += 3600
    for _ in range(100):
        lists.wanted(module.TOOLS, silent, link)
    assert due(lists)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(list_again, lists, server)
        await anyio.wait_all_tasks_blocked()
        later += 3600
        for _ in range(100):
            lists.wanted(module.TOOLS, silent, link)
        server.answers.send_nowait(items(1))
    assert not due(lists) and server.asked == ["tools/list"] * 2


async def test_a_connection_that_is_lost_while_a_list_is_read(server: Tools) -> None:
    """The old list stays, and nothing of the new one counts."""
    lists = Lists(1.0, time.monotonic, wake=lambda: None, changed=lambda: None, warn=print)
    lists.take((b"a",), {})
    lists.told("notifications/tools/list_changed")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(list_again, lists, server)
        await anyio.wait_all_tasks_blocked()
        server.over = True
        server.answers.send_nowait(TransportError("gone", kind="lost"))
    assert tools(lists) == (b"a",) and lists.listed == 1 and "tools/list" in lists.doubts


async def test_a_list_that_cannot_be_listed_again(server: Tools) -> None:
    """The old one is shown, in doubt, and tried again when an agent asks, though its server tells of changes; for so
    long, and then it is empty until the server gives one."""
    later, warned = 0.0, list[str]()
    clock = asyncio.get_running_loop().time
    lists = Lists(1.0, lambda: clock() + later, wake=lambda: None, changed=lambda: None, warn=warned.append)
    link: Any = server
    lists.take((b"a",), {})
    lists.told("notifications/tools/list_changed")
    server.answers.send_nowait(JSONRPCError(-1, "not now"))
    await list_again(lists, server)
    assert tools(lists) == (b"a",) and "tools/list" in lists.doubts and not due(lists)
    lists.wanted(module.TOOLS, FACTS, link)
    assert not due(lists), "so soon nobody asks again"
    later += module.FAILED_LEAST
    lists.wanted(module.TOOLS, FACTS, link)
    assert due(lists) and tools(lists) == (b"a",)
    server.answers.send_nowait(JSONRPCError(-1, "not now"))
    await list_again(lists, server)
    later += MOST
    lists.wanted(module.TOOLS, FACTS, link)
    assert tools(lists) == () and not whole(lists) and "too long" in warned[-1]
    server.answers.send_nowait(items(2))
    await list_again(lists, server)
    assert count(lists) == 2 and whole(lists) and lists.doubts.methods == frozenset()


async def test_a_later_list_of_another_release(around: Surroundings, log: Path) -> None:
    """K2.2: a server that comes back as another release has what it lists, also where that is cut, and nothing of the
    old one's lists."""
    prompts = {"prompts/list": [{"answer": {"prompts": [{"name": "poem"}]}}]}
    broken = {"tools/list": [[FIRST_PAGE], [NO_PAGE]], "prompts/list": [NO_PAGE]}
    script = {
        "capabilities": {"tools": {}, "prompts": {}},
        "starts": [{"version": "1", "on": prompts}, {"version": "2", "on": broken}],
    }
    async with working(Bench(fake(script, log=log), around)) as bench:
        await bench.connected()
        worker = bench.worker
        first = worker.lists.source
        assert count(worker.lists) == 3 and worker.lists.shelf["prompts/list"]
        assert first is not None and first.release.endswith("\x001")
        worker.post(Asked())
        await bench.lost()
        await bench.connected()
        assert count(worker.lists) == 1 and "prompts/list" not in worker.lists.shelf
        assert worker.lists.source == replace_struct(first, release=first.release[:-1] + "2")


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({}, module.UNTOLD_LEGACY),
        ({"ttlMs": 0}, module.UNTOLD_LEAST),
        ({"ttlMs": 20_000}, 20.0),
        ({"ttlMs": "soon"}, module.UNTOLD_LEAST),
        ({"ttlMs": 10**12}, 86_400.0),
    ],
    ids=["nothing", "not at all", "20 s", "nonsense", "for ever"],
)
async def test_how_long_a_list_is_believed(server: Tools, said: dict[str, Any], kept: float) -> None:
    """By what its server said, as far as our own limits go; where it said nothing, by our own time. Then whoever asks
    has it listed again."""
    later, clock = 0.0, asyncio.get_running_loop().time
    lists = Lists(1.0, lambda: clock() + later, wake=lambda: None, changed=lambda: None, warn=print)
    link: Any = server
    silent = replace(FACTS, era="modern" if said else "legacy", capabilities={"tools": {}})
    server.era = silent.era
    lists.take((), {})
    lists.look_again(module.TOOLS)
    server.answers.send_nowait(json.dumps({"tools": [], **said}).encode())
    with anyio.fail_after(5):
        await lists.again(server, server, silent)  # type: ignore[arg-type]
    for age, expected in ((kept - 2, False), (kept + 2, True)):
        later = age
        lists.wanted(module.TOOLS, silent, link)
        assert due(lists) is expected


async def test_a_list_that_is_as_it_was_saved() -> None:
    """It is no news: what was merged of it stays merged. Only it is the server's own word from then on."""
    lists, source = quiet_lists(), Source("modern", "2026-07-28", "x")
    saved, shelf = (b"a", b"b"), {"prompts/list": (b"p",)}
    lists.recall(saved, shelf, source)
    assert (lists.saved, lists.listed, lists.shelved) == (True, 1, 1)
    lists.met(source)
    lists.take((b"".join((b"", b"a")), b"b"), {"prompts/list": (b"p",)})
    assert lists.tools is saved and lists.shelf == shelf
    assert (lists.saved, lists.listed, lists.shelved) == (False, 1, 1)
    lists.forget()
    assert (tools(lists), lists.shelf, lists.source, lists.saved) == ((), {}, None, False)

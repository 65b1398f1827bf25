"""The table of workers over real processes: made what is wanted, and taken down whatever state they are in."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from msgspec.structs import replace

from mcphub.connection.client import Client
from mcphub.connection.machine import IDLE, Connected, Disabled, Failed
from mcphub.connection.worker import Worker
from mcphub.protocol.jsonrpc import Raw
from mcphub.spec import Broken, Desired, InstanceKey, Off, Origin, Problem, Scope, Secret, ServerSpec, StdioSpec, Want
from mcphub.store.catalogues import CatalogueStore
from mcphub.supervisor import supervisor as module
from mcphub.supervisor.catalogues import Catalogues
from mcphub.supervisor.startup import Limiters
from mcphub.supervisor.supervisor import Supervisor
from mcphub.transport.link import Surroundings
from tests.connection.workers import QUICK, Call, fake, outcome, received, surroundings
from tests.transport.peers import clean

pytestmark = pytest.mark.anyio

STUBBORN = {"eof": "ignore", "term": "ignore", "on": {"server/discover": [], "initialize": []}}


class Quiet:
    def server_said(self, worker: Worker, client: Client, method: str, params: Raw) -> None:
        pass

    def server_asked(
        self, worker: Worker, client: Client, mid: bytes, method: str, params: Raw, current: int | None
    ) -> bool:
        return False


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    async with clean():
        yield


@pytest.fixture
async def around(nothing_is_left: None) -> AsyncIterator[Surroundings]:
    async with surroundings() as around:
        yield around


@asynccontextmanager
async def running(around: Surroundings, catalogues: Catalogues | None = None) -> AsyncIterator[Supervisor]:
    """One that is stopped in order, in bounded time."""
    supervisor = Supervisor(
        around, Limiters.of(20), QUICK, Quiet(), lambda level, text: None, catalogues=catalogues
    )
    async with anyio.create_task_group() as tasks:
        started = anyio.Event()
        tasks.start_soon(supervisor.run, started)
        await started.wait()
        yield supervisor
        with anyio.fail_after(5):
            await supervisor.stop()
        assert supervisor.workers == {}
        tasks.cancel_scope.cancel()


def wanted(*specs: ServerSpec) -> Desired:
    return {spec.key(): Want(spec) for spec in specs}


async def until(supervisor: Supervisor, condition: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not condition():
            await supervisor.snapshot.newer_than(supervisor.snapshot.revision)


async def until_connected(supervisor: Supervisor, count: int) -> None:
    def reached() -> bool:
        views = supervisor.snapshot.value.views.values()
        return len(views) == count and all(isinstance(view.state, Connected) for view in views)

    await until(supervisor, reached)


async def test_what_is_wanted_runs(around: Surroundings) -> None:
    """All of it, and nothing else; what is not to run is shown and not started; the snapshot never lags behind."""
    origin = Origin(Scope.USER, "/mcp.json", "x")
    off = fake({}, name="off")
    broken = InstanceKey("broken", "broken-1")
    specs = fake({}, name="a"), fake({"era": "modern"}, name="b")
    desired: dict[InstanceKey, Want | Off | Broken] = dict(wanted(*specs))
    desired[off.key()] = Off(off, "approval", "run `mcphub approve off`")
    desired[broken] = Broken(Problem("broken", origin, "cannot parse"))
    async with running(around) as supervisor:
        supervisor.want(desired)
        assert sorted(view.spec.name for view in supervisor.snapshot.value.views.values()) == ["a", "b"]
        assert supervisor.snapshot.value.desired is desired
        await until_connected(supervisor, 2)


async def test_what_did_not_change_is_not_touched(around: Surroundings) -> None:
    """C016: of three servers one stays as it is, one goes, one comes, and one gets another specification."""
    same, goes, comes = fake({}, name="same"), fake({}, name="goes"), fake({}, name="comes")
    changes = fake({}, name="changes")
    async with running(around) as supervisor:
        supervisor.want(wanted(same, goes, changes))
        await until_connected(supervisor, 3)
        before = {view.spec.name: view.pid for view in supervisor.snapshot.value.views.values()}
        workers = {worker.name: worker for worker in supervisor.workers.values()}
        supervisor.want(wanted(same, comes, replace(changes, call_timeout=1.0)))
        await until_connected(supervisor, 3)
        after = {view.spec.name: view.pid for view in supervisor.snapshot.value.views.values()}
        assert after.keys() == {"same", "comes", "changes"}
        assert after["same"] == before["same"]
        assert after["changes"] != before["changes"]
        assert isinstance(workers["goes"].state, Disabled)


async def test_a_replacement_waits_for_what_it_replaces(around: Surroundings, tmp_path: Path) -> None:
    """Two processes of one server may want the same port or file: the new one starts when the old one has ended."""
    log, other = tmp_path / "log", tmp_path / "other"
    old = fake({"eof": 0.05, "log": str(log)}, name="one")
    new = replace(old, call_timeout=1.0)
    async with running(around) as supervisor:
        supervisor.want(wanted(old))
        await until_connected(supervisor, 1)
        supervisor.want(wanted(new, fake({"log": str(other)}, name="two")))
        await until_connected(supervisor, 2)
    marks = [line.split()[0] for line in received(log) if isinstance(line, str) and line[:5] in ("#star", "#eof")]
    assert marks == ["#start", "#eof", "#start", "#eof"]
    first, second = (int(line.split()[1]) for line in received(log) if isinstance(line, str) and "#start" in line)
    assert first != second


def slow(path: Path) -> ServerSpec:
    """A server whose call is answered when the file is there."""
    return fake({"tools": [{"name": "slow", "actions": [{"wait": str(path)}, {"text": "done"}]}]}, name="one")


def call_slow(supervisor: Supervisor) -> tuple[Worker, Call]:
    [worker] = supervisor.workers.values()
    call = Call()
    assert worker.client is not None
    worker.client.call_tool(call, b'"slow"', b"{}", b"")
    return worker, call


async def test_calls_of_what_is_replaced_are_answered(around: Surroundings, tmp_path: Path) -> None:
    """C016: the new one starts at once beside it, and it ends when the last answer is there."""
    old = slow(tmp_path / "release")
    async with running(around) as supervisor:
        supervisor.want(wanted(old))
        await until_connected(supervisor, 1)
        worker, call = call_slow(supervisor)
        pid = worker.pid
        assert pid is not None
        supervisor.want(wanted(replace(old, call_timeout=1.0)))
        await until_connected(supervisor, 1)
        [new] = supervisor.workers.values()
        assert new is not worker and psutil.pid_exists(pid) and not call.told
        (tmp_path / "release").touch()
        assert await outcome(call) == ["answered"]
        await until(supervisor, lambda: isinstance(worker.state, Disabled) and worker.pid is None)
        assert not psutil.pid_exists(pid)
        assert not (supervisor._leaving or supervisor._draining)


async def test_waiting_for_answers_has_an_end(
    around: Surroundings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C016: a call that is not answered by then is lost; a server that dies meanwhile is not started again."""
    log = tmp_path / "log"
    old = slow(tmp_path / "never")
    async with running(around) as supervisor:
        monkeypatch.setattr(module, "DRAIN", 0.1)
        supervisor.want(wanted(old))
        await until_connected(supervisor, 1)
        worker, call = call_slow(supervisor)
        second = replace(fake({"on": {"tools/call": []}}, log=log, name="one"), call_timeout=1.0)
        supervisor.want(wanted(second))
        assert await outcome(call) == ["lost"]
        await until(supervisor, lambda: worker not in supervisor._leaving)
        await until_connected(supervisor, 1)
        monkeypatch.setattr(module, "DRAIN", 60.0)
        worker, call = call_slow(supervisor)
        supervisor.want(wanted(old))
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        await outcome(call)
        await until(supervisor, lambda: worker not in supervisor._leaving)
        assert isinstance(worker.state, Disabled)
        assert sum("#start" in line for line in received(log) if isinstance(line, str)) == 1


@pytest.mark.parametrize("how", ["removed", "off", "stopped", "removed later"])
async def test_what_is_taken_away_ends_with_its_calls(around: Surroundings, tmp_path: Path, how: str) -> None:
    """C016: nobody waits for calls of what a person or policy took away, also where it was being replaced."""
    old = slow(tmp_path / "never")
    async with running(around) as supervisor:
        supervisor.want(wanted(old))
        await until_connected(supervisor, 1)
        worker, call = call_slow(supervisor)
        new = replace(old, call_timeout=1.0)
        if how != "removed":
            supervisor.want(wanted(new))
            assert not call.told
        if how == "stopped":
            await supervisor.stop()
        else:
            supervisor.want({new.key(): Off(new, "policy", "denied")} if how == "off" else {})
        assert await outcome(call) == ["lost"]
        with anyio.fail_after(5):
            while worker in supervisor._leaving:
                await supervisor.snapshot.newer_than(supervisor.snapshot.revision)


async def test_what_failed_beside_an_old_one_tries_again(around: Surroundings, tmp_path: Path) -> None:
    """C016: it may have wanted a port or file that the old one had until its end."""
    old = slow(tmp_path / "release")
    program = fake({}).transport
    assert isinstance(program, StdioSpec)
    words = ("-c", 'test -e "$0" && exec "$@"', str(tmp_path / "release"), program.command, *program.args)
    new = replace(fake({}, name="one"), transport=StdioSpec("/bin/sh", tuple(map(Secret, words))))
    async with running(around) as supervisor:
        supervisor.want(wanted(old))
        await until_connected(supervisor, 1)
        _, call = call_slow(supervisor)
        supervisor.want(wanted(new))
        await until(supervisor, lambda: all(isinstance(w.state, Failed) for w in supervisor.workers.values()))
        (tmp_path / "release").touch()
        assert await outcome(call) == ["answered"]
        await until_connected(supervisor, 1)


async def test_many_changes_of_mind_in_one_turn(around: Surroundings) -> None:
    """Started, replaced, removed, started again before any of it could happen: the last word counts, nothing waits."""
    one = fake({}, name="one")
    versions = [replace(one, call_timeout=float(n)) for n in range(1, 6)]
    async with running(around) as supervisor:
        for version in versions:
            supervisor.want(wanted(version))
        supervisor.want({})
        supervisor.want(wanted(one))
        supervisor.want({})
        supervisor.want(wanted(versions[0]))
        await until_connected(supervisor, 1)
        assert [view.spec for view in supervisor.snapshot.value.views.values()] == [versions[0]]


async def test_stop_with_workers_in_every_state(around: Surroundings, tmp_path: Path) -> None:
    """It ends, whatever they are at; what is wanted meanwhile or afterwards does not start any more."""
    scripts: list[dict[str, Any]] = [{}, {"era": "modern"}, {"before": [{"exit": 1}]}, STUBBORN, STUBBORN, STUBBORN]
    specs = [fake(script, log=tmp_path / str(n), name=str(n)) for n, script in enumerate(scripts)]
    async with running(around) as supervisor:
        supervisor.want(wanted(*specs))
        await until(supervisor, lambda: sum(bool(w.pid) for w in supervisor.workers.values()) >= 5)
        pids = [worker.pid for worker in supervisor.workers.values() if worker.pid]
        with anyio.fail_after(10):
            await supervisor.stop()
        assert [pid for pid in pids if psutil.pid_exists(pid)] == []
        supervisor.want(wanted(*specs))
        assert supervisor.workers == {}


async def test_a_cancelled_supervisor_takes_its_processes_along(around: Surroundings) -> None:
    """The last resort: everything is closed in parallel before it returns."""
    supervisor = Supervisor(around, Limiters.of(3), QUICK, Quiet(), lambda level, text: None)
    pids: list[int] = []
    async with anyio.create_task_group() as tasks:
        started = anyio.Event()
        tasks.start_soon(supervisor.run, started)
        await started.wait()
        supervisor.want(wanted(*(fake({}, name=str(n)) for n in range(5))))
        await until_connected(supervisor, 5)
        pids += [worker.pid for worker in supervisor.workers.values() if worker.pid]
        tasks.cancel_scope.cancel()
    assert len(pids) == 5
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []


async def test_one_snapshot_a_turn(around: Surroundings) -> None:
    """Ten servers that die in one moment are few snapshots, and each says what is true by then."""
    async with running(around) as supervisor:
        supervisor.want(wanted(*(fake({}, name=str(n)) for n in range(10))))
        await until_connected(supervisor, 10)
        revision = supervisor.snapshot.revision
        for worker in supervisor.workers.values():
            worker.want_log_level("debug")
            worker._changed()
        assert supervisor.snapshot.revision == revision
        await supervisor.snapshot.newer_than(revision)
        assert supervisor.snapshot.revision == revision + 1
        for worker in supervisor.workers.values():
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
        await until(supervisor, lambda: not isinstance(next(iter(supervisor.workers.values())).state, Connected))
        await until_connected(supervisor, 10)


async def test_what_a_lazy_server_said_is_remembered(around: Surroundings, tmp_path: Path) -> None:
    """One that comes back, and one like it for another agent, sleep from the start, with the tools that were listed."""
    log = tmp_path / "log"
    lazy = fake({"tools": ["echo"]}, log=log, name="lazy", lazy=True)
    async with running(around) as supervisor:

        async def until(spec: ServerSpec, state: object) -> Worker:
            with anyio.fail_after(10):
                while supervisor.workers[spec.key()].state != state:
                    await supervisor.snapshot.newer_than(supervisor.snapshot.revision)
            return supervisor.workers[spec.key()]

        supervisor.want(wanted(lazy))
        await until(lazy, IDLE)
        another = replace(lazy, agent="7")
        supervisor.want(wanted(lazy, another))
        assert (await until(another, IDLE)).listed == 1
        supervisor.want({})
        supervisor.want(wanted(lazy, replace(lazy, agent="8")))
        for worker in supervisor.workers.values():
            assert worker.state == IDLE
            assert b'"echo"' in worker.tools[0]
        assert len([line for line in received(log) if isinstance(line, str) and "#start" in line]) == 1


async def test_what_a_lazy_server_said_outlives_the_daemon(around: Surroundings, tmp_path: Path) -> None:
    """Its lists are saved as often as they change, and not where they are not whole: that one is started again."""
    store = CatalogueStore(str(tmp_path / "catalogues"), bytes(32))
    changing = {
        "capabilities": {"tools": {"listChanged": True}, "logging": {}},
        "on": {"logging/setLevel": [{"tools": ["new"]}, {"answer": {}}]},
    }
    page = {"answer": {"tools": [{"name": "p", "inputSchema": {"type": "object"}}], "nextCursor": "2"}}
    cut = [[page], [{"error": {"code": -1, "message": "no"}}]]
    failing = {"capabilities": {"tools": {}}, "on": {"tools/list": cut}}
    whole = fake(changing, log=tmp_path / "whole", name="whole", lazy=True)
    part = fake(failing, log=tmp_path / "part", name="part", lazy=True)
    for starts in ((1, 1), (1, 2)):
        catalogues = Catalogues(store, around.environment, lambda level, text: None)
        async with running(around, catalogues) as supervisor:
            supervisor.want(wanted(whole, part))
            worker = supervisor.workers[whole.key()]
            worker.want_log_level("debug")
            assert (worker.state == IDLE) is (starts != (1, 1))

            def renewed(worker: Worker = worker) -> bool:
                return any(b'"new"' in tool for tool in worker.tools)

            await until(supervisor, renewed)
            await until(supervisor, lambda: all(one.state == IDLE for one in supervisor.workers.values()))
            catalogues.flush()
        found = [[x for x in received(tmp_path / name) if str(x).startswith("#start")] for name in ("whole", "part")]
        assert tuple(map(len, found)) == starts


async def test_memory_of_lazy_servers_is_bounded(
    around: Surroundings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that was forgotten is started for its lists again."""
    monkeypatch.setattr(module, "MAX_KNOWN", 1)
    specs = [fake({}, log=tmp_path / name, name=name, lazy=True) for name in ("a", "b")]
    async with running(around) as supervisor:
        for spec in specs:
            supervisor.want(wanted(spec))
            with anyio.fail_after(10):
                while supervisor.workers[spec.key()].state != IDLE:
                    await supervisor.snapshot.newer_than(supervisor.snapshot.revision)
        supervisor.want({})
        supervisor.want(wanted(*specs))
        assert [supervisor.workers[spec.key()].state == IDLE for spec in specs] == [False, True]


async def test_a_snapshot_costs_what_changed(around: Surroundings) -> None:
    """With a thousand servers, one that changes must not cost a look at all: the views of the others are the same
    objects, in the order in which they came; what is gone is gone."""
    specs = [fake({}, name=name) for name in ("c", "a", "b")]
    async with running(around) as supervisor:
        supervisor.want(wanted(*specs))
        await until_connected(supervisor, 3)
        before = supervisor.snapshot.value.views
        assert [view.spec for view in before.values()] == specs
        changing = specs[1].key()
        supervisor.workers[changing].want_log_level("debug")
        supervisor.workers[changing].sever()
        supervisor.catch_up()
        after = supervisor.snapshot.value.views
        assert [key for key in after if after[key] is not before[key]] == [changing]
        assert after[changing].tried and not before[changing].tried
        supervisor.want(wanted(specs[0], specs[2]))
        assert list(supervisor.snapshot.value.views) == [specs[0].key(), specs[2].key()]
        assert set(before) == {spec.key() for spec in specs}


async def test_what_was_offered_before_is_looked_for_when_it_is_asked_for(around: Surroundings, tmp_path: Path) -> None:
    """And not before: a start reads nothing. Who asks for it waits for the look and no longer, found or not; it is in
    the snapshot then, of a server that is on its way, and nothing of one that has said something itself."""
    store = CatalogueStore(str(tmp_path / "catalogues"), bytes(32))
    hangs: dict[str, Any] = {"on": {"server/discover": [], "initialize": []}}
    log = tmp_path / "log"
    slow = fake({"starts": [{"tools": ["a"]}, hangs]}, log=log, name="slow")
    unknown, quick = fake(hangs, name="unknown"), fake({"tools": ["b"]}, name="quick")
    for run in ("first", "second"):
        catalogues = Catalogues(store, around.environment, lambda level, text: None)
        async with running(around, catalogues) as supervisor:
            supervisor.want(wanted(slow, quick) if run == "first" else wanted(slow, quick, unknown))
            keys = [spec.key() for spec in (slow, quick, unknown)]
            if run == "first":
                await until_connected(supervisor, 2)
            else:
                await until(supervisor, lambda: isinstance(supervisor.workers[quick.key()].state, Connected))
                assert not supervisor.workers[slow.key()].listed
                assert not supervisor.look_up([quick.key()])
                revision = supervisor.snapshot.revision
                assert supervisor.look_up(keys) and supervisor.look_up(keys)
                with anyio.fail_after(5):
                    await supervisor.snapshot.newer_than(revision)
                assert not supervisor.look_up(keys)
                view = supervisor.snapshot.value.views[slow.key()]
                assert [b'"a"' in tool for tool in view.tools] == [True] and not isinstance(view.state, Connected)
                assert not supervisor.snapshot.value.views[unknown.key()].listed
            catalogues.flush()

"""From the files of the workspaces in use to what runs, with real files and real servers."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphub.config.load import load
from mcphub.desired import desired_state
from mcphub.policy import approval
from mcphub.sessions import workspaces as module
from mcphub.spec import Desired, Off, Want
from tests.sessions.house import House, house
from tests.transport.peers import clean

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    async with clean():
        with anyio.fail_after(20):
            yield


@pytest.fixture
async def home(nothing_is_left: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setattr(module, "LINGER", 0.1)
    async with house() as home:
        yield home


def seen(home: House, workspace: Path | str = "") -> list[str]:
    return list(home.workspaces.visible(str(workspace)))


def wishes(home: House) -> Mapping[str, Any]:
    return {key.name: wish for key, wish in home.supervisor.snapshot.value.desired.items()}


def approve(home: House, workspace: Path, name: str) -> None:
    [loaded] = [home.workspaces.peek(str(workspace))[str(workspace)]]
    asked = approval.subject(loaded.resolved.servers[name])
    assert asked is not None
    home.workspaces.store.approve(asked.directory, name, asked.content())


async def test_without_any_file(home: House) -> None:
    """The embedded server is there, in every workspace."""
    assert seen(home) == ["mcphub"]
    assert seen(home, "/nowhere") == ["mcphub"]
    await home.up("mcphub")


async def test_what_agents_of_a_workspace_see(home: House) -> None:
    """The person's servers everywhere, a project's own in it, one instance of what is the same."""
    one, other = home.project("one"), home.project("other")
    home.write({"shared": {}})
    home.write({"mine": {}}, one)
    async with home.workspaces.using(str(one)), home.workspaces.using(str(other)):
        assert (seen(home), seen(home, one), seen(home, other)) == (["shared"], ["mine", "shared"], ["shared"])
        assert home.workspaces.visible(str(one))["shared"] == home.workspaces.visible(str(other))["shared"]
        assert isinstance(wishes(home)["mine"], Off)
        approve(home, one, "mine")
        home.workspaces.decide_again()
        assert isinstance(wishes(home)["mine"], Want)
        await home.up("shared", "mine")


async def test_a_workspace_lingers(home: House) -> None:
    """An agent that restarts finds its servers; some time after the last one left they are gone."""
    project, other = home.project(), home.project("other")
    home.write({"mine": {}}, project)
    approve(home, project, "mine")

    async def linger_is_over() -> None:
        """For all that was left before."""
        async with home.workspaces.using(str(other)):
            pass
        await home.until(lambda: str(other) not in home.workspaces.loaded)

    async with home.workspaces.using(str(project)):
        async with home.workspaces.using(str(project)):
            await home.up("mine")
        await linger_is_over()
        [worker] = [w for w in home.supervisor.workers.values() if w.name == "mine"]
    async with home.workspaces.using(str(project)):
        await linger_is_over()
        assert worker in home.supervisor.workers.values()
    await home.until(lambda: home.state("mine") == "")
    assert seen(home, project) == ["mcphub"]
    assert set(home.workspaces.loaded) == {""}


async def test_a_file_that_changed(home: House) -> None:
    """It is read again when the next agent comes, without touching what stayed."""
    home.write({"a": {}, "b": {}})
    await home.workspaces.tick()
    await home.up("a", "b")
    [before] = [w.pid for w in home.supervisor.workers.values() if w.name == "a"]
    home.write({"a": {}, "c": {}})
    async with home.workspaces.using(""):
        assert seen(home) == ["a", "c"]
        await home.up("a", "c")
        assert [w.pid for w in home.supervisor.workers.values() if w.name == "a"] == [before]


async def test_a_tick_without_news(home: House) -> None:
    """It changes nothing: not the snapshot, not what was loaded."""
    home.write({"a": {}})
    os.utime(home.places.servers, (1, 1))  # younger files may change within their time stamp
    await home.workspaces.tick()
    await home.up("a")
    await home.workspaces.tick()
    loaded, revision = home.workspaces.loaded, home.supervisor.snapshot.revision
    await home.workspaces.tick()
    assert home.workspaces.loaded is loaded
    assert home.supervisor.snapshot.revision == revision


async def test_a_workspace_that_is_deleted(home: House) -> None:
    """C014: its servers go once it is gone for certain; the agent in it keeps the others."""
    project = home.project()
    home.write({"shared": {}})
    home.write({"mine": {}}, project)
    approve(home, project, "mine")
    async with home.workspaces.using(str(project)):
        await home.up("shared", "mine")
        shutil.rmtree(project)
        await home.workspaces.tick()
        assert seen(home, project) == ["mine", "shared"]
        due = home.workspaces.loaded[str(project)].due
        assert due is not None
        await home.until(lambda: time.monotonic() >= due)
        await home.workspaces.tick()
        assert seen(home, project) == ["shared"]
        await home.until(lambda: home.state("mine") == "")
    async with home.workspaces.using(str(project)):
        assert seen(home, project) == ["shared"]


@pytest.mark.parametrize("what", ["fifo", "directory", "device", "loop", "garbage", "huge"])
async def test_a_file_that_cannot_be_read(home: House, what: str) -> None:
    """C014: nothing hangs and nobody else suffers; it is told."""
    project = home.project()
    home.write({"shared": {}})
    path = project / ".mcp.json"
    match what:
        case "fifo":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
        case "loop":
            path.symlink_to(path)
        case "garbage":
            path.write_bytes(b"\xff\xfe{{{")
        case "huge":
            path.write_bytes(b" " * (5 << 20))
    with anyio.fail_after(2):
        async with home.workspaces.using(str(project)):
            assert seen(home, project) == ["shared"]
            assert any(str(path) in text for text in home.workspaces.loaded[str(project)].problems())
    await home.up("shared")


async def test_a_file_that_breaks_while_it_is_in_use(home: House) -> None:
    """C014: what it said last counts until it can be read again."""
    home.write({"a": {}})
    await home.workspaces.tick()
    await home.up("a")
    (home.root / "config" / "mcp.json").write_text("{ half", "utf-8")
    await home.workspaces.tick()
    assert seen(home) == ["a"]
    assert home.state("a") == "Connected"
    assert home.workspaces.loaded[""].problems() or home.workspaces.loaded[""].warnings()


async def test_a_decision_about_a_file_that_has_just_changed(home: House) -> None:
    """What was approved is what the file says now, not what it said when it was last read."""
    project = home.project()
    home.write({"mine": {}}, project)
    async with home.workspaces.using(str(project)):
        home.write({"mine": {"version": "2"}}, project)
        loaded = home.workspaces.peek(str(project), again=True)[str(project)]
        asked = approval.subject(loaded.resolved.servers["mine"])
        assert asked is not None
        home.workspaces.store.approve(asked.directory, "mine", asked.content())
        home.workspaces.decide_again()
        assert isinstance(wishes(home)["mine"], Want)
        await home.up("mine")


async def test_a_decision_while_files_are_read(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not lost to a look at the files that began before it."""
    project = home.project()
    home.write({"mine": {}}, project)
    reading, go_on = threading.Event(), threading.Event()
    real = load

    def slow(*args: Any, **more: Any) -> Any:
        reading.set()
        go_on.wait(5)
        return real(*args, **more)

    async with home.workspaces.using(str(project)), anyio.create_task_group() as tasks:
        monkeypatch.setattr(module, "load", slow)
        tasks.start_soon(lambda: home.workspaces.tick(again=True))
        await home.until(reading.is_set)
        monkeypatch.setattr(module, "load", real)
        approve(home, project, "mine")
        home.workspaces.decide_again()
        assert isinstance(wishes(home)["mine"], Want)
        go_on.set()
        await home.workspaces.tick()
        assert isinstance(wishes(home)["mine"], Want)


async def test_many_at_once(home: House) -> None:
    """Ticks take turns; each who comes sees his workspace when he is let in."""
    projects = [home.project(f"p{n}") for n in range(20)]
    for n, project in enumerate(projects):
        home.write({f"s{n}": None}, project)
    async with anyio.create_task_group() as tasks:

        async def use(n: int, project: Path) -> None:
            async with home.workspaces.using(str(project)):
                assert seen(home, project) == [f"s{n}"]

        for n, project in enumerate(projects):
            tasks.start_soon(use, n, project)
    await home.until(lambda: set(home.workspaces.loaded) == {""})


async def test_one_that_changes_his_mind(home: House) -> None:
    """Cancelled while the files are read he holds nothing."""
    project = home.project()
    for turns in range(6):
        async with anyio.create_task_group() as tasks:

            async def use() -> None:
                async with home.workspaces.using(str(project)):
                    await anyio.sleep_forever()

            tasks.start_soon(use)
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    await home.until(lambda: set(home.workspaces.loaded) == {""})


async def test_what_no_log_may_show(home: House) -> None:
    """The values of an entry's variables are known to the log before anything starts with them."""
    text = '{"mcpServers": {"a": {"command": "true", "env": {"TOKEN": "very-secret-value"}}}}'
    (home.root / "config" / "mcp.json").write_text(text, "utf-8")
    started: list[bool] = []
    real = home.supervisor.want

    def want(desired: Desired) -> None:
        started.append("very-secret-value" in home.hidden)
        real(desired)

    home.supervisor.want = want  # type: ignore[method-assign]
    await home.workspaces.tick()
    assert started == [True]


async def test_decisions_that_cannot_be_read(home: House) -> None:
    """They approve nothing, and it is told."""
    project = home.project()
    home.write({"mine": {}}, project)
    approve(home, project, "mine")
    path = home.places.approvals
    await anyio.Path(path).write_text("{ damaged")
    async with home.workspaces.using(str(project)):
        assert isinstance(wishes(home)["mine"], Off)
        assert path in home.workspaces.store_problems[0]
        assert home.workspaces.decisions == {}


def govern(home: House, name: str, text: str) -> Path:
    """A file of the administrator's."""
    directory = Path(home.places.system.directory)
    directory.mkdir(mode=0o755, exist_ok=True)
    draft = directory / ".draft"
    draft.write_text(text, "utf-8")
    draft.chmod(0o644)
    return draft.replace(directory / name)


async def test_a_workspace_that_brings_nothing(home: House) -> None:
    """Its agents see what all see, and nothing is computed for it, when it comes or goes; what it brings later is
    seen."""
    home.write({"a": {}})
    os.utime(home.places.servers, (1, 1))  # younger files may change within their time stamp
    await home.workspaces.tick()
    await home.up("a")
    project, applied = home.project(), home.workspaces.applied
    home.supervisor.catch_up()  # that it is connected is published a little later than it is so
    revision = home.supervisor.snapshot.revision
    async with home.workspaces.using(str(project)):
        assert home.workspaces.visible(str(project)) is home.workspaces.visible("")
        assert home.workspaces.loaded[str(project)].shared
        assert home.workspaces.peek(str(project))[str(project)].resolved.workspace == str(project)
    await home.until(lambda: set(home.workspaces.loaded) == {""})
    assert not applied.is_set()
    assert home.supervisor.snapshot.revision == revision
    async with home.workspaces.using(str(project)):
        home.write({"mine": {}}, project)
        await home.workspaces.tick()
        assert seen(home, project) == ["a", "mine"]
        assert seen(home) == ["a"]


async def test_a_change_for_all_reaches_a_workspace_that_brings_nothing(home: House) -> None:
    """Whoever is told of it, by whatever way."""
    home.write({"a": {}})
    await home.workspaces.tick()
    project = home.project()
    async with home.workspaces.using(str(project)):
        home.write({"a": {}, "b": {}})
        await home.workspaces.tick()
        assert seen(home, project) == ["a", "b"]
        home.write({"a": {}, "c": {}})
        home.workspaces.decide_again()
        assert seen(home, project) == ["a", "c"]
        assert list(home.workspaces.peek(str(project))[str(project)].resolved.servers) == ["a", "c"]


async def test_decisions_that_somebody_else_writes(home: House) -> None:
    """They count when they are written, as every file does."""
    project = home.project()
    home.write({"mine": {}}, project)
    async with home.workspaces.using(str(project)), anyio.create_task_group() as tasks:
        tasks.start_soon(home.workspaces.watch)
        assert isinstance(wishes(home)["mine"], Off)
        approve(home, project, "mine")
        await home.up("mine")
        tasks.cancel_scope.cancel()


async def test_settings_that_wait_for_a_restart(home: House) -> None:
    """They are named while they differ from those in use."""
    await home.workspaces.start()
    assert home.workspaces.warnings() == ()
    path = Path(home.places.settings)
    await anyio.Path(path).write_text("[names]\nmaxLength = 40\n")
    await home.workspaces.tick()
    [warning] = home.workspaces.warnings()
    assert warning.startswith(f"{path}: names.maxLength has changed, which counts when mcphub starts the next time")
    await anyio.Path(path).write_text("[names]\nmaxLength = 64\n")
    await home.workspaces.tick()
    assert home.workspaces.warnings() == ()


async def test_what_administrators_change_is_seen_by_itself(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody attaches and nobody asks: a new rule holds after a moment, for every workspace in use, and so does its
    end."""
    project = home.project()
    home.write({"a": {}})
    async with home.workspaces.using(str(project)), anyio.create_task_group() as tasks:
        tasks.start_soon(home.workspaces.watch)
        await home.up("a")
        path = govern(home, "managed-settings.json", '{"deniedMcpServers":[{"serverName":"a"}]}')
        await home.until(lambda: isinstance(wishes(home)["a"], Off) and not home.supervisor.workers)
        assert {one.resolved.layers[0].path for one in home.workspaces.loaded.values()} == {str(path)}
        govern(home, "managed-settings.json", "{}")
        await home.up("a")
        applied = home.workspaces.applied
        govern(home, "managed-settings.json", "{")
        await applied.wait()
        assert isinstance(wishes(home)["a"], Want)
        # Somebody who comes now finds what the others have.
        async with home.workspaces.using(str(home.project("late"))):
            assert isinstance(wishes(home)["a"], Want)
        await home.until(lambda: isinstance(wishes(home)["a"], Off))
        tasks.cancel_scope.cancel()


async def test_broken_at_the_start(home: House) -> None:
    """Without anything that held before, what is broken closes at once: nothing of a person's starts."""
    home.write({"a": {}})
    govern(home, "managed-settings.json", "{")
    fresh = load("", {}, home.places)
    assert fresh.unsettled is None
    assert isinstance(next(iter(desired_state({"": fresh.resolved}, {}).values())), Off)
    assert "managed-settings.json" in fresh.problems()[0]


def rule(home: House, text: str) -> None:
    path = home.root / "config" / "settings.toml"
    draft = path.with_name("draft.toml")
    draft.write_text(text, "utf-8")
    draft.replace(path)


async def test_a_rule_that_comes_and_goes(home: House) -> None:
    """C125: a server that becomes forbidden is stopped, its row says by which rule, and it comes back with the rule's
    end; others run on."""
    home.write({"a": {}, "b": {}})
    await home.workspaces.tick()
    await home.up("a", "b")
    pids = {worker.name: worker.pid for worker in home.supervisor.workers.values()}
    rule(home, '[policy]\ndeniedMcpServers = [{ serverName = "a" }]\n')
    await home.workspaces.tick()
    await home.until(lambda: home.state("a") == "")
    off = wishes(home)["a"]
    assert isinstance(off, Off)
    assert (off.because, "settings.toml:2 policy.deniedMcpServers[0]" in off.detail) == ("policy", True)
    assert [rule.text for rule in home.workspaces.policy.denied] == ['{"serverName": "a"}']
    assert {w.name: w.pid for w in home.supervisor.workers.values()} == {"b": pids["b"]}
    rule(home, "[policy]\n")
    await home.workspaces.tick()
    await home.up("a", "b")


async def test_a_broken_rule_stops_everything(home: House) -> None:
    """A rule that cannot be read may be the one that forbids, so nothing of the person's runs, and it is told."""
    home.write({"a": {}})
    rule(home, "[policy]\ndeniedMcpServers = 5\n")
    await home.workspaces.tick()
    off = wishes(home)["a"]
    assert isinstance(off, Off)
    assert "deniedMcpServers: expected a list, found a number" in off.detail
    assert len(home.workspaces.policy.closed) == 1


async def test_a_link_does_not_hide_a_program(home: House) -> None:
    """What a command leads to on the disk counts, by the program's own PATH."""
    home.write({"a": {}})
    path = home.root / "config" / "mcp.json"
    document = json.loads(path.read_text("utf-8"))
    entry = document["mcpServers"]["a"]
    (home.root / "bin").mkdir()
    (home.root / "bin" / "innocent").symlink_to(entry["command"])
    entry |= {"env": {"PATH": str(home.root / "bin")}, "command": "innocent"}
    path.write_text(json.dumps(document), "utf-8")
    words = json.dumps([Path(sys.executable).resolve().name, *entry["args"]])  # noqa: ASYNC240
    rule(home, f"[policy]\ndeniedMcpServers = [{{ serverCommand = {words} }}]\n")
    await home.workspaces.tick()
    off = wishes(home)["a"]
    assert isinstance(off, Off)
    assert off.because == "policy"


def divided(home: House, **sharing: str) -> None:
    """Servers of everybody, each shared so."""
    home.write({name: {} for name in sharing})
    path = home.root / "config" / "mcp.json"
    document = json.loads(path.read_text())
    for name, value in sharing.items():
        document["mcpServers"][name]["sharing"] = value
    path.write_text(json.dumps(document))


def running(home: House) -> list[tuple[str, str, str]]:
    return sorted((w.name, w.spec.workspace, w.spec.agent) for w in home.supervisor.workers.values())


async def test_who_shares_what(home: House) -> None:
    """C162: an instance of a workspace, or of an agent, is there while somebody is there whom it is for."""
    divided(home, all="shared", place="workspace", own="agent")
    await home.workspaces.tick()
    assert running(home) == [("all", "", "")]
    one, two = str(home.project("one")), str(home.project("two"))
    using = home.workspaces.using
    async with using(one, "1") as a, using(one, "2") as b, using(two, "3") as c:
        assert len({a, b, c, one, two}) == 5
        assert [seen(home, place) for place in (a, b, c)] == [["all", "own", "place"]] * 3
        assert running(home) == [
            ("all", "", ""),
            ("own", one, "1"), ("own", one, "2"), ("own", two, "3"),
            ("place", one, ""), ("place", two, ""),
        ]  # fmt: skip
    await home.until(lambda: running(home) == [("all", "", "")])
    async with using("", "4"):
        assert running(home) == [("all", "", ""), ("own", "", "4"), ("place", "", "")]


async def test_nobody_has_servers_of_its_own(home: House) -> None:
    """An agent's place is its workspace then, and what was read to see that is not read again."""
    home.write({"all": {}})
    project = str(home.project())
    async with home.workspaces.using(project, "1") as place, home.workspaces.using("", "2") as nowhere:
        assert (place, nowhere) == (project, "")
        assert home.workspaces.loaded[project].shared


async def test_an_entry_becomes_divided(home: House) -> None:
    """A change of the file counts for workspaces that are in use."""
    home.write({"s": {}})
    one = str(home.project("one"))
    async with home.workspaces.using(one, "1"):
        assert running(home) == [("s", "", "")]
        divided(home, s="workspace")
        await home.workspaces.tick()
        assert running(home) == [("s", one, "")]

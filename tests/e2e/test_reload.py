"""What becomes of a running hub when its files change: real files, a real daemon, nobody who attaches or asks."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.fakes.agent import Agent, text
from tests.fakes.hub import MCPHUB, Fake, Hub, Place, Report, alive, eventually, row, running

pytestmark = pytest.mark.anyio

SERVERS = {"a": Fake()}
CHANGED = "notifications/tools/list_changed"
#: What a person notices as "at once", seconds: from the write to a server that answers.
AT_ONCE = 1.0
#: On a machine that does other things too.
SOON = 5.0
#: What a daemon does on whose machine somebody else has used up all that there is of it.
NO_INOTIFY = """
import ctypes, errno
class Full(ctypes.CDLL):
    def __getattr__(self, name):
        return self._full if name.startswith("inotify") else super().__getattr__(name)
    def _full(self, *arguments):
        ctypes.set_errno(errno.EMFILE)
        return -1
ctypes.CDLL = Full
"""


@pytest.fixture(autouse=True)
async def as_it_was(hub: Hub) -> AsyncIterator[None]:
    """Each test begins and ends with the one server, which nothing here may restart."""
    [pid] = hub.place.starts("a")
    yield
    await put(hub, SERVERS, lambda report: names(report) == ["a"] and not report["problems"])
    assert hub.place.starts("a") == [pid]


def names(report: Report) -> list[str]:
    """Of the servers of all agents; those of a project stay for a while after its last agent left."""
    return sorted(server["name"] for server in report["servers"] if not server["workspace"])


def states(report: Report) -> dict[str, str]:
    return {server["name"]: server["state"] for server in report["servers"]}


def up(*wanted: str) -> Callable[[Report], bool]:
    return lambda report: all(states(report).get(name) == "connected" for name in wanted)


async def put(hub: Hub, servers: Mapping[str, Any], done: Callable[[Report], bool]) -> None:
    hub.place.configure(servers)
    await hub.until(done, timeout=SOON)


def document(place: Place, servers: Mapping[str, Any]) -> bytes:
    return json.dumps({"mcpServers": {name: place.entry(name, one) for name, one in servers.items()}}).encode()


@asynccontextmanager
async def attached(hub: Hub, workspace: Path | str = "") -> AsyncIterator[Agent]:
    async with await hub.agent(workspace=workspace) as agent:
        await agent.initialize()
        await agent.tools()
        yield agent


async def test_only_what_changed(hub: Hub) -> None:
    """C016: of four servers one stays with its running call, one is replaced, one goes and its call ends, one comes;
    agents are told."""
    place, release = hub.place, hub.place.root / "release"
    slow = {"tools": [{"name": "slow", "actions": [{"wait": str(release)}, {"text": "done"}]}]}
    await put(hub, {**SERVERS, "s": Fake(slow), "b": Fake(), "c": Fake(slow)}, up("s", "b", "c"))
    async with attached(hub) as agent:
        stays = await agent.start("tools/call", {"name": "mcp__s__slow", "arguments": {}})
        goes = await agent.start("tools/call", {"name": "mcp__c__slow", "arguments": {}})
        await eventually(lambda: len([m for m in place.received("c") if "tools/call" in str(m)]) == 1, timeout=SOON)
        shuffled = {"d": Fake(), "b": Fake({}, {"args": ["more"]}), "s": Fake(slow, {"env": {}}), **SERVERS}
        (place.config / "mcp.json").write_bytes(document(place, shuffled))
        await agent.notification(CHANGED)
        lost = await agent.response(goes)
        assert "the connection to the server c was lost during slow: it was removed" in lost["error"]["message"]
        await hub.until(lambda report: up("s", "b", "d")(report) and len(place.starts("b")) == 2, timeout=SOON)
        release.touch()
        assert text(await agent.response(stays)) == "done"
    assert [len(place.starts(name)) for name in ("s", "b", "c", "d")] == [1, 2, 1, 1]
    [old] = place.starts("c")
    await eventually(lambda: not alive(old), timeout=SOON)


async def test_calls_of_what_is_replaced(hub: Hub) -> None:
    """C016: the agent gets the answer of the old instance, new calls go to the new one, and the old one ends."""
    place, release = hub.place, hub.place.root / "release-d"
    slow = {"tools": [{"name": "slow", "actions": [{"wait": str(release)}, {"text": "old"}]}]}
    await put(hub, {**SERVERS, "r": Fake(slow)}, up("r"))
    async with attached(hub) as agent:
        first = await agent.start("tools/call", {"name": "mcp__r__slow", "arguments": {}})
        await eventually(lambda: len([m for m in place.received("r") if "tools/call" in str(m)]) == 1, timeout=SOON)
        new = {"tools": [{"name": "slow", "actions": [{"text": "new"}]}]}
        place.configure({**SERVERS, "r": Fake(new, {"args": ["more"]})})
        await hub.until(lambda report: up("r")(report) and len(place.starts("r")) == 2, timeout=SOON)
        assert text(await agent.call("mcp__r__slow")) == "new"
        release.touch()
        assert text(await agent.response(first)) == "old"
    [old, _] = place.starts("r")
    await eventually(lambda: not alive(old), timeout=SOON)


async def test_names_that_none_can_have(hub: Hub) -> None:
    """C006: whoever asks for one is told what is wrong with it, whatever the verb; nothing of it moves a cursor."""
    place = hub.place
    (place.config / "mcp.json").write_bytes(document(place, {**SERVERS, "bad\nname": Fake()}))
    await hub.until(lambda report: len(report["servers"]) == 2, timeout=SOON)
    fault = b"a name has 1 to 64 of the characters"
    verbs = (
        "status", "why", "reconnect", "logs", "remove", "enable", "disable", "approve", "reject", "approve --tools",
        "logs -f", "connect --print-url --server", "status --watch",
    )  # fmt: skip
    names = ("a\x1b[2J\x9b", "a\u202e", "../x")
    for verb, name in (*((verb, "a\nb\x1b") for verb in verbs), *(("why", name) for name in names)):
        done = await anyio.run_process([MCPHUB, *verb.split(), name], env=place.environment(), check=False)
        said = done.stdout + done.stderr
        assert (done.returncode, fault in said) == (1, True), (verb, name, said)
        assert all(31 < byte < 127 or byte == 10 for byte in said), said
    done = await anyio.run_process([MCPHUB, "why", "bad\nname"], env=place.environment(), check=False)
    assert done.stdout.startswith(rb'"bad\nname" does not run: cannot use server "bad\nname"')


async def test_at_once(hub: Hub) -> None:
    """From the write to a new server that is connected it takes less than a second."""
    times = []
    for number in range(3):
        before = anyio.current_time()
        await put(hub, {**SERVERS, f"n{number}": Fake()}, up(f"n{number}"))
        times.append(anyio.current_time() - before)
    assert sorted(times)[1] < AT_ONCE, times


async def test_half_a_file(hub: Hub) -> None:
    """C014: an editor that writes slowly stops no server; the half is told as a problem, the whole takes effect."""
    path = hub.place.config / "mcp.json"
    data = document(hub.place, {**SERVERS, "h": Fake()})
    path.write_bytes(data[:40])
    report = await hub.until(lambda report: bool(report["problems"]), timeout=SOON)
    assert str(path) in report["problems"][0]
    kept = "cannot be used as it is now, so what could be used of it before stays in force"
    assert f"{path}: {kept}" in report["warnings"]
    assert row(report, "a")["state"] == "connected"
    with path.open("ab") as file:
        file.write(data[40:])
    report = await hub.until(up("h"), timeout=SOON)
    assert (report["problems"], report["warnings"]) == ([], [])


@pytest.mark.parametrize("how", ["emptied", "removed"])
async def test_a_file_that_is_away_for_a_moment(hub: Hub, how: str) -> None:
    """C014: emptied or removed and written again after 300 ms, it stops nothing."""
    path = hub.place.config / "mcp.json"
    data = document(hub.place, {**SERVERS, how: Fake()})
    path.write_bytes(b"") if how == "emptied" else path.unlink()
    await anyio.sleep(0.3)  # what is tested, not what is waited for
    path.write_bytes(data)
    await hub.until(up(how), timeout=SOON)


async def test_a_file_that_is_gone(hub: Hub) -> None:
    """C014: what stays away takes its servers with it, and brings them back."""
    path = hub.place.root / "data" / "mcphub" / "plugins" / "p" / ".mcp.json"
    path.parent.mkdir(parents=True)
    for _ in range(2):
        path.write_bytes(document(hub.place, {"x": Fake()}))
        await hub.until(up("plugin:p:x"), timeout=SOON)
        path.unlink()
        await hub.until(lambda report: names(report) == ["a"], timeout=SOON)
    shutil.rmtree(path.parent)


async def test_an_editor_that_renames(hub: Hub) -> None:
    """C014: with a backup, a swap file and a probe in the directory, the file is away and comes back under its name."""
    folder = hub.place.config
    (folder / ".mcp.json.swp").write_bytes(b"b0VIM")
    (folder / "4913").touch()
    (folder / "4913").unlink()
    (folder / "mcp.json").rename(folder / "mcp.json~")
    (folder / "mcp.json").write_bytes(document(hub.place, {**SERVERS, "v": Fake()}))
    (folder / "mcp.json~").unlink()
    (folder / ".mcp.json.swp").unlink()
    await hub.until(up("v"), timeout=SOON)


async def test_a_hundred_edits(hub: Hub) -> None:
    """The last one counts, and what is the same in all of them is not touched."""
    for number in range(100):
        servers = {**SERVERS, "e": Fake({}, {"args": [str(number)]})}
        if number % 2:
            hub.place.configure(servers)
        else:
            (hub.place.config / "mcp.json").write_bytes(document(hub.place, servers))
    last = {**SERVERS, "e": Fake({}, {"args": ["last"]})}
    await put(hub, last, lambda r: up("e")(r) and row(r, "e")["command"][-1] == "last")


async def test_links(hub: Hub) -> None:
    """A file that is a link into another directory: an edit there counts, and so does another target; one that leads
    nowhere can be read by nobody, which is told, and stops nothing."""
    path, dotfiles = hub.place.config / "mcp.json", hub.place.root / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "one").write_bytes(document(hub.place, {**SERVERS, "l1": Fake()}))
    (dotfiles / "two").write_bytes(document(hub.place, {**SERVERS, "l3": Fake()}))
    link(path, dotfiles / "one")
    await hub.until(up("l1"), timeout=SOON)
    (dotfiles / "one").write_bytes(document(hub.place, {**SERVERS, "l2": Fake()}))
    await hub.until(up("l2"), timeout=SOON)
    link(path, dotfiles / "two")
    await hub.until(up("l3"), timeout=SOON)
    link(path, path)
    report = await hub.until(lambda report: bool(report["problems"]), timeout=SOON)
    assert names(report) == ["a", "l3"]


def link(path: Path, target: Path) -> None:
    draft = path.with_name("draft")
    draft.symlink_to(target)
    draft.replace(path)


async def test_a_directory_that_comes_and_goes(hub: Hub) -> None:
    """The configuration's directory moves away and another one takes its place: a moment later that one counts."""
    folder = hub.place.config
    new = folder.with_name("new")
    new.mkdir()
    (new / "mcp.json").write_bytes(document(hub.place, {**SERVERS, "m": Fake()}))
    folder.rename(folder.with_name("old"))
    new.rename(folder)
    await hub.until(up("m"), timeout=SOON)
    (folder / "mcp.json").write_bytes(document(hub.place, {**SERVERS, "m2": Fake()}))
    await hub.until(up("m2"), timeout=SOON)


async def test_a_project_file_that_appears(hub: Hub) -> None:
    """C127: nobody attaches again: its server waits for approval, runs once approved, and an edit stops it."""
    project = hub.place.root / "project"
    (project / ".git").mkdir(parents=True)
    (project / "sub").mkdir()
    where = str(project / "sub")
    async with attached(hub, where):
        (project / ".mcp.json").write_bytes(document(hub.place, {"p": Fake()}))
        await hub.until(lambda r: states(r).get("p") == "disabled", timeout=SOON, workspace=where)
        _, report = await hub.control("GET", "/v1/approvals", query={"workspace": where})
        [item] = report["items"]
        body = {"workspace": where, "name": "p", "digest": item["digest"]}
        assert (await hub.control("POST", "/v1/approve", body=body))[0] == 200
        await hub.until(up("p"), timeout=SOON, workspace=where)
        (project / ".mcp.json").write_bytes(document(hub.place, {"p": Fake({}, {"args": ["other"]})}))
        await hub.until(lambda r: row(r, "p")["state"] == "disabled", timeout=SOON, workspace=where)
        [pid] = hub.place.starts("p")
        await eventually(lambda: not alive(pid), timeout=SOON)


async def test_variables_and_settings(hub: Hub) -> None:
    """What refers to a variable restarts with its new value; damaged settings leave all as it was; a setting that
    counts at the next start only is named."""
    folder = hub.place.config
    (folder / "environment").write_text("WORD=one\n")
    servers = {**SERVERS, "w": Fake({}, {"env": {"X": "${WORD}"}})}
    await put(hub, servers, up("w"))
    (folder / "environment").write_text("WORD=two\n")
    await hub.until_restarted("w", 2, timeout=SOON)
    settings = folder / "settings.toml"
    settings.write_text("[names]\nmaxLength = 40\n")
    report = await hub.until(lambda report: bool(report["warnings"]), timeout=SOON)
    assert f"{settings}: names.maxLength has changed, which counts when mcphub starts" in report["warnings"][0]
    settings.write_text("[names\nmaxLength")
    report = await hub.until(lambda report: bool(report["problems"]), timeout=SOON)
    assert "the settings stay as they were" in report["problems"][0]
    settings.unlink()
    await hub.until(lambda report: not report["problems"] and not report["warnings"], timeout=SOON)
    assert len(hub.place.starts("w")) == 2


async def test_nobody_tells(place: Place) -> None:
    """Where the kernel does not tell of changes they are looked for, and status says so."""
    (place.root / "broken").mkdir()
    (place.root / "broken" / "sitecustomize.py").write_text(NO_INOTIFY)
    async with running({"b": Fake()}, place=place, env={"PYTHONPATH": str(place.root / "broken")}) as hub:
        await hub.until_state("b")
        await eventually_warned(hub, "looked for every 0.25 s, since this system does not tell of them: the limit fs")
        place.configure({"b": Fake(), "c": Fake()})
        await hub.until(up("b", "c"), timeout=SOON)


async def eventually_warned(hub: Hub, part: str) -> None:
    with anyio.fail_after(10):
        while not any(part in text for text in (await hub.status())["warnings"]):  # noqa: ASYNC110
            await anyio.sleep(0.05)

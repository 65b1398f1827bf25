"""How servers start and stop as processes, and how they die; the hub and its other servers live on."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.fakes.agent import text
from tests.fakes.hub import Fake, Hub, Place, Servers, alive, eventually, row, running

pytestmark = pytest.mark.anyio

#: One failed start is enough to see why.
ONE_TRY = "[connect]\nattempts = 1\n"
SHORT_GRACE = "[stop]\ngrace = 0.5\n"


def executable(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, "utf-8")
    path.chmod(0o755)
    return path


async def test_a_command_that_is_only_on_another_path(place: Place) -> None:
    """C027: the reason names the command, the PATH that was searched and the way out."""
    executable(place.root / "bin" / "only-there", "#!/bin/sh\nexit 1\n")
    servers: Servers = {"lost": {"command": "only-there"}, "fine": Fake()}
    async with running(servers, place=place, env={"PATH": "/usr/bin:/bin"}) as hub:
        await hub.until_state("fine")
        failed = row(await hub.until_state("lost", state="failed"), "lost")
        message, remedy = failed["last_error"]["message"], failed["last_error"]["remedy"]
        assert "only-there" in message and "/usr/bin:/bin" in message
        assert "PATH" in remedy


async def test_a_shebang_that_finds_no_interpreter(place: Place) -> None:
    """C027: an absolute command whose interpreter is not on PATH shows what the system said about it."""
    script = executable(place.root / "bin" / "there", "#!/usr/bin/env no-such-interpreter\n")
    servers = {"shebang": {"command": str(script)}}
    async with running(servers, place=place, settings=ONE_TRY, env={"PATH": "/usr/bin:/bin"}) as hub:
        error = await hub.first_error("shebang")
        assert "no-such-interpreter" in json.dumps(error)
        assert error["exit_code"] == 127


async def test_a_wrapper_and_its_grandchildren(place: Place) -> None:
    """C028: stopping a server ends its whole tree: shell, real server, and children in sessions of their own."""
    script = {"eof": "ignore", "term": "ignore", "grandchildren": {"count": 2}}
    real = place.entry("wrapped", Fake(script))
    command = " ".join([real["command"], *real["args"]])
    wrapped = {"command": "sh", "args": ["-c", f"exec 3<&0; {command} <&3 & wait"]}
    async with running({"wrapped": wrapped}, place=place, settings=SHORT_GRACE) as hub:
        await hub.until_state("wrapped")
        first = set(place.starts("wrapped")) | children(place, "wrapped")
        assert len(first) == 3
        await hub.reconnect("wrapped")
        await eventually(lambda: not any(alive(pid) for pid in first), timeout=10)
        await hub.until_restarted("wrapped", 2)


async def test_a_direct_child_that_leaves_others_behind(place: Place) -> None:
    """C028: when the direct child is gone already, what it started is ended too."""
    leaving = Fake({"grandchildren": {"count": 2}, "starts": [{"after": [{"exit": 0}]}, {}]})
    async with running({"leaving": leaving}, place=place) as hub:
        await hub.until_restarted("leaving", 2)
        first = sorted(children(place, "leaving"))[:2]
        await eventually(lambda: not any(alive(pid) for pid in first), timeout=5)


def children(place: Place, name: str) -> set[int]:
    return {int(line.split()[1]) for line in place.received(name) if isinstance(line, str) and "#child" in line}


async def test_the_shutdown_ladder(place: Place) -> None:
    """C029: end of input, then SIGTERM, then SIGKILL, each only where needed, and all servers at the same time."""
    servers = {
        "polite": Fake({"eof": 0.3}),
        "waits": Fake({"eof": "ignore"}),
        **{f"stubborn{n}": Fake({"eof": "ignore", "term": "ignore"}) for n in range(4)},
    }
    async with running(servers, place=place, settings=SHORT_GRACE) as hub:
        await hub.until_state(*servers)
        begun = anyio.current_time()
        await hub.stop()
        took = anyio.current_time() - begun

    def end(name: str) -> list[str]:
        return [m for m in place.received(name) if m in ("#eof", "#term")]

    assert end("polite") == ["#eof"]
    assert end("waits") == ["#eof", "#term"]
    assert {tuple(end(f"stubborn{n}")) for n in range(4)} == {("#eof", "#term")}
    # Two steps of half a second for all together; one after the other would be four seconds and more.
    assert 1.0 <= took < 3.0


async def test_the_daemon_is_killed(place: Place) -> None:
    """C030: kill -9 leaves no server behind, and the next daemon starts each once."""
    stubborn = {"eof": "ignore", "term": "ignore", "grandchildren": {"count": 1}}
    servers = {"plain": Fake(), "deaf": Fake({"eof": "ignore"}), "stubborn": Fake(stubborn)}
    async with running(servers, place=place) as hub:
        await hub.until_state(*servers)
        await hub.kill()
        await place.empty(timeout=2)
    async with running(servers, place=place) as hub:
        await hub.until_state(*servers)
        assert {len(place.starts(name)) for name in servers} == {2}


async def test_a_server_that_dies_at_once(place: Place) -> None:
    """C033: an exit before the first answer is seen at once, with its code and its last words."""
    dying = Fake({"before": [{"stderr": "API_KEY missing\n"}, {"exit": 1}]}, {"startupTimeout": 30000})
    async with running({"dying": dying}, place=place, settings=ONE_TRY) as hub:
        error = await hub.first_error("dying", timeout=5)
        assert error["exit_code"] == 1
        assert "code 1" in error["message"]
        assert "API_KEY missing" in error["stderr_tail"]


SLOW = {"startupTimeout": 30000}


@pytest.mark.parametrize("method", ["server/discover", "initialize", "tools/list"])
async def test_a_server_that_dies_while_asked(place: Place, method: str) -> None:
    """C033: an exit after a request was read fails that request at once, not after its time."""
    last = [{"stderr": "no more\n"}, {"exit": 3}]
    # One that ends at the probe is started again and asked to initialize.
    dying = Fake({"on": {method: last, "initialize": last if method != "tools/list" else [{"default": 1}]}}, SLOW)
    async with running({"dying": dying}, place=place, settings=ONE_TRY) as hub:
        error = await hub.first_error("dying", timeout=5)
        assert error["exit_code"] == 3
        assert "no more" in error["stderr_tail"]


async def test_a_server_that_closes_stdout(place: Place) -> None:
    """C033: a closed stdout is the end of the connection, so the process goes too."""
    mute = Fake({"before": [{"close_stdout": 1}, {"hang": 1}], "term": "ignore"}, {"startupTimeout": 30000})
    async with running({"mute": mute}, place=place, settings=ONE_TRY + SHORT_GRACE) as hub:
        await hub.first_error("mute", timeout=5)
        await eventually(lambda: not alive(place.starts("mute")[0]), timeout=5)


@pytest.mark.parametrize("chatter", [False, True], ids=["silent", "chatter"])
async def test_a_server_that_never_answers(place: Place, chatter: bool) -> None:
    """C034: the start ends at its time limit, whatever else the server says, and the process is gone."""
    talk = [{"notify": "notifications/message", "params": {"level": "info", "data": "x"}}, {"pause": 0.1}] * 200
    on = {"server/discover": talk if chatter else [], "initialize": []}
    async with running({"silent": Fake({"on": on}, {"startupTimeout": 1500})}, place=place, settings=ONE_TRY) as hub:
        begun = anyio.current_time()
        error = await hub.first_error("silent", timeout=8)
        assert anyio.current_time() - begun < 6
        assert "1.5 s" in error["message"]
        await eventually(lambda: not alive(place.starts("silent")[0]), timeout=6)


async def test_a_cold_start(place: Place) -> None:
    """C035: a first run that takes its time is waited for, shown as pending with its last words, and started once."""
    seconds = 4  # beyond the probe's own patience, so that both questions wait in the server's stdin
    cold = {"before": [{"stderr": "fetched 12 of 40\n"}, {"pause": seconds}]}
    eras = {"old": "legacy", "new": "modern", "both": "both", "locked": "locked"}
    servers = {name: Fake({**cold, "era": era}) for name, era in eras.items()}
    async with running(servers, place=place, settings="[connect]\nlocal = 4\n") as hub:
        with anyio.fail_after(seconds):
            while "fetched 12 of 40" not in json.dumps(shown := await hub.server("old")):
                pass
        assert shown["state"] == "pending"
        report = await hub.until_state(*servers, timeout=25)
        assert {name: len(place.starts(name)) for name in servers} == dict.fromkeys(servers, 1)
        assert {name: row(report, name)["era"] for name in servers} == {
            "old": "legacy",
            "new": "modern",
            "both": row(report, "both")["era"],  # whichever question it was known to answer
            "locked": "modern",
        }
        async with await hub.agent() as agent:
            await agent.initialize()
            for name in servers:
                assert text(await agent.call(f"mcp__{name}__echo", {"text": name})) == name


async def test_floods_on_stderr(place: Place) -> None:
    """C038: ten megabytes of any bytes on stderr during a call neither stop the call nor stay in memory."""
    async with running({"loud": Fake()}, place=place) as hub, await hub.agent() as agent:
        await hub.until_state("loud")
        await agent.initialize()
        before = (await hub.status())["daemon"]["rss"]
        floods = [
            {"stderr": "line \x1b[31mred\n", "times": 300_000},
            {"stderr": "\rprogress", "times": 400_000},
            {"stderr64": "/wD+", "times": 1_000_000},
        ]
        response = await agent.call("mcp__loud__do", {"actions": [*floods, {"stderr": "\nlast\n"}, {"text": "done"}]})
        assert text(response) == "done"
        kept: dict[str, Any] = {"lines": []}
        with anyio.fail_after(10):
            while kept["lines"][-1:] != ["last"]:
                _, kept = await hub.control("GET", "/v1/logs/loud")
        report = await hub.status()
        assert row(report, "loud")["state"] == "connected"
        assert report["daemon"]["rss"] - before < 12 << 20
        assert sum(len(line) for line in kept["lines"]) <= 2 << 20
        assert not any(ord(c) < 32 and c != "\t" for line in kept["lines"] for c in line)


async def test_a_server_that_exits_between_two_writes(place: Place) -> None:
    """C040: a broken pipe costs that server its connection and nobody else a call."""
    servers = {"brittle": Fake(), "plain": Fake()}
    async with running(servers, place=place) as hub, await hub.agent() as agent:
        await hub.until_state(*servers)
        await agent.initialize()
        for round in range(2):
            exits = {"name": "mcp__brittle__do", "arguments": {"actions": [{"exit": 0}]}}
            broken = await agent.start("tools/call", exits)
            await agent.notify("notifications/cancelled", {"requestId": broken})
            for n in range(50):
                assert text(await agent.call("mcp__plain__echo", {"text": str(n)})) == str(n)
            await hub.until_restarted("brittle", round + 2)


async def test_any_order_of_closing(place: Place) -> None:
    """C041: servers are closed in another order than opened, by other tasks, while the rest is called all the time."""
    servers = {name: Fake() for name in ("a", "b", "c", "d")}
    async with running(servers, place=place) as hub, await hub.agent() as agent:
        await hub.until_state(*servers)
        await agent.initialize()
        calls, failures = 0, []
        enough = anyio.Event()

        async def keep_calling() -> None:
            nonlocal calls
            while not enough.is_set():  # not cancelled in the middle of a read, which the test's own loop may trip over
                response = await agent.call("mcp__d__echo", {"text": "x"})
                calls += 1
                if "result" not in response or response["result"].get("isError"):
                    failures.append(response)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_calling)
            for name in ("a", "c", "b"):
                await hub.reconnect(name)
                await hub.until_restarted(name, 2)
            enough.set()
        assert failures == []
        assert calls > 0
        assert len(place.starts("d")) == 1


async def test_command_lines_of_another_system(place: Place) -> None:
    """C042: what only Windows has fails plainly by name; the others do not notice."""
    servers: Servers = {
        "batch": {"command": "cmd", "args": ["/c", "npx", "-y", "x"]},
        "backslash": {"command": "C:\\Tools\\srv.exe", "args": ["a&calc", "%PATH%"]},
        "fine": Fake(),
    }
    async with running(servers, place=place) as hub:
        await hub.until_state("fine")
        report = await hub.until_state("batch", "backslash", state="failed")
        assert "cmd" in row(report, "batch")["last_error"]["message"]
        assert "srv.exe" in row(report, "backslash")["last_error"]["message"]


async def test_arguments_reach_the_program_as_they_are(place: Place) -> None:
    """C042: no shell in between: each argument arrives as one, the empty one and the dangerous ones too."""
    arguments = ["a&calc", "%PATH%", "$(touch pwned)", "`id`", "", "two words", "*", "'\"", "-", "--", "漢"]
    wrapper = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
    program = executable(place.root / "with space" / "my server", wrapper)
    servers = {"exact": Fake({}, {"command": str(program), "args": arguments})}
    async with running(servers, place=place) as hub:
        await hub.until_state("exact")
        [line] = [m for m in hub.received("exact") if isinstance(m, str) and m.startswith("#argv ")]
        assert json.loads(line.removeprefix("#argv ")) == arguments
        assert not list(place.root.rglob("pwned"))


LOADERS = {
    "LD_PRELOAD": "/x.so",
    "LD_AUDIT": "/x.so",
    "DYLD_INSERT_LIBRARIES": "/x.dylib",
    "NODE_OPTIONS": "--require ./x.js",
    "PYTHONPATH": "/x",
    "PYTHONSTARTUP": "/x.py",
    "BASH_ENV": "/x.sh",
    "GIT_SSH_COMMAND": "/x",
    "OPENSSL_CONF": "/x.cnf",
    "PATH": "/x",
    "HTTPS_PROXY": "http://127.0.0.1:1",
    "SSL_CERT_FILE": "/x.pem",
}


def write_project(place: Place, envs: dict[str, dict[str, str]]) -> Path:
    """A repository that brings one fake for each of these environments."""
    workspace = place.root / "repository"
    workspace.mkdir(exist_ok=True)
    entries = {name: place.entry(name, Fake({}, {"env": env})) for name, env in envs.items()}
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": entries}), "utf-8")
    return workspace


async def test_loader_variables_of_a_repository_are_refused(place: Place) -> None:
    """C044: variables that decide which code runs are refused where a repository sets them: by name, and as blocked."""
    envs = {name.lower(): {name: value} for name, value in LOADERS.items()}
    workspace = write_project(place, envs)
    async with running({"fine": Fake()}, place=place) as hub, await hub.agent(client="x", workspace=workspace) as agent:
        await agent.initialize()
        report = await hub.until_state("fine", workspace=workspace)
        report = await hub.until_state(*envs, state="failed", workspace=workspace)
        for name in LOADERS:
            assert name in row(report, name.lower())["last_error"]["message"]
        assert [name for name in envs if place.starts(name)] == []


async def test_the_environment_is_part_of_the_approval(place: Place) -> None:
    """C044, C133: an entry of a repository starts nothing before its approval, which shows the names of its variables;
    with another environment it waits again, and what ran is ended."""
    workspace = write_project(place, {"tool": {"MODE": "safe"}})
    where = str(workspace)
    async with running({"fine": Fake()}, place=place) as hub, await hub.agent(client="x", workspace=workspace) as agent:
        await agent.initialize()
        await hub.until_state("tool", state="disabled", workspace=where)
        item = await waiting_item(hub, where, {"MODE"})
        assert place.starts("tool") == []
        approval = {"workspace": where, "name": "tool", "digest": item["digest"]}
        code, _ = await hub.control("POST", "/v1/approve", body=approval)
        assert code == 200
        await hub.until_state("tool", workspace=where)

        write_project(place, {"tool": {"MODE": "other"}})
        code, _ = await hub.control("POST", "/v1/reconnect", body={"workspace": where})
        assert code == 200
        await hub.until_state("tool", state="disabled", workspace=where)
        await eventually(lambda: not alive(place.starts("tool")[0]), timeout=8)
        assert len(place.starts("tool")) == 1


async def waiting_item(hub: Hub, workspace: str, names: set[str]) -> dict[str, Any]:
    with anyio.fail_after(10):
        while True:
            _, approvals = await hub.control("GET", "/v1/approvals", query={"workspace": workspace})
            for item in approvals["items"]:
                if set(item["env_names"]) == names:
                    found: dict[str, Any] = item
                    return found


async def test_loader_variables_of_the_user_are_set(place: Place) -> None:
    """C044: the user's own file may set what it likes; of the daemon's own environment the child gets little."""
    entry = {"env": {"NODE_OPTIONS": "--no-warnings", "MINE": "1"}}
    async with running({"mine": Fake({}, entry)}, place=place, env={"SECRET_TOKEN": "x"}) as hub:
        await hub.until_state("mine")
        async with await hub.agent() as agent:
            await agent.initialize()
            names = ["NODE_OPTIONS", "MINE", "SECRET_TOKEN", "HOME"]
            seen = json.loads(text(await agent.call("mcp__mine__do", {"actions": [{"env": names}]})))
        assert seen == {**entry["env"], "SECRET_TOKEN": None, "HOME": str(place.root)}


async def test_a_server_that_shakes_hands_and_exits_for_ever(place: Place) -> None:
    """C085: a server that connects and dies each time does not start from zero each time; it ends as failed."""
    dying = Fake({"on": {"tools/list": [{"default": 1}, {"exit": 1}]}})
    async with running({"dying": dying}, place=place, settings="[connect]\nattempts = 2\n") as hub:
        report = await hub.until_state("dying", state="failed", timeout=20)
        assert row(report, "dying")["attempts"] == 2
        assert len(place.starts("dying")) == 3


async def test_a_signal_ends_the_daemon_and_everything_below(place: Place) -> None:
    """C171: SIGTERM twice, or SIGINT to the whole group, still ends in order: code 0 and nothing left."""
    servers = {"stubborn": Fake({"eof": "ignore", "term": "ignore"})}
    async with running(servers, place=place, settings=SHORT_GRACE) as hub:
        await hub.until_state("stubborn")
        assert hub.process is not None
        os.kill(hub.process.pid, signal.SIGTERM)
        assert await hub.stop() == 0
    assert not place.agent_socket.exists()

"""The official servers behind the hub, and the official clients in front of it, in every mode they have."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.fakes.hub import MCPHUB, Hub, Place, Servers, row, running

pytestmark = [pytest.mark.anyio, pytest.mark.counterparts]

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / ".counterparts"
DRIVERS = ROOT / "tests" / "counterparts"
MODERN = "2026-07-28"
#: What each official server speaks when it is asked to discover first.
ERAS = {"everything": "legacy", "filesystem": "legacy", "time": "modern", "git": "modern"}
MODES = [
    ("python_client.py", "auto"),
    ("python_client.py", "legacy"),
    ("python_client.py", MODERN),
    ("client2.mjs", "auto"),
    ("client2.mjs", "legacy"),
    ("client2.mjs", MODERN),
    ("sdk1.mjs", "legacy"),
]


def node() -> str:
    """The Node that scripts/test installed because the system's is too old, else the system's."""
    own = INSTALLED / "node" / "node_modules" / "node" / "bin" / "node"
    found = str(own) if own.exists() else shutil.which("node")
    assert found and (INSTALLED / "node_modules").is_dir(), "the counterparts are not installed: run `sh scripts/test`"
    return found


def servers(folder: Path) -> Servers:
    npm = INSTALLED / "node_modules" / "@modelcontextprotocol"
    return {
        "everything": {"command": node(), "args": [str(npm / "server-everything" / "dist" / "index.js")]},
        "filesystem": {"command": node(), "args": [str(npm / "server-filesystem" / "dist" / "index.js"), str(folder)]},
        "time": {"command": sys.executable, "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"]},
        "git": {"command": sys.executable, "args": ["-m", "mcp_server_git", "-r", str(folder)]},
    }


def calls(folder: Path) -> dict[str, tuple[str, dict[str, Any], str]]:
    """By server: a tool, its arguments, and what its answer holds."""
    return {
        "everything": ("echo", {"message": "through the hub"}, "through the hub"),
        "filesystem": ("read_text_file", {"path": str(folder / "note.txt")}, "a note"),
        "time": ("get_current_time", {"timezone": "UTC"}, "UTC"),
        "git": ("git_status", {"repo_path": str(folder)}, "note.txt"),
    }


async def drive(driver: str, mode: str, todo: list[Any], **where: Any) -> Any:
    """Runs one official client: {version, server, tools, results, errors}. `where` is command, args and env, or url."""
    job = {"mode": mode, "calls": todo, **where}
    program = sys.executable if driver.endswith(".py") else node()
    with anyio.fail_after(50):
        done = await anyio.run_process(
            [program, str(DRIVERS / driver), json.dumps(job)], check=False, stderr=subprocess.PIPE
        )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository with one new file."""
    folder = tmp_path_factory.mktemp("repository").resolve()
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (folder / "note.txt").write_text("a note", "utf-8")
    return folder


@pytest.fixture(scope="module")
async def hub(folder: Path) -> AsyncIterator[Hub]:
    place = Place()
    try:
        async with running(servers(folder), place=place, settings='[http]\nlisten = "127.0.0.1:0"\n') as hub:
            await hub.until_state(*ERAS, timeout=40)
            yield hub
    finally:
        place.remove()


async def test_the_official_servers(hub: Hub) -> None:
    """All four are connected, each in the newest era it speaks, with all their tools."""
    report = await hub.status()
    assert {name: row(report, name)["era"] for name in ERAS} == ERAS
    assert all(row(report, name)["tools"] > 0 for name in ERAS)
    assert all(row(report, name)["counters"].get("noise", 0) == 0 for name in ERAS)


@pytest.mark.parametrize(("driver", "mode"), MODES)
async def test_an_official_client_without_the_hub(folder: Path, driver: str, mode: str) -> None:
    """The driver programs themselves work, so that a failure below is the hub's."""
    server = servers(folder)["time"]
    tool, arguments, holds = calls(folder)["time"]
    todo = [{"name": tool, "arguments": arguments}]
    report = await drive(driver, mode, todo, command=server["command"], args=server["args"], env={})
    assert report["version"] == ("2025-11-25" if mode == "legacy" else MODERN)
    assert holds in json.dumps(report["results"])


@pytest.mark.parametrize(("driver", "mode"), MODES)
async def test_an_official_client_through_the_hub(hub: Hub, folder: Path, driver: str, mode: str) -> None:
    """Each official client in each mode lists the tools of all four servers and calls each of them."""
    wanted = calls(folder)
    todo = [{"name": f"mcp__{name}__{tool}", "arguments": arguments} for name, (tool, arguments, _) in wanted.items()]
    report = await drive(driver, mode, todo, command=str(MCPHUB), args=["connect"], env=hub.place.environment())
    await check(hub, folder, mode, todo, report)


@pytest.mark.parametrize("token", ["path", "header"])
@pytest.mark.parametrize(("driver", "mode"), MODES)
async def test_an_official_client_over_http(hub: Hub, folder: Path, driver: str, mode: str, token: str) -> None:
    """The same over the loopback, with the token in the URL's path or in a header; it leaves no session behind."""
    wanted = calls(folder)
    todo = [{"name": f"mcp__{name}__{tool}", "arguments": arguments} for name, (tool, arguments, _) in wanted.items()]
    url = (await hub.control("GET", "/v1/url"))[1]["url"]
    address, _, rest = url.partition("/t/")
    secret, _, path = rest.partition("/")
    where = {"url": url} if token == "path" else {"url": f"{address}/{path}", "token": secret}
    report = await drive(driver, mode, todo, **where)
    await check(hub, folder, mode, todo, report)
    await hub.until(lambda report: report["sessions"] == [])


@pytest.mark.parametrize(("driver", "mode"), MODES)
async def test_an_official_client_of_one_server(hub: Hub, folder: Path, driver: str, mode: str) -> None:
    """At the path of one server, its tools have the names that it gives them."""
    url = (await hub.control("GET", "/v1/url", query={"server": "time"}))[1]["url"]
    tool, arguments, holds = calls(folder)["time"]
    report = await drive(driver, mode, [{"name": tool, "arguments": arguments}], url=url)
    assert tool in report["tools"]
    assert not [name for name in report["tools"] if name.startswith("mcp__")]
    assert holds in json.dumps(report["results"])
    assert report["errors"] == []


async def check(hub: Hub, folder: Path, mode: str, todo: list[Any], report: Any) -> None:
    """Whether a client has seen all four servers."""
    wanted = calls(folder)
    assert report["version"] == ("2025-11-25" if mode == "legacy" else MODERN)
    if report["server"] is not None:
        assert report["server"]["name"] == "mcphub"
    status = await hub.status()
    assert len(report["tools"]) == sum(row(status, name)["tools"] for name in ERAS)
    assert set(report["tools"]) >= {call["name"] for call in todo}
    for result, (_, _, holds) in zip(report["results"], wanted.values(), strict=True):
        assert not result.get("isError")
        assert holds in json.dumps(result)
    assert report["errors"] == []

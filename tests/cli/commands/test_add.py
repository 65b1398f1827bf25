"""The verb add."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from tests.cli.conftest import Place
from tests.fakes.canned_hub import CannedHub


def file(home: Place, scope: str = "user") -> Path:
    if scope == "project":
        return Path(home.workspace, ".mcp.json")
    if scope == "local":
        return next(Path(home.root, "state", "mcphub", "local").glob("*.json"))
    return Path(home.root, "config", "mcphub", "mcp.json")


def servers(home: Place, scope: str = "user") -> Any:
    return json.loads(file(home, scope).read_bytes())["mcpServers"]


def test_each_scope_has_its_file(home: Place) -> None:
    """Without a daemon: what the command line says stands in the file of the scope, and the file is named."""
    out, err, status = home.run("add", "a", "--", "npx", "-y", "x", "--flag")
    assert (out, err, status) == (f"added a to scope user ({file(home)})\n", "", 0)
    assert servers(home) == {"a": {"command": "npx", "args": ["-y", "x", "--flag"]}}
    out, err, status = home.run("add", "-s", "project", "b", "srv", "-e", "X=1")
    assert (out, status) == (f"added b to scope project ({file(home, 'project')})\n", 0)
    assert err.startswith("mcphub: b waits for your approval; ")
    assert servers(home, "project") == {"b": {"command": "srv", "args": ["-e", "X=1"]}}
    header = ("--header", "Authorization: Bearer ${T:-x}")
    out, err, status = home.run("add", "b", "https://h.example/mcp", "--scope", "local", *header, "--json")
    assert (err, status) == ("", 0)
    assert json.loads(out) == {
        "name": "b",
        "scope": "local",
        "path": str(file(home, "local")),
        "notes": [f"it is used here in place of {file(home, 'project')}:3 mcpServers.b"],
    }
    entry = {"type": "http", "url": "https://h.example/mcp", "headers": {"Authorization": "Bearer ${T:-x}"}}
    assert servers(home, "local") == {"b": entry}


def test_a_name_that_is_taken(home: Place) -> None:
    """It is refused with scope and file, and replaced only when told to."""
    assert home.run("add", "a", "--", "x")[2] == 0
    before = file(home).read_bytes()
    text = f"mcphub: cannot add server a: it already exists in scope user ({file(home)}); to replace it, add --force\n"
    assert home.run("add", "a", "--", "y") == ("", text, 1)
    assert file(home).read_bytes() == before
    assert home.run("add", "--force", "a", "--", "y")[2] == 0
    assert servers(home) == {"a": {"command": "y"}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "-t", "http", "ftp://h"], "cannot add server a: "),
        (["a", "--env", "UNSET_HERE", "--", "x"], "your environment has no variable UNSET_HERE"),
    ],
)
def test_what_is_refused(home: Place, arguments: list[str], message: str) -> None:
    """Nothing is written, not even a directory."""
    out, err, status = home.run("add", *arguments)
    assert (out, status) == ("", 1)
    assert message in err
    assert not os.path.exists(f"{home.root}/config")


def test_a_secret_from_the_environment(home: Place) -> None:
    """C025: it is in no output and in no file of servers; it is kept in the environment file, for its owner alone, and
    never changed behind the back of who else refers to it."""
    home.environment.update(TOKEN="tok-1", OTHER="tok-2")
    out, err, status = home.run("add", "-e", "TOKEN", "-e", "A=1", "a", "--", "x")
    assert status == 0
    environment = Path(home.root, "config", "mcphub", "environment")
    assert err == f"mcphub: TOKEN is kept in {environment}, and referred to as ${{...}}\n"
    assert servers(home) == {"a": {"command": "x", "env": {"TOKEN": "${TOKEN}", "A": "1"}}}
    assert environment.read_text() == "TOKEN=tok-1\n"
    assert environment.stat().st_mode & 0o777 == 0o600
    home.environment["TOKEN"] = "tok-3"
    said = home.run("add", "-e", "OTHER", "-e", "TOKEN", "b", "--", "x")
    assert said[2] == 1
    assert "has another value for it" in said[1]
    assert environment.read_text() == "TOKEN=tok-1\n"
    assert list(servers(home)) == ["a"]
    assert "tok-" not in out + err + said[1]


def test_what_a_person_wrote_stays(home: Place) -> None:
    """Comments, order, line ends and the mode of the file are as they were."""
    os.makedirs(file(home).parent)
    text = '\ufeff// mine\r\n{\r\n\t"mcpServers": {\r\n\t\t"z": {"command": "x"}, // last\r\n\t},\r\n}\r\n'
    file(home).write_bytes(text.encode())
    file(home).chmod(0o640)
    assert home.run("add", "a", "--", "y")[2] == 0
    new = '// last\r\n\t\t"a": {\r\n\t\t\t"command": "y"\r\n\t\t},\r\n'
    assert file(home).read_bytes().decode() == text.replace("// last\r\n", new)
    assert file(home).stat().st_mode & 0o777 == 0o640


@pytest.mark.timeout(60)
def test_racing_writers(home: Place) -> None:
    """C012: of commands that add to one file at once none is lost, and the file keeps its mode."""
    os.makedirs(file(home).parent)
    file(home).write_text("{}")
    file(home).chmod(0o640)
    started = [
        subprocess.Popen(home.command("add", f"s{number}", "--", "x"), env=home.environment, cwd=home.workspace,
                         stdout=subprocess.DEVNULL)
        for number in range(12)
    ]  # fmt: skip
    try:
        started[5].kill()
        for process in started:
            process.wait(40)
    finally:
        for process in started:
            process.kill()
            process.wait()
    expected = {f"s{number}" for number in range(12)}
    assert set(servers(home)) | {"s5"} == expected
    assert file(home).stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(file(home).parent)) == [".mcp.json.lock", "mcp.json"]


def test_a_daemon_is_told(home: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """It reads the file at once; what is added until it ends is its own business, with --keep it is kept by it."""
    assert home.run("add", "time", "--", "x")[2] == 0
    assert hub.asked == [("reload",)]
    hub.asked.clear()
    out, err, status = home.run("add", "--scope", "dynamic", "b", "--", "x")
    assert (out, status) == ("added b, until the daemon ends\n", 0)
    out, err, status = home.run("add", "--scope", "dynamic", "--keep", "b", "--json", "--", "x", "--json")
    assert json.loads(out) == {
        "name": "b", "scope": "dynamic", "path": f"{home.root}/state/mcphub/dynamic.json", "notes": [],
    }  # fmt: skip
    assert hub.asked == [
        ("add", "", "b", '{"command": "x"}', "False"),
        ("add", "", "b", '{"command": "x", "args": ["--json"]}', "True"),
    ]
    assert not os.path.exists(f"{home.root}/state/mcphub/dynamic.json")


def test_dynamic_without_a_daemon(home: Place) -> None:
    """What ends with a daemon needs one; what is kept does not."""
    out, err, status = home.run("add", "--scope", "dynamic", "b", "--", "x")
    assert (out, status) == ("", 3)
    assert "cannot reach the mcphub daemon" in err
    assert home.run("add", "--scope", "dynamic", "--keep", "b", "--", "x") == ("added b, kept\n", "", 0)
    assert home.run("add", "--scope", "dynamic", "--keep", "--here", "b", "--", "y")[1:] == ("", 0)
    kept = json.loads(Path(home.root, "state", "mcphub", "dynamic.json").read_bytes())
    assert kept == {
        "version": 1,
        "servers": [
            {"name": "b", "entry": {"command": "x"}, "directory": ""},
            {"name": "b", "entry": {"command": "y"}, "directory": home.workspace},
        ],
    }


def test_a_client_that_was_registered_by_hand(home: Place) -> None:
    """The flags of other hosts: the id and the port stand in the entry, the secret in the vault, and a reference in its
    place. What cannot be is refused, and nothing is written."""
    Path(home.root, "config", "mcphub").mkdir(parents=True, exist_ok=True)
    Path(home.root, "config", "mcphub", "settings.toml").write_text(f'[vault]\nkey = "file:{home.root}/key"\n')
    words = ("--client-id", "c-1", "--callback-port", "3118")
    assert home.run("add", "a", "https://h.example/mcp", *words)[2] == 0
    oauth = {"clientId": "c-1", "callbackPort": 3118}
    assert servers(home)["a"] == {"type": "http", "url": "https://h.example/mcp", "oauth": oauth}
    out, err, status = home.run("add", "b", "https://h.example/mcp", *words, "--client-secret")
    assert (out, status) == ("", 1) and "give it with MCP_CLIENT_SECRET" in err
    home.environment["MCP_CLIENT_SECRET"] = "hunter-2"
    out, err, status = home.run("add", "b", "--client-secret", *words, "https://h.example/mcp")
    assert status == 0 and "hunter-2" not in out + err
    assert servers(home)["b"]["oauth"] == {**oauth, "clientSecret": "${secret:b/client-secret}"}
    assert json.loads(home.run("secret", "list", "--json")[0])["secrets"] == [
        {"name": "b/client-secret", "servers": ["b"]}
    ]
    for wrong in (
        ("c", "https://h/", "--client-secret"),
        ("c", "https://h/", "--callback-port", "0"),
        ("c", "wss://h/", "--client-id", "x"),
        ("c", "--client-id", "x", "--", "program"),
        ("c", "https://h/", "--client-id", "x", "--client-secret", "-s", "project"),
    ):
        assert home.run("add", *wrong)[2] == 2
    assert set(servers(home)) == {"a", "b"}

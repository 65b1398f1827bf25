"""The verb config."""

from __future__ import annotations

import json
from pathlib import Path

from anyio.from_thread import BlockingPortal

from mcphub.cli.commands.config import state_text
from mcphub.status import InventoryEntry
from tests.cli.conftest import Place
from tests.fakes.canned_hub import CannedHub


def test_show(home: Place) -> None:
    """Every layer and every entry, whether it counts or not, without secrets."""
    assert home.run("add", "a", "--env", "T=sekret-1", "--", "x", "--key=sekret-2")[2] == 0
    Path(home.workspace, ".mcp.json").write_text('{"mcpServers": {"a": {"command": "y"}}}')
    out, err, status = home.run("config", "show")
    assert (err, status) == ("", 0)
    lines = out.splitlines()
    assert lines[0] == "(no daemon answers: this is what the files say)"
    assert lines[1] == f"1  project  {home.workspace}/.mcp.json"
    assert lines[3].split() == ["a", "disabled", "(approval)", "1", "y"]
    assert lines[6].split()[:2] == ["a", "shadowed"]
    out = home.run("config", "show", "--json")[0]
    assert "sekret" not in out
    bad = Path(home.root, "config", "mcphub", "mcp.json")
    bad.write_text('{"mcpServers": {"a b": {}, "c": {"command": 1}}}')
    shown = home.run("config", "show")[0]
    assert f'   problem: cannot use server "a b": {bad}:1 mcpServers."a b": ' in shown
    assert shown.count("a b") == 2
    assert "   c     broken  1     cannot use server c: " in shown
    assert json.loads(out)["format"] == "mcphub-inventory"
    assert len(json.loads(home.run("config", "--workspace", "/", "show", "--json")[0])["layers"]) == 1


def test_what_files_know_of_a_server(home: Place) -> None:
    """Nothing that files say runs: it would, or it is blocked, broken, or off; a daemon says what became of it."""
    Path(home.root, "config", "mcphub").mkdir(parents=True, exist_ok=True)
    Path(home.root, "config", "mcphub", "mcp.json").write_text(
        '{"mcpServers": {"up": {"command": "/nowhere"}, "no": {"command": "x"}, "bad": {"command": 1},'
        ' "off": {"command": "x", "enabled": false}}}'
    )
    Path(home.root, "config", "mcphub", "settings.toml").write_text(
        '[policy]\ndeniedMcpServers = [{serverName = "no"}]\n'
    )
    shown = home.run("config", "show")[0]
    assert "   up    would run          1     /nowhere\n" in shown
    assert "   no    blocked (policy)   1" in shown
    assert "   bad   broken             1" in shown
    assert "   off   disabled (person)  1" in shown
    entry = InventoryEntry(
        name="up", key="", line=1, standing="effective", state="would run", detail="", kind="program", command=[],
        url="", variables=False, masked=False, entry={}, live_state="pending 2/5",
    )  # fmt: skip
    assert state_text(entry) == "pending 2/5"


def test_a_file_of_misspelt_rules_alone(home: Place) -> None:
    """C131: whatever it is called, each key is named, and the exit status is 1."""
    for name, text, words in (
        ("rules.json", '{"deniedMcpServer": [], "alowedTools": []}', ["deniedMcpServers", "allowedTools"]),
        ("rules.json", '{"managedMcpServer": {}}', ["managedMcpServers"]),
        ("rules.json", '{"polcy": {"deniedMcpServers": []}}', ["polcy"]),
        ("managed-settings.json", '{"versoin": 1}', ["version"]),
        ("own.toml", "[polcy]\ndeniedTools = []\n", ["policy"]),
        ("own.toml", "denyTools = []\n[call]\nallowedTools = []\n", ["deniedTools", "allowedTools"]),
    ):
        Path(home.workspace, name).write_text(text)
        out, err, status = home.run("config", "validate", name)
        problems = [line for line in out.splitlines() if line.startswith("problem: ")]
        assert (err, status, len(problems)) == ("", 1, len(words)), out
        assert all(word in line for word, line in zip(words, problems, strict=True)), out


def test_thousands_of_equal_warnings(home: Place) -> None:
    """The first few and their number for a person, all of them as JSON."""
    servers = {f"s{n}": {"command": "x", "nothing": 1} for n in range(3000)}
    Path(home.workspace, "many.json").write_text(json.dumps({"mcpServers": servers}, indent=0))
    out, _, status = home.run("config", "validate", "many.json")
    assert status == 0
    assert len(out.splitlines()) == 4
    assert out.splitlines()[-1] == "warning: and 2997 more like the last 3"
    assert len(json.loads(home.run("config", "validate", "many.json", "--json")[0])["warnings"]) == 3000


def test_the_daemon_is_asked(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """It knows what files do not."""
    hub.problems = ["cannot use \x1b"]
    assert place.run("config", "show") == ("problem: cannot use \\x1b\n", "", 0)
    assert json.loads(place.run("config", "show", "--json")[0])["live"]


def test_validate(home: Place) -> None:
    """A file by its kind, or all that are in force; 1 where anything is a problem."""
    good, bad = Path(home.workspace, "good.json"), Path(home.workspace, "bad.json")
    good.write_text('{"mcpServers": {"a": {"command": "x", "args": ["${NOPE}"]}}}')
    bad.write_text('{"mcpServers": {"a": {"command": 1}}}')
    out, err, status = home.run("config", "validate", "good.json")
    assert (err, status) == ("", 0)
    assert out.startswith("warning: cannot use server a: ")
    out, _, status = home.run("config", "validate", "bad.json", "--json")
    report = json.loads(out)
    assert (status, report["kind"], len(report["problems"])) == (1, "servers", 1)
    assert f"{bad}:1 mcpServers.a.command" in report["problems"][0]
    out, _, status = home.run("config", "validate", "good.json", "bad.json", "--json")
    assert (len(json.loads(out)), status) == (2, 1)
    assert home.run("config", "validate", "none.json")[1:] == ("mcphub: cannot read none.json: No such file\n", 1)
    assert home.run("config", "validate") == ("all files: nothing is wrong (all)\n", "", 0)
    Path(home.workspace, ".mcp.json").write_text("{")
    out, _, status = home.run("config", "validate")
    assert (out.startswith(f"problem: cannot use {home.workspace}/.mcp.json:1:2"), status) == (True, 1)


def test_what_is_no_question(home: Place) -> None:
    """Words too many."""
    assert home.run("config", "show", "x")[2] == 2
    assert home.run("config")[2] == 2

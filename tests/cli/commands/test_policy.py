"""The verb policy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal

from mcphub.status import OriginStatus, PolicyRule
from tests.cli.conftest import Place
from tests.fakes.canned_hub import CannedHub

OFFLINE = "(no daemon answers: this is what the files say)\n"


@pytest.fixture
def ruled(home: Place) -> Place:
    """A place with a server and rules of the person's own."""
    assert home.run("add", "a", "--", "run", "--token=sekret")[2] == 0
    rules = '[policy]\ndeniedMcpServers = [{serverName = "a"}, {serverCommand = ["bad", "-x"]}]\n'
    Path(home.root, "config", "mcphub", "settings.toml").write_text(rules)
    return home


def test_list(ruled: Place) -> None:
    """Every rule with rank, file, line and key."""
    path = f"{ruled.root}/config/mcphub/settings.toml:2"
    out, err, status = ruled.run("policy", "list")
    assert (err, status) == ("", 0)
    rows = out.removeprefix(OFFLINE).splitlines()
    assert rows[0].split() == ["RANK", "SCOPE", "LIST", "RULE", "WHERE", "NOTE"]
    assert '{"serverName": "a"}' in rows[1]
    assert f"{path} policy.deniedMcpServers[1]" in rows[2]
    assert len(json.loads(ruled.run("policy", "list", "--json")[0])["rules"]) == 2


def test_the_daemon_is_asked(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """What is in force it knows best."""
    assert place.run("policy", "list") == ("no rule of policy is in force: every server may run\n", "", 0)
    origin = OriginStatus(scope="managed", path="/f", key="k", line=0)
    hub.rules = [PolicyRule(rank=2, list="l", rule="r\x1b", origin=origin, in_force=False, note="n")]
    assert place.run("policy", "list")[0].splitlines()[1].split(maxsplit=6) == [
        "2", "managed", "l", "r\\x1b", "/f", "k", "does not count: n",
    ]  # fmt: skip
    assert place.run("policy", "explain", "--", "npx", "-y") == ("npx -y: allowed\n", "", 0)
    assert json.loads(place.run("policy", "explain", "x", "--json")[0])["about"] == "x"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["a"], 'denied by policy: {"serverName": "a"}'),
        (["q"], "allowed"),
        (["https://h.example/"], "allowed"),
        (["--", "/usr/bin/bad", "-x"], 'denied by policy: {"serverCommand": ["bad", "-x"]}'),
        (["--", "bad"], "allowed"),
    ],
)
def test_explain(ruled: Place, words: list[str], answer: str) -> None:
    """A server that is configured, or need not be, by name, URL or command."""
    out, err, status = ruled.run("policy", "explain", *words)
    assert (err, status) == ("", 0)
    assert f": {answer}" in out


def test_validate(ruled: Place) -> None:
    """Every problem with file, line and key, and 1; of the rules in force where no file is named."""
    draft = Path(ruled.workspace, "draft.json")
    draft.write_text('{"deniedMcpServer": [],\n "allowedMcpServers": [{"serverUrl": "x"}]}')
    out, err, status = ruled.run("policy", "validate", "draft.json")
    assert (err, status) == ("", 1)
    assert f"problem: cannot use {draft}:1 deniedMcpServer: unknown key, probably meant as deniedMcpServers" in out
    assert f"warning: {draft}:2 allowedMcpServers[0].serverUrl: allows nothing" in out
    assert ruled.run("policy", "validate") == ("all files: nothing is wrong (policy)\n", "", 0)
    Path(ruled.root, "config", "mcphub", "settings.toml").write_text("[policy]\nallowedTools = 1\n")
    out, _, status = ruled.run("policy", "validate", "--json")
    assert (len(json.loads(out)["problems"]), status) == (1, 1)
    assert ruled.run("policy", "validate", f"{ruled.root}/config/mcphub/settings.toml")[2] == 1


def test_settings_that_cannot_be_read(ruled: Place) -> None:
    """That their rules are not known is a problem, whatever their text is about."""
    path = Path(ruled.root, "config", "mcphub", "settings.toml")
    path.write_text("[names]\nmaxLength=\n")
    text = f"problem: cannot use {path}:2:11: Invalid value; a daemon that runs keeps to the rules that it held last\n"
    assert ruled.run("policy", "validate") == (text, "", 1)


def test_a_rehearsal(ruled: Place) -> None:
    """On this machine, or on exports of others; it only reports."""
    draft, export = Path(ruled.workspace, "draft.json"), Path(ruled.workspace, "export.json")
    export.write_text(ruled.run("config", "show", "--json")[0])
    draft.write_text('{"deniedMcpServers": [{"serverCommand": ["run", "--token=sekret"]}]}')
    out, err, status = ruled.run("policy", "test", "draft.json")
    assert (err, status) == ("", 0)
    assert out.startswith("draft.json would block 1 of 1 servers\n  a  (this machine: user ")
    assert "draft.json:1 deniedMcpServers[0]" in out
    out, err, status = ruled.run("policy", "test", "draft.json", "--inventory", "export.json")
    assert (err, status) == ("", 0)
    assert out.startswith("draft.json would block 0 of 1 servers\nof 1 it cannot be told from here:\n  a  (export.json")
    report = json.loads(ruled.run("policy", "test", "--json", "--inventory", "export.json", "draft.json")[0])
    assert (len(report["blocked"]), len(report["unsure"])) == (0, 1)
    draft.write_text("{")
    out, _, status = ruled.run("policy", "test", "draft.json")
    assert (out.startswith("problem: cannot use draft.json:1:2"), status) == (True, 0)
    assert "would block 1 of 1 servers" in out
    assert ruled.run("policy", "test", "draft.json", "--inventory", "draft.json")[2] == 1


@pytest.mark.parametrize(
    "words",
    [["list", "x"], ["explain"], ["explain", "a", "b"], ["explain", ""], ["explain", "--", ""], ["test"],
     ["list", "--inventory", "x"], ["list", "--", "x"], ["explain", "https:\\\\a.example.com/x"],
     ["explain", "https:evil.com"], ["explain", "//evil.com/x"], ["explain", "evil.com/x"]],
)  # fmt: skip
def test_what_is_no_question(home: Place, words: list[str]) -> None:
    """Words too many or too few."""
    out, err, status = home.run("policy", *words)
    assert (out, status) == ("", 2)
    assert err.startswith(f"mcphub: cannot run policy {words[0]}: ")

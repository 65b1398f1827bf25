"""From files in a home to the set of servers of a workspace."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcphub.config import readfile
from mcphub.config.environment import child_environment
from mcphub.config.load import Loaded, load, load_beside
from mcphub.config.places import Places
from mcphub.config.settings import HubSettings
from mcphub.desired import visible
from mcphub.policy.document import read_policy
from mcphub.spec import Off, Problem, StdioSpec
from mcphub.store.toggles import ToggleStore
from mcphub.store.vault_state import Trouble, VaultUnavailable


class Home:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.places = Places(str(root), str(root / "config"), str(root / "state"))
        (root / "config").mkdir()

    def write(self, name: str, content: str | Mapping[str, Any]) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps({"mcpServers": content}), "utf-8")
        status = path.stat()
        # A second ago, so that the next change carries another time stamp for certain.
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 10**9))
        return path

    def load(self, workspace: str = "", previous: Loaded | None = None, **env: str) -> Loaded:
        return load(str(self.root / workspace) if workspace else "", env, self.places, previous=previous)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_an_empty_home(home: Home) -> None:
    """Without any file there is the built-in server, the defaults, and nothing to complain about."""
    loaded = home.load()
    assert list(loaded.resolved.servers) == ["mcphub"]
    assert loaded.settings == HubSettings()
    assert loaded.problems() == ()
    assert not loaded.stale()


def test_everything_together(home: Home) -> None:
    """C023: variables come from the daemon and from the hub's environment file, which wins; settings reach the
    entries."""
    home.write("config/mcp.json", {"a": {"command": "${BIN}", "env": {"T": "${T}"}, "envFile": "a.env"}})
    home.write("config/a.env", "E=1")
    home.write("config/environment", "T=file\nPATH=/file\n")
    home.write("config/settings.toml", "[connect]\ntimeout = 4\n[call]\ntimeout = 5\n")
    loaded = home.load(BIN="/bin/x", T="daemon", PATH="/daemon")
    spec = loaded.resolved.specs["a"]
    assert (spec.startup_timeout, spec.call_timeout) == (4, 5)
    assert isinstance(spec.transport, StdioSpec)
    assert spec.transport.command == "/bin/x"
    assert child_environment(loaded.environment, spec.transport) == {"PATH": "/file", "T": "file", "E": "1"}
    assert loaded.problems() == ()
    assert "daemon" not in repr(loaded)


def test_a_missing_variable_fails_its_server_alone(home: Home) -> None:
    """C020: the message names the environment file of this home, and the other server is ready."""
    home.write("config/mcp.json", {"a": {"command": "x", "env": {"T": "${UNSET}"}}, "b": {"command": "x"}})
    resolved = home.load().resolved
    assert set(resolved.specs) == {"b"}
    assert isinstance(resolved.servers["a"].outcome, Problem)
    assert f"set it in {home.root}/config/environment" in resolved.servers["a"].outcome.message
    home.write("config/environment", "UNSET=1")
    assert set(home.load().resolved.specs) == {"a", "b"}


def test_a_workspace_adds_its_files(home: Home) -> None:
    """C018: a project's servers are there for its workspace alone."""
    home.write("config/mcp.json", {"a": {"command": "user"}})
    home.write("repo/.mcp.json", {"a": {"command": "project"}, "b": {"command": "b"}})
    (home.root / "repo" / ".git").mkdir()
    (home.root / "repo" / "pkg").mkdir()
    assert set(home.load().resolved.specs) == {"a"}
    found = home.load("repo/pkg").resolved
    assert {name: spec.workspace for name, spec in found.specs.items()} == dict.fromkeys("ab", str(home.root / "repo"))


@pytest.mark.timeout(20)
def test_odd_files_are_problems_not_hangs(home: Home) -> None:
    """A FIFO, a directory and broken files anywhere leave what can be read in force, each named once."""
    os.mkfifo(home.root / "config" / "environment")
    (home.root / "config" / "settings.toml").mkdir()
    home.write("config/mcp.json", {"a": {"command": "x", "envFile": "fifo"}, "b": {"command": "x"}})
    os.mkfifo(home.root / "config" / "fifo")
    home.write("w/.mcp.json", "{")
    loaded = home.load("w")
    assert set(loaded.resolved.specs) == {"b"}
    assert isinstance(loaded.resolved.servers["a"].outcome, Problem)
    assert "it is a FIFO" in loaded.resolved.servers["a"].outcome.message
    causes = loaded.problems()
    assert [part for part in ("w/.mcp.json:1:2", "environment: it is a FIFO", "settings.toml: it is a directory")
            if not any(part in cause for cause in causes)] == []  # fmt: skip
    assert len(causes) == 3


def test_a_file_that_breaks_keeps_its_servers(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """C014: while a file is half-written the last good set stays in force; a file that is gone is gone."""
    monkeypatch.setattr(readfile, "GONE", 0)
    path = home.write("config/mcp.json", {"a": {"command": "x"}})
    good = home.load()
    home.write("config/mcp.json", "")
    broken = home.load(previous=good)
    assert broken.resolved.specs["a"].key() == good.resolved.specs["a"].key()
    assert any("expected a value" in text for text in broken.problems())
    assert home.load(previous=broken).resolved.specs.keys() == {"a"}
    path.unlink()
    assert "a" not in home.load(previous=broken).resolved.servers


@pytest.mark.parametrize("how", ["emptied", "removed"])
@pytest.mark.parametrize("name", ["config/mcp.json", "config/settings.toml", "config/environment", "config/a.env"])
def test_a_file_that_is_away_for_a_moment(
    home: Home, monkeypatch: pytest.MonkeyPatch, name: str, how: str
) -> None:
    """C014: whatever file it is, it counts as it was until `due`, after that as it is; what comes back in time counts
    at once."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    home.write("config/environment", "A=1\n")
    home.write("config/a.env", "B=1\n")
    home.write("config/settings.toml", "[call]\ntimeout = 9\n")
    home.write("config/mcp.json", {"a": {"command": "${A}", "envFile": "a.env"}})
    good = home.load()
    assert good.due is None
    path = home.root / name
    data = path.read_bytes()
    path.write_bytes(b"") if how == "emptied" else path.unlink()
    away = home.load(previous=good)
    assert away.resolved.specs["a"].key() == good.resolved.specs["a"].key()
    assert away.due == pytest.approx(now + readfile.GONE)
    now += readfile.GONE / 2
    assert home.load(previous=away).due == away.due
    home.write(name, data.decode())
    back = home.load(previous=away)
    assert (back.due, back.resolved.specs["a"].key()) == (None, good.resolved.specs["a"].key())
    path.write_bytes(b"") if how == "emptied" else path.unlink()
    now += 2 * readfile.GONE
    away = home.load(previous=back)
    now += readfile.GONE
    assert away.stale()
    gone = home.load(previous=away)
    assert gone.due is None
    now_is = gone.resolved.specs.get("a")
    same = now_is is not None and now_is.key() == good.resolved.specs["a"].key()
    # An empty file of servers is a broken one; the others may be empty.
    assert same is ((name, how) == ("config/mcp.json", "emptied"))


def test_files_that_cannot_be_read_any_more(home: Home) -> None:
    """C014: variables, an entry's own file of them and settings stay as they were, and that is told."""
    home.write("config/environment", "A=1\n")
    home.write("config/a.env", "B=1\n")
    home.write("config/settings.toml", "[call]\ntimeout = 9\n")
    home.write("config/mcp.json", {"a": {"command": "${A}", "envFile": "a.env"}})
    good = home.load()
    for name in ("environment", "a.env", "settings.toml"):
        (home.root / "config" / name).unlink()
        (home.root / "config" / name).mkdir()
    broken = home.load(previous=home.load(previous=good))
    assert broken.resolved.specs["a"].key() == good.resolved.specs["a"].key()
    assert broken.settings == good.settings
    told = [text for text in (*broken.problems(), *broken.warnings()) if "what it said last stays in force" in text]
    assert len(told) == 3


def test_settings_that_are_no_toml(home: Home) -> None:
    """They stay as they were; where nobody knows how they were, the defaults are in force."""
    home.write("config/settings.toml", "[call]\ntimeout = 9\n")
    good = home.load()
    home.write("config/settings.toml", "[call\n")
    assert home.load(previous=good).settings == good.settings
    assert "the settings stay as they were" in home.load(previous=good).problems()[0]
    assert home.load().settings == HubSettings()


def beside(home: Home, everybody: Loaded, workspace: str) -> Loaded | None:
    (home.root / workspace).mkdir(exist_ok=True)
    return load_beside(everybody, str(home.root / workspace), home.places)


def test_a_workspace_that_brings_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has what everybody has, the very same, and no file is read for it; what would change that is seen."""
    home.write("config/mcp.json", {"a": {"command": "x"}})
    everybody = home.load()
    with monkeypatch.context() as closed:
        closed.setattr(os, "open", lambda *_, **__: pytest.fail("a file was opened"))
        found = beside(home, everybody, "w")
    assert found is not None
    assert found.shared
    assert found.resolved.servers is everybody.resolved.servers
    assert found.resolved.workspace == str(home.root / "w")
    assert not found.stale()
    home.write("w/.mcp.json", {"b": {"command": "y"}})
    assert found.stale()
    assert beside(home, everybody, "w") is None


def test_a_workspace_with_servers_or_switches_of_its_own(home: Home) -> None:
    """What belongs to it alone is read as ever."""
    home.write("config/mcp.json", {"a": {"command": "x"}})
    ToggleStore(home.places.toggles).disable("a", str(home.root / "w"))
    assert beside(home, home.load(), "w") is None
    assert beside(home, home.load(), "v") is not None
    home.write(os.path.relpath(home.places.local(str(home.root / "v")), home.root), {"b": {"command": "y"}})
    assert beside(home, home.load(), "v") is None


@pytest.mark.parametrize(
    "name",
    ["config/mcp.json", "config/settings.toml", "config/environment", "w/.mcp.json", ".mcp.json", "config/x.env"],
)
def test_a_change_of_any_file_is_seen(home: Home, name: str) -> None:
    """Appearing, changing and disappearing of every file that was looked at, or looked for, makes the result stale."""
    home.write("config/mcp.json", {"a": {"command": "x", "envFile": "x.env"}})
    (home.root / "w").mkdir()
    (home.root / "sub" / ".git").mkdir(parents=True)
    workspace = "w" if name != ".mcp.json" else "."
    first = home.load(workspace)
    assert not first.stale()
    path = home.write(name, '{"mcpServers": {"a": {"command": "y", "envFile": "x.env"}}}')
    assert first.stale()
    second = home.load(workspace)
    assert not second.stale()
    assert second.signature() != first.signature()
    path.unlink()
    assert second.stale()


def test_a_new_repository_root_is_seen(home: Home) -> None:
    """C018: a `.git` that appears above the workspace changes which files count."""
    (home.root / "r" / "w").mkdir(parents=True)
    home.write("r/.mcp.json", {"a": {"command": "x"}})
    first = home.load("r/w")
    assert "a" not in first.resolved.servers
    (home.root / "r" / ".git").mkdir()
    assert first.stale()
    assert "a" in home.load("r/w").resolved.servers


def test_the_examples_are_good(tmp_path: Path) -> None:
    """Both commented examples are read without a problem or warning, and the settings are the defaults, all named."""
    examples = Path(__file__).parents[2] / "config"
    loaded = load("", {"HOME": "/home/u"}, Places("/home/u", str(examples), str(tmp_path)))
    assert loaded.problems() == ()
    assert set(loaded.resolved.servers) == {"time", "github", "wiki", "board", "notes"}
    assert set(loaded.resolved.specs) == {"time", "github"}
    assert loaded.settings == HubSettings()
    text = (examples / "settings.toml").read_text("utf-8")
    values = [getattr(HubSettings(), name) for name in HubSettings.__struct_fields__]
    assert text.count(" = ") == sum(len(getattr(value, "__struct_fields__", [value])) for value in values)


def test_what_a_person_switched_off(home: Home) -> None:
    """A toggle wins over the entry, wherever that comes from, and nothing of it is expanded; a new one makes stale."""
    home.write("config/mcp.json", {"a": {"command": "${UNSET}"}, "b": {"command": "x"}})
    (home.root / "w" / "sub").mkdir(parents=True)
    first = home.load("w/sub")
    assert isinstance(first.resolved.servers["a"].outcome, Problem)
    assert not first.stale()
    store = ToggleStore(home.places.toggles)
    store.disable("a")
    store.disable("b", str(home.root / "w"))
    assert first.stale()
    everywhere, there = home.load(), home.load("w/sub")
    off = everywhere.resolved.servers["a"].outcome
    assert isinstance(off, Off)
    assert (off.because, off.workspace) == ("person", "")
    assert off.detail == "switched off by you; to switch it on again: mcphub enable a"
    assert list(everywhere.resolved.specs) == ["b"]
    assert there.resolved.specs == {}
    off = there.resolved.servers["b"].outcome
    assert isinstance(off, Off)
    assert off.workspace == str(home.root / "w" / "sub")
    assert off.detail == f"switched off by you for {home.root}/w; to switch it on again: mcphub enable b"
    assert dict(visible(there.resolved))["b"] != dict(visible(everywhere.resolved))["b"]


def test_toggles_that_cannot_be_read(home: Home) -> None:
    """What was off stays off while the file is damaged or another's; where nobody has read it, nothing is known to be
    on, until it is mended or gone."""
    home.write("config/mcp.json", {"a": {"command": "x"}})
    ToggleStore(home.places.toggles).disable("a")
    before = home.load()
    for content, said in (("{", "it is damaged"), ('{"version": 9}', "it has version 9")):
        home.write("state/toggles.json", content)
        after = home.load(previous=before)
        assert after.resolved.specs == {}
        assert said in after.problems()[0]
        assert "what was switched off while it could be read stays so" in after.problems()[0]
        unknown = home.load()
        again = home.load(previous=unknown)
        for one in (unknown, again, home.load("w", previous=again)):
            assert one.resolved.specs == {}
            off = one.resolved.servers["a"].outcome
            assert isinstance(off, Off) and off.because == "person"
            assert off.detail.startswith("it may be one that you switched off") and said in off.detail
            assert one.problems()[0].endswith("no server starts until it is mended; without the file all are on")
        home.write("state/toggles.json", '{"version": 1, "off": []}')
        assert list(home.load(previous=again).resolved.specs) == ["a"]
    os.remove(home.places.toggles)
    assert list(home.load().resolved.specs) == ["a"]
    os.mkfifo(home.places.toggles)
    assert home.load(previous=before).resolved.specs == {}


def own_rules(loaded: Loaded) -> list[str]:
    """The person's own rules that are in force, `closed` for a document that cannot be read."""
    documents = [layer.policy for layer in loaded.resolved.layers if layer.policy is not None]
    return [document.fault and "closed" or ",".join(document.raw) for document in documents]


def test_the_persons_own_rules(home: Home) -> None:
    """They come out of settings.toml, for every workspace, and an unknown section is no complaint."""
    home.write("config/settings.toml", "[policy]\ndeniedMcpServers = []\n[call]\ntimeout = 9\n")
    loaded = home.load()
    assert own_rules(loaded) == own_rules(home.load("w")) == ["deniedMcpServers"]
    assert (loaded.settings.call.timeout, loaded.problems()) == (9, ())
    assert list(loaded.resolved.servers) == ["mcphub"]


def test_rules_in_a_file_that_breaks(home: Home) -> None:
    """While the file cannot be read the rules stay as they were; where nobody knows what they were, they close."""
    path = home.write("config/settings.toml", "[policy]\ndeniedMcpServers = []\n")
    good = home.load()
    home.write("config/settings.toml", "[policy]\ndeniedMcp")
    broken = home.load(previous=good)
    assert own_rules(broken) == ["deniedMcpServers"]
    assert broken.problems()[-1] == f"{path}: cannot be used now, so your own rules of policy stay as they were"
    assert own_rules(home.load(previous=broken)) == ["deniedMcpServers"]
    assert own_rules(home.load()) == ["closed"]
    assert own_rules(home.load(previous=home.load())) == ["closed"]
    path.unlink()
    path.mkdir()
    assert own_rules(home.load(previous=good)) == ["deniedMcpServers"]
    assert own_rules(home.load()) == ["closed"]


@pytest.mark.parametrize("text", ["[names]\nmaxLength=\n", "x = [", "[policy]\nde", "\0\0\0\n"])
def test_rules_in_a_file_that_breaks_and_no_longer_speaks_of_them(home: Home, text: str) -> None:
    """C131: whatever the broken text is, the rules that the file held last stay, until it can be read again or is
    gone."""
    path = home.write("config/settings.toml", '[policy]\ndeniedMcpServers = [{ serverName = "z" }]\n')
    good = home.load()
    home.write("config/settings.toml", text)
    broken = home.load(previous=good)
    assert own_rules(broken) == ["deniedMcpServers"]
    assert closed_by(broken) == []
    assert broken.problems()[-1] == f"{path}: cannot be used now, so your own rules of policy stay as they were"
    again = home.load("w", previous=broken)
    assert own_rules(again) == ["deniedMcpServers"]
    home.write("config/settings.toml", "[names]\nmaxLength = 64\n")
    assert own_rules(home.load(previous=again)) == []


def test_what_was_closed_stays_closed(home: Home) -> None:
    """A file that was broken when mcphub started, and held rules by its text, closes whatever it is broken to next; and
    one of which nobody knows closes as soon as its text speaks of rules."""
    home.write("config/settings.toml", "[policy]\ndenied = ")
    first = home.load()
    home.write("config/settings.toml", "[names]\nmaxLength=\n")
    second = home.load(previous=first)
    assert closed_by(second) != []
    assert closed_by(home.load(previous=second)) != []
    unknown = home.load()
    assert closed_by(unknown) == []
    home.write("config/settings.toml", "[policy]\ndenied = ")
    assert closed_by(home.load(previous=unknown)) != []
    home.write("config/settings.toml", "[policy]\n")
    assert closed_by(home.load(previous=second)) == []


def closed_by(loaded: Loaded) -> list[str]:
    documents = [layer.policy for layer in loaded.resolved.layers if layer.policy is not None]
    return [text for document in documents for text in read_policy(document).closed]


def test_a_misspelt_table_of_rules(home: Home) -> None:
    """C131: `[polcy]` closes at once, also where the file had no rules before; what is wrong with the next content is
    told in its place."""
    home.write("config/settings.toml", "[call]\ntimeout = 9\n")
    good = home.load()
    path = home.write("config/settings.toml", '[polcy]\ndeniedMcpServers = [{ serverName = "x" }]\n')
    slip = home.load(previous=good)
    (first,) = closed_by(slip)
    assert first.startswith(f"cannot use {path}:1 polcy: unknown key, probably meant as policy")
    assert slip.problems() == ()
    home.write("config/settings.toml", "[polcy]\ndenied = ")
    broken = home.load(previous=slip)
    (second,) = closed_by(broken)
    assert second.startswith(f"cannot use {path}:2:10: ") and "polcy" not in second
    home.write("config/settings.toml", "[policy]\nx = 1\ndenied = ")
    (third,) = closed_by(home.load(previous=broken))
    assert third.startswith(f"cannot use {path}:3:10: ")
    home.write("config/settings.toml", "[call]\ntimeout = 9\n")
    assert closed_by(home.load(previous=broken)) == []


def test_a_broken_file_that_cannot_be_read_any_more(home: Home) -> None:
    """What is wrong now is told, and nothing of what was wrong with the text before."""
    path = home.write("config/settings.toml", "[policy]\ndenied = ")
    broken = home.load()
    path.rename(home.root / "away")
    path.mkdir()
    found = home.load(previous=broken)
    told = [*found.problems(), *closed_by(found)]
    assert told and not [text for text in told if "Invalid value" in text]
    assert all(text.startswith(f"cannot read {path}: ") for text in told)


def test_the_known_sections_include_policy(home: Home) -> None:
    """Who wrote another word finds it in the list."""
    home.write("config/settings.toml", "[rules]\nx = 1\n")
    (problem,) = home.load().problems()
    assert "rules: unknown key; known here: " in problem and ", policy, " in problem


def test_a_file_without_rules_that_breaks(home: Home) -> None:
    """It takes nothing away: there was no rule, and none is in sight."""
    home.write("config/settings.toml", "[call]\ntimeout = 9\n")
    good = home.load()
    home.write("config/settings.toml", "[call]\ntimeout = \n")
    assert own_rules(home.load(previous=good)) == own_rules(home.load()) == []
    home.write("config/settings.toml", "[policy]\ndenied = ")
    assert own_rules(home.load(previous=good)) == []


def test_variables_of_an_agent(home: Home) -> None:
    """C023: those that the settings list are found first, in references alone; all others are not there."""
    home.write("config/mcp.json", {"a": {"command": "x", "args": ["${GH_T}", "${U:-none}"]}})
    home.write("config/environment", "GH_T=file")
    home.write("config/settings.toml", 'clientEnv = ["GH_T"]')
    loaded = load("", {"PATH": "/bin"}, home.places, client={"GH_T": "agent", "U": "agent", "PATH": "/evil"})
    transport = loaded.resolved.specs["a"].transport
    assert isinstance(transport, StdioSpec)
    assert transport.args == ("agent", "none")
    assert loaded.environment == {"PATH": "/bin", "GH_T": "file"}


def test_secrets_come_from_the_vault(home: Home) -> None:
    """Who refers to one depends on the vault's file, nobody else does; why there is none is in the message."""
    kept: dict[str, str] = {"gh": "tok-12"}

    def secret(name: str) -> str | None:
        if not kept:
            raise VaultUnavailable("the vault is locked", Trouble.LOCKED)
        return kept.get(name)

    def read() -> Loaded:
        return load("", {}, home.places, secret=secret)

    home.write("config/mcp.json", {"a": {"command": "x", "env": {"T": "${secret:gh}"}}, "b": {"command": "x"}})
    loaded = read()
    transport = loaded.resolved.specs["a"].transport
    assert isinstance(transport, StdioSpec) and transport.env["T"] == "tok-12"
    assert "tok-12" in loaded.secrets() and "tok-12" not in repr(loaded)
    home.write("state/vault", "sealed")
    assert loaded.stale() and not read().stale()
    kept.clear()
    resolved = read().resolved
    assert set(resolved.specs) == {"b"}
    outcome = resolved.servers["a"].outcome
    assert isinstance(outcome, Problem) and "${secret:gh}: the vault is locked" in outcome.message
    home.write("config/mcp.json", {"b": {"command": "x"}})
    before = read()
    home.write("state/vault", "sealed again")
    assert not before.stale()

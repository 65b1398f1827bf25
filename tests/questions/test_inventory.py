"""The inventory: written without secrets, and read again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.config.layer import Layer
from mcphub.config.resolve import ResolvedSet
from mcphub.desired import judgements, twins
from mcphub.errors import ConfigError
from mcphub.policy.candidate import candidate_of
from mcphub.questions.inventory import FORMAT, VERSION, inventory, known_here, read_inventory
from mcphub.spec import Scope
from mcphub.status import InventoryReport
from tests.fakes.canned_hub import failed, server
from tests.questions.machine import CATALOGUE, PROJECT, SETTINGS, USER, managed, nothing, plugin, resolved, servers

HOUSE: list[Layer] = [
    managed({"deniedMcpServers": [{"serverName": "denied"}], "managedMcpServers": {"m": {"command": "/m"}}}),
    servers(Scope.PROJECT, {"p": {"command": "p"}}),
    servers(
        Scope.USER,
        {
            "a": {"command": "run", "args": ["--key=sekret-1", "${HOME}"], "env": {"T": "sekret-2"}},
            "p": {"command": "shadowed", "env": {"T": "sekret-3"}},
            "r": {"type": "http", "url": "https://u:sekret-4@h.example/?k=sekret-5", "headers": {"X": "sekret-6"}},
            "denied": {"command": "x"},
            "off": {"command": "x", "enabled": False},
            "broken": {"command": 1},
            "blank": {"url": ""},
        },
    ),
    plugin("x", {"d": {"command": "/m"}}),
]


def made(one: ResolvedSet) -> InventoryReport:
    judged = judgements(one.servers.values(), [one], {}, unwrap=CATALOGUE, executed=nothing)
    return inventory(one, judged, twins(one, {}, CATALOGUE, nothing), live=True)


def test_every_layer_and_every_entry() -> None:
    """Whether it counts or not, and what became of it."""
    report = made(resolved(*HOUSE))
    assert (report["format"], report["version"], report["workspace"]) == (FORMAT, VERSION, "/w")
    layers = [(layer["rank"], layer["scope"], layer["path"], layer["policy"]) for layer in report["layers"]]
    assert layers == [
        (1, "managed", SETTINGS, True),
        (2, "project", PROJECT, False),
        (3, "user", USER, False),
        (4, "plugin", "/p/x/.mcp.json", False),
    ]
    shown = {
        (layer["scope"], entry["name"]): (entry["standing"], entry["state"], entry["kind"], entry["line"])
        for layer in report["layers"]
        for entry in layer["entries"]
    }
    assert shown == {
        ("managed", "m"): ("effective", "would run", "program", 8),
        ("project", "p"): ("effective", "approval", "program", 2),
        ("user", "a"): ("effective", "would run", "program", 2),
        ("user", "p"): ("shadowed", "", "", 3),
        ("user", "r"): ("effective", "would run", "remote", 4),
        ("user", "denied"): ("effective", "policy", "program", 5),
        ("user", "off"): ("effective", "person", "program", 6),
        ("user", "broken"): ("effective", "broken", "", 7),
        ("user", "blank"): ("effective", "blank", "", 8),
        ("plugin", "plugin:x:d"): ("effective", "duplicate", "program", 2),
    }
    entries = {entry["name"]: entry for entry in report["layers"][2]["entries"]}
    assert (entries["a"]["variables"], entries["a"]["masked"]) == (True, True)
    assert entries["a"]["command"] == ["run", "--key=***", "${HOME}"]
    assert entries["a"]["entry"]["env"] == {"T": "***"}


def test_what_a_daemon_knows_of_what_would_run() -> None:
    """Its state and why; of what is blocked or broken the files' word stands."""
    one = resolved(*HOUSE)
    judged = judgements(one.servers.values(), [one], {}, unwrap=CATALOGUE, executed=nothing)
    rows = {"a": failed("a"), "r": server("r"), "denied": server("denied")}
    report = inventory(one, judged, twins(one, {}, CATALOGUE, nothing), live=True, rows=rows)
    entries = {entry["name"]: entry for layer in report["layers"] for entry in layer["entries"] if entry["state"]}
    assert (entries["a"]["state"], entries["a"]["live_state"]) == ("would run", "failed")
    assert entries["a"]["detail"] == rows["a"]["reason"] != ""
    assert (entries["r"]["live_state"], entries["r"]["detail"]) == ("connected", "")
    assert not [name for name in ("denied", "m", "off", "broken") if "live_state" in entries[name]]


def test_no_secret_is_in_it() -> None:
    """Of what wins, is shadowed, or off."""
    assert "sekret" not in json.dumps(made(resolved(*HOUSE)))
    beside = made(resolved(servers(Scope.ENTERPRISE, {}), *HOUSE))
    assert "sekret" not in json.dumps(beside)
    assert {entry["standing"] for layer in beside["layers"] for entry in layer["entries"]} == {"ignored"}


def test_an_export_is_read_again() -> None:
    """The servers that count and could run, as policy sees them; what is masked makes it uncertain."""
    one = resolved(*HOUSE)
    known = read_inventory(json.dumps(made(one)).encode(), "/e")
    assert {item.candidate.name: item.certain for item in known} == {
        "m": True, "p": True, "a": False, "r": False, "denied": True, "off": True, "plugin:x:d": True,
    }  # fmt: skip
    again = {item.candidate.name: item for item in known}
    assert again["p"].candidate == candidate_of(one.servers["p"])
    assert str(again["p"].origin) == f"{PROJECT}:2 mcpServers.p"
    here = known_here(one)
    assert {item.candidate.name for item in here} == set(again)
    assert all(item.certain for item in here)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (b"", "it is no inventory"),
        (b"{}", "it is no inventory"),
        (b"[" * 2000, "it is no inventory"),
        (json.dumps({"format": "x", "version": 1, "layers": []}).encode(), "it is no inventory"),
        (json.dumps({"format": FORMAT, "version": 2, "layers": []}).encode(), "it has version 2"),
    ],
)
def test_what_is_no_export_is_refused(document: bytes, words: str) -> None:
    """By name of the file; one of a newer mcphub too."""
    with pytest.raises(ConfigError, match=f"^cannot use /e: {words}"):
        read_inventory(document, "/e")


def test_what_an_older_or_newer_export_has_besides_does_not_matter() -> None:
    """Unknown members are passed over."""
    entry: dict[str, Any] = {"name": "a", "key": "k", "standing": "effective", "kind": "built in", "later": 1}
    layer = {"scope": "user", "path": "/u", "entries": [entry, {**entry, "kind": ""}]}
    known = read_inventory(json.dumps({"format": FORMAT, "version": 1, "layers": [layer], "x": 1}).encode(), "/e")
    assert [item.shown for item in known] == ["built in"]

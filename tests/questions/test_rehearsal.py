"""What a policy file would do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.config.layer import Layer
from mcphub.questions.inventory import Known, known_here, read_inventory
from mcphub.questions.rehearsal import rehearse
from mcphub.spec import Scope
from tests.questions.machine import SETTINGS, managed, resolved, servers
from tests.questions.test_inventory import HOUSE, made

MASKED = {"type": "http", "url": "https://h.example/?k=sekret"}


def names(layer: Layer, known: list[Known]) -> tuple[list[str], list[str]]:
    report = rehearse(layer, {"here": known})
    return [one["name"] for one in report["blocked"]], [one["name"] for one in report["unsure"]]


def exported(entries: dict[str, Any]) -> list[Known]:
    return read_inventory(json.dumps(made(resolved(servers(Scope.USER, entries)))).encode(), "/e")


@pytest.mark.parametrize(
    ("rules", "blocked"),
    [
        ({}, []),
        ({"deniedMcpServers": [{"serverName": "a"}]}, ["a"]),
        ({"deniedMcpServers": [{"serverCommand": ["/m"]}]}, ["m", "plugin:x:d"]),
        ({"deniedMcpServers": [{"serverUrl": "https://h.example/*"}]}, ["r"]),
        ({"allowedMcpServers": []}, ["a", "denied", "off", "p", "plugin:x:d", "r"]),
        ({"deniedMcpServers": 1}, ["a", "denied", "off", "p", "plugin:x:d", "r"]),
    ],
)
def test_on_this_machine(rules: dict[str, Any], blocked: list[str]) -> None:
    """The file alone governs: what is in force now does not count, and the organisation's own run."""
    report = rehearse(managed(rules), {"here": known_here(resolved(*HOUSE))})
    assert ([one["name"] for one in report["blocked"]], report["unsure"]) == (blocked, [])
    assert report["judged"] == 7
    assert report["policy"] == SETTINGS
    assert bool(report["problems"]) == (rules.get("deniedMcpServers") == 1)


def test_an_enterprises_file_is_alone() -> None:
    """Everything of others would be ignored."""
    blocked, _ = names(servers(Scope.ENTERPRISE, {}), known_here(resolved(*HOUSE)))
    assert len(blocked) == 7


@pytest.mark.parametrize(
    ("rules", "where"),
    [
        ({"deniedMcpServers": [{"serverName": "a"}]}, "blocked"),
        ({"deniedMcpServers": [{"serverUrl": "https://h.example/*"}]}, "blocked"),
        ({"deniedMcpServers": [{"serverUrl": "https://h.example/?k=sekret"}]}, "unsure"),
        ({"deniedMcpServers": [{"serverCommand": ["x"]}]}, ""),
        ({"allowedMcpServers": [{"serverUrl": "https://h.example/?k=sekret"}]}, "unsure"),
        ({"allowedMcpServers": [{"serverUrl": "https://h.example/*"}]}, ""),
        ({"allowedMcpServers": []}, "blocked"),
        ({"allowedMcpServers": 1}, "blocked"),
    ],
)
def test_what_is_masked_in_an_export_is_not_guessed(rules: dict[str, Any], where: str) -> None:
    """A rule that might match what is not shown makes it uncertain, and nothing else does."""
    blocked, unsure = names(managed(rules), exported({"a": MASKED}))
    assert ("blocked" if blocked else "unsure" if unsure else "") == where


def test_several_machines() -> None:
    """Each is named."""
    known = exported({"a": {"command": "x"}})
    report = rehearse(managed({"deniedMcpServers": [{"serverName": "a"}]}), {"/1": known, "/2": known})
    assert [(one["inventory"], one["shown"]) for one in report["blocked"]] == [("/1", "x"), ("/2", "x")]
    assert f"{SETTINGS}:3 deniedMcpServers[0]" in report["blocked"][0]["sentence"]

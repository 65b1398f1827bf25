"""Tables for one document of managed settings: its servers, its rules, and what makes it broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcphub.config.document import parse_file
from mcphub.config.entries.context import Context
from mcphub.config.layer import Layer
from mcphub.config.managed_document import broken, parse_managed
from mcphub.config.resolve import resolve
from mcphub.policy.document import read_policy
from mcphub.spec import Scope

PATH = "/etc/mcphub/managed-settings.json"
HTTPS = {"type": "http", "url": "https://a.example/mcp"}


def parsed(document: Any, *, fetched: bool = False) -> Layer:
    data = document if isinstance(document, bytes) else json.dumps(document, indent=1).encode()
    return parse_managed(data, path=PATH, directory="/etc/mcphub", fetched=fetched)


def test_servers_rules_and_a_place_to_fetch_from() -> None:
    """Each goes its way: servers are entries, rules stay as they are written, with their lines; ours are no rules."""
    layer = parsed(
        {
            "$schema": "x",
            "version": 1,
            "managedMcpServers": {"a": HTTPS, "b": {"command": "b"}},
            "deniedMcpServers": [{"serverName": "x"}],
            "somethingElse": 1,
            "remoteSettings": {"url": "https://fleet.example/"},
        }
    )
    assert layer.scope is Scope.MANAGED
    assert [str(entry.origin) for entry in layer.entries] == [
        f"{PATH}:5 managedMcpServers.a",
        f"{PATH}:9 managedMcpServers.b",
    ]
    assert layer.policy is not None
    assert dict(layer.policy.raw) == {"deniedMcpServers": [{"serverName": "x"}], "somethingElse": 1}
    assert layer.policy.lines.line(("deniedMcpServers", 0)) == 14
    assert layer.policy.fault == ""
    assert layer.remote is not None
    assert str(layer.remote.origin) == f"{PATH}:19 remoteSettings"
    assert layer.problems == ()
    assert layer.warnings == ()


BROKEN: dict[str, tuple[Any, str]] = {
    "empty": (b"", f"cannot use {PATH}:1:1: "),
    "truncated": (b'{"deniedMcpServers": [{"serverName": "x"', f"cannot use {PATH}:1:41: "),
    "garbage": (b"\x00\x01\x02", f"cannot use {PATH}:1:1: "),
    "not UTF-8": (b'{"a": "\xff"}', f"cannot use {PATH}: not UTF-8 at byte 7"),
    "a list": ([], f"cannot use {PATH}: expected an object at the top, found a list"),
    "a key twice": (b'{"deniedMcpServers":[],"deniedMcpServers":[]}', f"cannot use {PATH}:1:"),
    "servers no object": ({"managedMcpServers": []}, f"cannot use {PATH}:2 managedMcpServers: expected an object"),
    "remote http": ({"remoteSettings": {"url": "http://f/"}}, f"cannot use {PATH}:2 remoteSettings: url: expected"),
    "newer version": ({"version": 2}, f"cannot use {PATH}:2 version: this mcphub knows up to version 1"),
    "odd version": ({"version": "1"}, f"cannot use {PATH}:2 version: expected a whole number, found a string"),
}


@pytest.mark.parametrize("document, message", BROKEN.values(), ids=BROKEN)
def test_a_document_that_cannot_be_used_in_full_is_broken(document: Any, message: str) -> None:
    """C005: the reverse of other files: what is wrong may be the rule that forbids. Problem and fault say the same."""
    layer = parsed(document)
    assert layer.faulty
    assert layer.policy is not None
    assert layer.policy.fault == layer.problems[0].message
    assert layer.policy.fault.startswith(message)


ENTRIES: dict[str, tuple[dict[str, Any], bool, str]] = {
    "plain http": ({"type": "http", "url": "http://a.example/"}, False, ".url: expected an address that begins with h"),
    "variable in the url": ({"type": "http", "url": "https://${H}/"}, False, ".url: what it is must not depend on"),
    "variable as command": ({"command": "${C}"}, False, ".command: what it is must not depend on"),
    "variable in an argument": ({"command": "c", "args": ["a", "${B:-b}"]}, False, ".args: what it is must not"),
    "a helper": ({**HTTPS, "headersHelper": "h"}, False, ".headersHelper: a managed server has none"),
    "a program that was fetched": ({"command": "c"}, True, ".command: settings that are fetched may name"),
}


@pytest.mark.parametrize("entry, fetched, cause", ENTRIES.values(), ids=ENTRIES)
def test_what_no_managed_server_may_be(entry: dict[str, Any], fetched: bool, cause: str) -> None:
    """C132: the entry is a problem of its own; others of the document, and its rules, stay."""
    layer = parsed({"managedMcpServers": {"bad": entry, "good": HTTPS}}, fetched=fetched)
    assert [one.name for one in layer.entries] == ["good"]
    (problem,) = layer.problems
    assert problem.name == "bad"
    assert problem.message.startswith(f"cannot use server bad: {PATH}:3 managedMcpServers.bad{cause}")
    assert not layer.faulty


def test_credentials_of_the_person_may_go_to_a_managed_server() -> None:
    """Headers and variables of a program are no identity, so they may refer to what the person has."""
    entry = {**HTTPS, "headers": {"Authorization": "Bearer ${TOKEN}"}}
    assert len(parsed({"managedMcpServers": {"a": entry, "b": {"command": "b", "env": {"K": "${K}"}}}}).entries) == 2


def test_fetched_settings_name_no_further_place() -> None:
    """One step, so that nobody is led in circles."""
    layer = parsed({"remoteSettings": {"url": "https://b.example/"}}, fetched=True)
    assert layer.faulty
    assert layer.remote is None


@pytest.mark.parametrize(
    "key, hint",
    [
        ("managedMcpServer", "managedMcpServers"),
        ("managedMCPServers", "managedMcpServers"),
        ("remote_settings", "remoteSettings"),
        ("remoteSetting", "remoteSettings"),
        ("versoin", "version"),
        ("Version", "version"),
        ("vresion", "version"),
        ("managedServers", "managedMcpServers"),
    ],
)
def test_a_key_that_is_nearly_ours_closes(key: str, hint: str) -> None:
    """What its writer meant does not count like this, the switch that closes perhaps among it."""
    layer = parsed({key: {}})
    assert layer.faulty
    [problem] = layer.problems
    assert f"{PATH}:2 {key}: unknown key, probably meant as {hint}" in problem.message
    assert layer.policy is not None
    assert not layer.policy.raw and layer.policy.fault == problem.message


@pytest.mark.parametrize(
    "document, place",
    [
        ({"policy": {"deniedMcpServers": []}}, "policy: no table of rules is read here; move what it holds to the top"),
        ({"polcy": {}}, "polcy: no table of rules is read here"),
        ({"rules": {"deniedMcpServers": []}}, "rules.deniedMcpServers: it does not count here; move it to the top"),
        ({"rules": [{"deniedMcpServer": []}]}, "rules[0].deniedMcpServer: unknown key, probably meant as deniedM"),
    ],
)
def test_rules_that_stand_too_deep_close(document: dict[str, Any], place: str) -> None:
    """C131: they were meant to forbid something."""
    policy = parsed(document).policy
    assert policy is not None
    (closed,) = read_policy(policy).closed
    assert place in closed


def test_keys_of_other_programs_at_any_depth_are_theirs() -> None:
    """C123: what is copied from them closes nothing."""
    permissions: dict[str, Any] = {"allow": [], "deny": [], "allowedTools": []}
    policy = parsed({"permissions": permissions, "agents": [{"deniedTools": []}]}).policy
    assert policy is not None
    assert read_policy(policy).closed == ()


def test_servers_by_the_name_of_other_files() -> None:
    """They are not used, and their writer learns where they go."""
    layer = parsed({"mcpServers": {}})
    assert layer.warnings == (
        f"{PATH}:2 mcpServers: this key is not used; servers of managed settings go below 'managedMcpServers'",
    )
    assert not layer.faulty


def test_broken_before_anything_was_read() -> None:
    """A file that cannot be trusted has a problem and closes policy with the same words."""
    layer = broken(PATH, "/etc/mcphub", "cannot trust it", 3)
    assert [problem.message for problem in layer.problems] == ["cannot trust it"]
    assert layer.policy is not None
    assert layer.policy.fault == "cannot trust it"


def test_the_examples_are_good() -> None:
    """Both commented examples are read without a problem or warning, and close nothing."""
    examples = Path(__file__).parents[2] / "config"
    layer = parsed((examples / "managed-settings.json").read_bytes())
    assert ([entry.name for entry in layer.entries], layer.problems, layer.warnings) == (["tickets", "payroll"], (), ())
    assert layer.policy is not None
    policy = read_policy(layer.policy)
    assert (len(policy.denied), policy.closed, policy.warnings) == (3, (), ())
    data = (examples / "managed-mcp.json").read_bytes()
    enterprise = parse_file(data, scope=Scope.ENTERPRISE, path="/etc/mcphub/managed-mcp.json", directory="/etc/mcphub")
    found = resolve([enterprise], Context())
    assert (set(found.specs), found.problems, found.warnings) == ({"wiki", "time"}, (), ())


@pytest.mark.parametrize(
    ("oauth", "fetched", "cause"),
    [
        ({"xaa": True, "clientId": "c"}, True, ""),
        ({"clientId": "c", "clientSecret": "${secret:s}"}, True, ""),
        ({"grant": "jwt-bearer", "assertion": {"file": "${HOME}/t"}}, False, ""),
        ({"grant": "jwt-bearer", "assertion": {"command": "x"}}, False, ".oauth.assertion.command: a managed server"),
        ({"grant": "jwt-bearer", "assertion": {"env": "A"}}, True, ".oauth.assertion: settings that are fetched"),
        ({"issuer": "https://${I}"}, False, ".oauth.issuer: who is signed in to"),
        ({"hosts": ["a", "${H}"]}, False, ".oauth.hosts: who is signed in to"),
    ],
)
def test_how_an_organisations_server_is_signed_in_to(oauth: dict[str, Any], fetched: bool, cause: str) -> None:
    """It depends on nobody's environment, runs no program, and what is fetched uses no token of this machine."""
    entry = {"type": "http", "url": "https://h.example/", "oauth": oauth}
    data = json.dumps({"managedMcpServers": {"a": entry}, "xaaIdp": {"issuer": 3}}).encode()
    layer = parse_managed(data, path="/m.json", directory="/", fetched=fetched)
    assert [cause in problem.message for problem in layer.problems] == ([True] if cause else [])
    assert bool(layer.entries) is not bool(cause)
    assert layer.policy is not None and not layer.policy.fault  # nor does a wrong provider close anything
    assert layer.idp is not None and layer.idp.value == {"issuer": 3}

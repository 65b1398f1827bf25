"""From resolved sets and decisions to what shall run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcphub.config.dedupe import Unwrap
from mcphub.config.document import parse_file
from mcphub.config.entries.context import Context
from mcphub.config.layer import Entry, Layer
from mcphub.config.policy_document import PolicyDocument
from mcphub.config.resolve import ResolvedSet, resolve
from mcphub.desired import desired_state, distinct, instance_key, rows, verdict, visible
from mcphub.policy.approval import subject
from mcphub.policy.combine import effective
from mcphub.spec import Broken, InstanceKey, Off, Origin, Scope, StdioSpec, Want
from mcphub.store.approvals import Decision


def layer(scope: Scope, directory: str, servers: Mapping[str, Any]) -> Layer:
    data = json.dumps({"mcpServers": servers}).encode()
    return parse_file(data, scope=scope, path=f"{directory}/mcp.json", directory=directory)


USER = layer(
    Scope.USER,
    "/u",
    {
        "own": {"command": "own"},
        "db": {"command": "db"},
        "off": {"command": "x", "enabled": False},
        "bad": {"command": 1},
        "blank": {"url": ""},
    },
)
PROJECT = layer(Scope.PROJECT, "/w", {"db": {"command": "evil"}, "wrong": "x"})


def sets() -> dict[str, ResolvedSet]:
    return {
        "": resolve([USER], Context()),
        "/w/sub": resolve([PROJECT, USER], Context(), workspace="/w/sub"),
        "/w": resolve([PROJECT, USER], Context(), workspace="/w"),
    }


def by_name(desired: Mapping[InstanceKey, Want | Off | Broken]) -> dict[tuple[str, str], Want | Off | Broken]:
    assert len({(key.name, key.workspace) for key in desired}) == len(desired)
    return {(key.name, key.workspace): value for key, value in desired.items()}


def test_every_entry_has_its_row() -> None:
    """What may run is wanted once for all workspaces, the rest is off or broken with its reason."""
    desired = by_name(desired_state(sets(), {}))
    assert set(desired) == {("own", ""), ("db", ""), ("off", ""), ("bad", ""), ("db", "/w"), ("wrong", "/w")}
    assert isinstance(desired["own", ""], Want)
    assert isinstance(desired["db", ""], Want)
    off = desired["off", ""]
    assert isinstance(off, Off)
    assert off.because == "person"
    assert isinstance(desired["bad", ""], Broken)
    assert isinstance(desired["wrong", "/w"], Broken)
    waiting = desired["db", "/w"]
    assert isinstance(waiting, Off)
    assert (waiting.because, waiting.spec.workspace) == ("approval", "/w")
    assert "mcphub approve db" in waiting.detail


def test_a_decision_is_an_input() -> None:
    """C136: a project's server is wanted after approval, off again after a change or a rejection, nothing else
    moves."""
    resolved = sets()["/w"].servers["db"]
    asked = subject(resolved)
    assert asked is not None
    key = resolved.spec.key() if resolved.spec else None
    assert key is not None
    before = desired_state(sets(), {})
    after = desired_state(sets(), {("/w", "db"): Decision((asked.content(),))})
    assert isinstance(after[key], Want)
    assert {one for one in before if before[one] != after[one]} == {key}
    rejected = desired_state(sets(), {("/w", "db"): Decision((asked.content(),), rejected=True)})[key]
    assert isinstance(rejected, Off)
    assert "rejected" in rejected.detail


def test_visible_names() -> None:
    """C007: agents of a workspace see each name once, sorted, with the instance of the entry that won."""
    found = sets()
    assert [(name, key.workspace) for name, key in visible(found["/w"])] == [
        ("bad", ""),
        ("db", "/w"),
        ("off", ""),
        ("own", ""),
        ("wrong", "/w"),
    ]
    assert visible(found["/w"]) == visible(found["/w/sub"])
    assert dict(visible(found[""]))["own"] == dict(visible(found["/w"]))["own"]
    assert all(key in desired_state(found, {}) for one in found.values() for _, key in visible(one))


def test_rows_know_what_they_shadow() -> None:
    """C007: who shows an instance can say where it comes from and what it hides."""
    found = rows(sets())
    key = dict(visible(sets()["/w"]))["db"]
    assert [str(origin) for origin in found[key].shadows] == ["/u/mcp.json:1 mcpServers.db"]


def test_a_broken_entry_keeps_its_row_until_it_changes() -> None:
    """The same fault is the same row; another fault is another, and a mended entry is a new instance."""
    keys = [
        instance_key(resolve([layer(Scope.USER, "/u", {"a": {"command": value}})], Context()).servers["a"])
        for value in (1, 1, True, "x")
    ]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    assert keys[0] is not None
    assert keys[0].digest.startswith("broken-")


def test_nothing_configured() -> None:
    """No set, no instances."""
    assert desired_state({}, {}) == {}


def test_what_runs_already_under_another_name() -> None:
    """C009: a plugin's server is off where a project's takes its place, and only there; before the project's is
    approved the plugin's runs. Others keep the instance that they share."""
    plugin = layer(Scope.PLUGIN, "/p", {"plug": {"command": "db"}})
    layers = {"": [plugin], "/w": [layer(Scope.PROJECT, "/w", {"db": {"command": "db"}}), plugin]}
    raw = {workspace: resolve(found, Context(), workspace=workspace) for workspace, found in layers.items()}

    def state(decisions: dict[tuple[str, str], Decision]) -> dict[str, ResolvedSet]:
        return {workspace: distinct(one, decisions, Unwrap()) for workspace, one in raw.items()}

    waiting = state({})
    assert waiting == raw
    asked = subject(raw["/w"].servers["db"])
    assert asked is not None
    decisions = {("/w", "db"): Decision((asked.content(),))}
    approved = state(decisions)
    desired = desired_state(approved, decisions)
    shared = dict(visible(approved[""]))["plug"]
    mine = dict(visible(approved["/w"]))
    assert isinstance(desired[shared], Want)
    assert isinstance(desired[mine["db"]], Want)
    assert mine["plug"] != shared
    off = desired[mine["plug"]]
    assert isinstance(off, Off)
    assert (off.because, mine["plug"].workspace) == ("duplicate", "/w")


def test_a_duplicate_everywhere() -> None:
    """Its row is not that of an instance that could run: one in another workspace may."""
    plugin = layer(Scope.PLUGIN, "/p", {"plug": {"command": "db"}})
    user = layer(Scope.USER, "/u", {"db": {"command": "db"}})
    raw = {"": resolve([user, plugin], Context()), "/w": resolve([user, plugin], Context(switched_off={"db": "/w"},
           workspace="/w"), workspace="/w")}  # fmt: skip
    found = {workspace: distinct(one, {}, Unwrap()) for workspace, one in raw.items()}
    desired = desired_state(found, {})
    here, there = dict(visible(found[""])), dict(visible(found["/w"]))
    assert isinstance(desired[here["plug"]], Off)
    assert isinstance(desired[there["plug"]], Want)
    assert isinstance(desired[here["db"]], Want)


def ruled(raw: Mapping[str, Any], scope: Scope = Scope.MANAGED) -> Layer:
    """A layer that brings rules and no servers."""
    return Layer(scope, "/etc/rules.json", policy=PolicyDocument(Origin(scope, "/etc/rules.json", ""), raw))


def off(desired: Mapping[InstanceKey, Want | Off | Broken], name: str, workspace: str = "") -> str:
    """Why it is off, "" where it is not."""
    found = by_name(desired)[name, workspace]
    return found.because if isinstance(found, Off) else ""


def test_policy_is_asked_about_every_server() -> None:
    """C125: whatever a server came by, the rule that forbids it is named; what is off or broken anyway stays so."""
    rules = ruled({"deniedMcpServers": [{"serverName": name} for name in ("own", "off", "bad", "db")]})
    found = {workspace: resolve([rules, PROJECT, USER], Context(), workspace=workspace) for workspace in ("", "/w")}
    desired = desired_state(found, {})
    denied = by_name(desired)["own", ""]
    assert isinstance(denied, Off)
    assert denied.because == "policy"
    assert denied.detail.startswith('denied by policy: {"serverName": "own"} in /etc/rules.json deniedMcpServers[0]')
    assert off(desired, "off") == "person"
    assert isinstance(by_name(desired)["bad", ""], Broken)
    assert {key for one in found.values() for _, key in visible(one)} == set(desired)


def test_policy_comes_before_approval() -> None:
    """What may not run is not worth a question, and an approval of before does not help."""
    resolved = resolve([ruled({"allowedMcpServers": []}), PROJECT], Context(), workspace="/w")
    asked = subject(resolved.servers["db"])
    assert asked is not None
    for decisions in ({}, {("/w", "db"): Decision((asked.content(),))}):
        assert off(desired_state({"/w": resolved}, decisions), "db", "/w") == "policy"


def test_the_built_in_server_obeys() -> None:
    """It is the person's only server until there is another; the organisation may not want even that."""
    entry = Entry("mcphub", {"inProcess": "welcome"}, Origin(Scope.EMBEDDED, "", ""))
    embedded = Layer(Scope.EMBEDDED, "", entries=(entry,))
    allowed = desired_state({"": resolve([ruled({}), embedded], Context())}, {})
    assert off(allowed, "mcphub") == ""
    denied = desired_state({"": resolve([ruled({"allowedMcpServers": []}), embedded], Context())}, {})
    assert off(denied, "mcphub") == "policy"


def test_a_forbidden_server_takes_no_others_place() -> None:
    """A plugin's copy of a server runs where the person's own entry of it may not."""
    plugin = layer(Scope.PLUGIN, "/p", {"plug": {"command": "db"}})
    rules = ruled({"deniedMcpServers": [{"serverName": "db"}]})
    user = layer(Scope.USER, "/u", {"db": {"command": "db"}})
    desired = desired_state({"": distinct(resolve([rules, user, plugin], Context()), {}, Unwrap())}, {})
    assert (off(desired, "db"), off(desired, "plug")) == ("policy", "")


def test_what_stands_behind_a_proxy_is_judged() -> None:
    """C125: a URL that a proxy leads to is denied as if it was written."""
    proxied = {"type": "http", "url": "https://proxy.example/x?mcp_url=https%3A%2F%2Fbad.example%2Fmcp"}
    rules = ruled({"deniedMcpServers": [{"serverUrl": "https://bad.example/*"}]})
    resolved = {"": resolve([rules, layer(Scope.USER, "/u", {"c": proxied})], Context())}
    assert off(desired_state(resolved, {}), "c") == ""
    assert off(desired_state(resolved, {}, unwrap=Unwrap(("proxy.example",))), "c") == "policy"


def test_what_is_executed_is_looked_up_only_for_a_rule_about_programs() -> None:
    """A search on the disk is made where its answer counts, and then a link does not hide a program."""
    asked: list[str] = []

    def executed(spec: StdioSpec) -> tuple[str, ...]:
        asked.append(spec.command)
        return ("/usr/bin/db", "/opt/evil")

    user = layer(Scope.USER, "/u", {"db": {"command": "db"}})
    by_url = resolve([ruled({"deniedMcpServers": [{"serverUrl": "*"}]}), user], Context())
    assert off(desired_state({"": by_url}, {}, executed=executed), "db") == ""
    assert asked == []
    by_program = resolve([ruled({"deniedMcpServers": [{"serverCommand": ["evil"]}]}), user], Context())
    assert off(desired_state({"": by_program}, {}, executed=executed), "db") == "policy"
    assert asked == ["db"]


def test_the_strictest_of_two_moments_counts() -> None:
    """Sets that were read before and after a rule came share an instance; it does not run."""
    user = layer(Scope.USER, "/u", {"db": {"command": "db"}})
    before = resolve([ruled({}), user], Context())
    after = resolve([ruled({"deniedMcpServers": [{"serverName": "db"}]}), user], Context())
    for one, other in ((before, after), (after, before), (resolve([user], Context()), after)):
        assert off(desired_state({"": one, "/w": other}, {}), "db") == "policy"


def test_a_verdict_on_one_server() -> None:
    """Who asks why hears what the supervisor was told."""
    resolved = resolve([USER], Context()).servers["own"]
    rules = ruled({"deniedMcpServers": [{"serverName": "own"}]}).policy
    assert rules is not None
    found = verdict(resolved, effective([rules]))
    assert (found.allowed, found.rule) == (False, '{"serverName": "own"}')
    assert verdict(resolved, effective([])).allowed

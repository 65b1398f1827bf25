"""What one document of policy says, and what is wrong with it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.config.policy_document import PolicyDocument
from mcphub.policy.document import read_policy
from mcphub.spec import Origin, Scope
from tests.policy.tables import document

PLACE = "/etc/mcphub/managed-settings.json"


def test_rules_have_their_places() -> None:
    """Every rule names its file, line and key, and shows its entry."""
    text = """{
      "allowedMcpServers": [
        {"serverName": "a"},
        {"serverUrl": "https://ok.example/*"}
      ],
      "deniedMcpServers": [{"serverCommand": ["rm", "-rf"]}],
      "allowedTools": ["a/*"],
      "deniedTools": [
        "a/delete_*"],
      "allowManagedMcpServersOnly": true
    }"""
    found = read_policy(document(Scope.MANAGED, text))
    assert (found.closed, found.warnings, found.managed) == ((), (), True)
    assert found.allowed is not None
    assert found.allowed_tools is not None
    (allowed,), (tools,) = found.allowed, found.allowed_tools
    assert [str(rule.origin) for rule in allowed.rules] == [
        f"{PLACE}:3 allowedMcpServers[0]",
        f"{PLACE}:4 allowedMcpServers[1]",
    ]
    assert [rule.text for rule in (*allowed.rules, *found.denied)] == [
        '{"serverName": "a"}',
        '{"serverUrl": "https://ok.example/*"}',
        '{"serverCommand": ["rm", "-rf"]}',
    ]
    assert (str(allowed.origin), str(found.managed_only)) == (
        f"{PLACE}:2 allowedMcpServers",
        f"{PLACE}:10 allowManagedMcpServersOnly",
    )
    assert [rule.text for rule in tools.tools] == ["a/*"]
    assert [(rule.text, rule.origin.line) for rule in found.denied_tools] == [("a/delete_*", 9)]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('{"allowedMcpServers": null}', "allowedMcpServers: expected a list, found null"),
        ('{"allowedMcpServers": "a"}', "allowedMcpServers: expected a list, found a string"),
        ('{"allowedMcpServers": {"serverName": "a"}}', "allowedMcpServers: expected a list, found an object"),
        ('{"allowedMcpServers": ["a"]}', "allowedMcpServers[0]: expected an object such as"),
        ('{"allowedMcpServers": [{"serverName": 5}]}', "allowedMcpServers[0].serverName: expected a string, found a"),
        ('{"allowedMcpServers": [{"serverUrl": "https://a b/"}]}', "allowedMcpServers[0].serverUrl: a pattern has no"),
        ('{"allowedMcpServers": [{"servername": "a"}]}', "servername: unknown key, probably meant as serverName"),
        ('{"allowedMcpServers": [{"server_url": "a"}]}', "server_url: unknown key, probably meant as serverUrl"),
        ('{"deniedMcpServers": null}', "deniedMcpServers: expected a list, found null"),
        ('{"deniedMcpServers": [{}]}', "deniedMcpServers[0]: expected exactly one of the keys"),
        ('{"deniedMcpServers": [{"serverName": "a", "serverUrl": "b"}]}', "expected exactly one of the keys"),
        ('{"deniedMcpServers": [{"reason": "x"}]}', "deniedMcpServers[0]: expected exactly one of the keys"),
        ('{"deniedMcpServers": [{"serverName": "*"}]}', "serverName: a name has no wildcards"),
        ('{"deniedMcpServers": [{"serverCommand": "rm -rf"}]}', "serverCommand: expected a list of strings, found a s"),
        ('{"deniedMcpServers": [{"serverCommand": []}]}', "serverCommand: the list names no program"),
        ('{"allowManagedMcpServersOnly": 1}', "allowManagedMcpServersOnly: expected true or false, found a number"),
        ('{"allowManagedMcpServersOnly": null}', "allowManagedMcpServersOnly: expected true or false, found null"),
        ('{"allowAllClaudeAiMcps": "no"}', "allowAllClaudeAiMcps: expected true or false, found a string"),
        ('{"deniedTools": "a/b"}', "deniedTools: expected a list, found a string"),
        ('{"deniedTools": [5]}', 'deniedTools[0]: expected a string such as "SERVER/TOOL"'),
        ('{"deniedTools": ["delete"]}', 'deniedTools[0]: expected "SERVER/TOOL"'),
        ('{"deniedMcpServer": []}', "deniedMcpServer: unknown key, probably meant as deniedMcpServers; correct it"),
    ],
)
def test_what_is_wrong_closes(text: str, cause: str) -> None:
    """C121: a value that cannot be a rule closes the document, with file, line and key."""
    found = read_policy(document(Scope.MANAGED, text))
    (reason,) = found.closed
    assert reason.startswith(f"cannot use {PLACE}:1 ")
    assert cause in reason


@pytest.mark.parametrize(
    ("scope", "text", "warning"),
    [
        (Scope.MANAGED, '{"permissions": {}}', "permissions: unknown key, not used"),
        (Scope.MANAGED, '{"allowAllClaudeAiMcps": true}', "allowAllClaudeAiMcps: not used"),
        (Scope.MANAGED, '{"allowedMcpServers": [{}]}', "allowedMcpServers[0]: allows nothing: expected exactly one"),
        (Scope.MANAGED, '{"allowedMcpServers": [{"serverName": "a b"}]}', "allows nothing: a name has 1 to 64"),
        (Scope.MANAGED, '{"allowedMcpServers": [{"serverUrl": "a.example"}]}', "names the scheme; write https://a.exam"),
        (Scope.MANAGED, '{"allowedMcpServers": [{"serverCommand": ["${X}"]}]}', "variables are not replaced in policy"),
        (Scope.MANAGED, '{"deniedMcpServers": [{"serverUrl": "${X}"}]}', "a variable stands for any text"),
        (Scope.MANAGED, '{"allowedTools": ["x"]}', 'allows nothing: expected "SERVER/TOOL"'),
        (Scope.USER, '{"allowManagedMcpServersOnly": true}', "counts in managed settings only"),
        (Scope.USER, '{"managedMcpServers": {}}', "managedMcpServers: unknown key, not used"),
        (Scope.PROJECT, '{"allowedMcpServers": []}', "what a repository brings cannot allow anything"),
        (Scope.PROJECT, '{"allowedTools": []}', "what a repository brings cannot allow anything"),
    ],
)
def test_what_is_only_odd_is_said(scope: Scope, text: str, warning: str) -> None:
    """What forbids nothing, or more than was meant, is a warning and closes nothing."""
    found = read_policy(document(scope, text))
    assert found.closed == ()
    (said,) = found.warnings
    assert warning in said


def test_keys_of_other_parts_are_known() -> None:
    """Managed settings hold more than rules."""
    found = read_policy(document(Scope.MANAGED, '{"$schema": "x", "managedMcpServers": {}, "xaaIdp": {}}'))
    assert (found.closed, found.warnings) == ((), ())


def test_a_wrong_lock_is_locked() -> None:
    """A lock that cannot be read is not open."""
    found = read_policy(document(Scope.MANAGED, '{"allowManagedMcpServersOnly": "yes"}'))
    assert found.managed_only is not None
    assert read_policy(document(Scope.MANAGED, '{"allowManagedMcpServersOnly": false}')).managed_only is None


def test_an_entry_with_two_keys_speaks_of_both() -> None:
    """Neither of them may pass for a list in which the other kind is not spoken of."""
    found = read_policy(document(Scope.MANAGED, '{"allowedMcpServers": [{"serverUrl": "x", "serverName": "a"}]}'))
    assert found.allowed is not None
    assert [(rule.kind, rule.pattern) for rule in found.allowed[0].rules] == [("serverUrl", None), ("serverName", None)]


def test_what_looks_like_a_secret_is_not_shown() -> None:
    """A rule is shown to everybody who asks why."""
    text = '{"deniedMcpServers": [{"serverCommand": ["srv", "--token=sk-abcdefghijklmnopqrstuvwxyz0123456789"]}]}'
    found = read_policy(document(Scope.MANAGED, text))
    assert "abcdefghij" not in found.denied[0].text


def test_a_fault_of_the_file_closes_whatever_it_says() -> None:
    """A document that cannot be trusted still denies, and closes."""
    raw = {"deniedMcpServers": [{"serverName": "x"}]}
    found = read_policy(PolicyDocument(Origin(Scope.MANAGED, PLACE, ""), raw, fault="cannot trust it"))
    assert found.closed == ("cannot trust it",)
    assert len(found.denied) == 1


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just(datetime.date.min)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["serverName", "serverUrl", "serverCommand", "x"]), inner, max_size=2),
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["allowedMcpServers", "deniedMcpServers", "allowedTools", "deniedTools", "a\n"]), VALUES
    )
)
def test_any_values_are_read(raw: dict[str, Any]) -> None:
    """Whatever a file holds, its rules are read and its faults are sentences of one line."""
    found = read_policy(PolicyDocument(Origin(Scope.USER, "/u/settings.toml", "policy"), raw))
    assert all("\n" not in text for text in (*found.closed, *found.warnings))

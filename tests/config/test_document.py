"""Tables for what a whole file means."""

from __future__ import annotations

import pytest

from mcphub.config.document import parse_file
from mcphub.config.names import shown_name
from mcphub.spec import Scope
from tests.config.entries.written import USER, read


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", f"cannot use {USER}:1:2: expected a key"),
        (b"", f"cannot use {USER}:1:1: expected a value, found the end of the file"),
        (b"\xff", f"cannot use {USER}: not UTF-8 at byte 0"),
        (b'{"mcpServers":{"a":{"command":"x"},\n"a":{"command":"y"}}}', f"cannot use {USER}:2:1: duplicate key 'a'"),
        (b"\n[]", f"cannot use {USER}:2: expected an object at the top, found a list"),
        (b'{"mcpServers":[]}', f"cannot use {USER}:1 mcpServers: expected an object, found a list"),
        (b'{"mcpServers":null}', f"cannot use {USER}:1 mcpServers: expected an object, found null"),
        (b'{"servers":{"a":{"command":"x"}}}', f"cannot use {USER}:1 servers: this is VS Code's key; rename it"),
    ],
)
def test_a_bad_file_is_one_problem(data: bytes, message: str) -> None:
    """C003: a file that cannot be used gives no entry and one problem that says where and why."""
    layer = parse_file(data, scope=Scope.USER, path=USER, directory="/c")
    assert layer.entries == ()
    assert [one.name for one in layer.problems] == [""]
    assert layer.problems[0].message.startswith(message)
    assert layer.unreadable


def test_other_top_level_keys_are_warnings() -> None:
    """A key that is not ours is named, with a hint when it looks like a server; `$schema` is silent."""
    layer = read('{"$schema":"x","mcpServers":{"a":{"command":"x"}},\n"inputs":[],"b":{"command":"y"}}')
    assert [entry.name for entry in layer.entries] == ["a"]
    assert layer.problems == ()
    assert layer.warnings == (
        f"{USER}:2 inputs: this key is not used",
        f"{USER}:2 b: this key is not used; a server goes below 'mcpServers'",
    )


def test_servers_beside_ours_costs_nothing() -> None:
    """VS Code's key is a problem of the file, and the entries below the right key still count."""
    layer = read({"servers": {}, "mcpServers": {"a": {"command": "x"}}})
    assert [entry.name for entry in layer.entries] == ["a"]
    assert [one.name for one in layer.problems] == [""]
    assert not layer.unreadable


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("", '""'),
        (" ", '" "'),
        ("../../x", '"../../x"'),
        ("a\nb", '"a\\nb"'),
        ("a\u001b[2J", '"a\\u001b[2J"'),
        ("\u00e9", '"\\u00e9"'),
        ("e\u0301", '"e\\u0301"'),
        ("a b", '"a b"'),
        ("a.b", '"a.b"'),
        ("n" * 65, '"' + "n" * 48 + '..."'),
        ("n" * 300, '"' + "n" * 48 + '..."'),
        ("a\u202eb", '"a\\u202eb"'),
        ("__proto__", "__proto__"),
        ("constructor", "constructor"),
        ("workspace", "workspace"),
        ("Claude Preview", '"Claude Preview"'),
    ],
)
def test_odd_names_are_refused_and_escaped(name: str, shown: str) -> None:
    """C006: a name outside the grammar, or reserved, is refused alone and never printed raw."""
    layer = read({"mcpServers": {"ok": {"command": "x"}, name: {"command": "x"}}})
    assert [entry.name for entry in layer.entries] == ["ok"]
    (refused,) = layer.problems
    assert refused.name == shown == shown_name(name)
    assert refused.message.isascii()
    assert refused.message.isprintable()
    assert f"mcpServers.{shown}" in refused.message


def test_longest_name_and_case_twins() -> None:
    """C006: 64 characters are a name; twins that differ in case alone both work and are pointed out."""
    layer = read({"mcpServers": {"n" * 64: {"command": "x"}, "A": {"command": "x"}, "a": {"command": "y"}}})
    assert [entry.name for entry in layer.entries] == ["n" * 64, "A", "a"]
    assert layer.warnings == (f"{USER}:1 mcpServers.a: differs from 'A' in upper and lower case only",)


def test_numbers_out_of_json_spoil_the_file() -> None:
    """C017: NaN is no JSON."""
    assert read('{"mcpServers":{"s":{"command":"x","timeout":NaN}}}').unreadable

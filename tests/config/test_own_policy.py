"""A person's own rules in settings.toml."""

from __future__ import annotations

import pytest

from mcphub.config.own_policy import read_own_policy, unreadable
from mcphub.spec import Scope

PATH = "/u/settings.toml"


def test_the_table() -> None:
    """Its keys are those of managed settings, each with its line."""
    text = b"""# [policy]
[call]
timeout = 9

[policy]
deniedMcpServers = [
  { serverName = "x" },
]
allowedTools = ["a/*"]
[policy.other]
key = 1
[after]
"""
    found = read_own_policy(text, PATH)
    assert found is not None
    assert found.raw["deniedMcpServers"] == [{"serverName": "x"}]
    assert (str(found.origin), found.origin.scope, found.fault) == (f"{PATH}:5 policy", Scope.USER, "")
    assert found.lines.line(("deniedMcpServers", 0)) == 6
    assert found.lines.line(("allowedTools",)) == 9


def test_an_array_of_tables() -> None:
    """TOML's other way to write a list of entries has a line for each."""
    text = b'[[policy.deniedMcpServers]]\nserverName = "a"\n[[policy.deniedMcpServers]] # why\nserverUrl = "*"\n'
    found = read_own_policy(text, PATH)
    assert found is not None
    assert [found.lines.line(("deniedMcpServers", n)) for n in (0, 1)] == [1, 3]


def test_dotted_keys() -> None:
    """TOML's third way."""
    found = read_own_policy(b"\n policy.allowedMcpServers = []\n", PATH)
    assert found is not None
    assert (found.raw, found.lines.line(("allowedMcpServers",))) == ({"allowedMcpServers": []}, 2)


@pytest.mark.parametrize("data", [b"", b"[call]\ntimeout = 1\n", b"# policy\n", b'x = "policy"\n', b"broken = "])
def test_none(data: bytes) -> None:
    """A file that does not speak of policy has none, broken or not."""
    assert read_own_policy(data, PATH) is None


@pytest.mark.parametrize(
    "data",
    [b"[policy]\ndenied = ", b"[policy]\n\xff", b"[policy]\na=1\na=2\n", b"[policy]\n" + b"a = " + b"[" * 5000],
)
def test_a_broken_file_that_speaks_of_policy_closes(data: bytes) -> None:
    """What cannot be read may be the rule that forbids."""
    found = read_own_policy(data, PATH)
    assert found is not None
    assert found.fault.startswith(f"cannot use {PATH}, which may hold rules of yours: ")


def test_no_table() -> None:
    """Another value under the name is a fault with its place."""
    found = read_own_policy(b"\npolicy = true\n", PATH)
    assert found is not None
    assert found.fault == f"cannot use {PATH}:2 policy: expected a table, written [policy], found true or false"


def test_unreadable() -> None:
    """A file that is there and cannot be read closes as well."""
    assert unreadable(PATH, "cannot read it").fault == "cannot read it"

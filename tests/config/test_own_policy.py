"""A person's own rules in settings.toml."""

from __future__ import annotations

import msgspec
import pytest

from mcphub.config.own_policy import belongs_to_policy, read_own_policy, unreadable
from mcphub.config.settings import HubSettings
from mcphub.policy.document import read_policy
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


@pytest.mark.parametrize("data", [b"", b"[call]\ntimeout = 1\n", b"# policy\n", b'x = "policy"\n', b"broken = \n"])
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
    assert found.fault.startswith(f"cannot use {PATH}:")
    assert found.fault.endswith("; the file may hold rules of yours")


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('[polcy]\ndeniedMcpServers = [{ serverName = "x" }]', ":1 polcy", "probably meant as policy"),
        ("[Policy]\na = 1", ":1 Policy", "probably meant as policy"),
        ("[policies]\na = 1", ":1 policies", "probably meant as policy"),
        ("[[polciy]]\na = 1", ":1 polciy", "probably meant as policy"),
        ("polisy.deniedTools = []", ":1 polisy", "probably meant as policy"),
        ("[mcphub.policy]\ndeniedTools = []", ":1 mcphub.policy", "does not count here; move it to the top"),
        ("deniedTools = []", ":1 deniedTools", "does not count here; move it below [policy]"),
        ("denyTools = []", ":1 denyTools", "probably meant as deniedTools"),
        ("[call]\ntimeout = 9\ndeniedMcpServers = []", ":3 call.deniedMcpServers", "move it below [policy]"),
        ("[a.b]\n[[a.b.c]]\nallowedMcpServer = []", ":3 a.b.c[0].allowedMcpServer", "meant as allowedMcpServers"),
        ("x = [{ y = { deniedTool = 1 } }]", ":1 x[0].y.deniedTool", "probably meant as deniedTools"),
    ],
)
def test_rules_outside_the_table(text: str, place: str, words: str) -> None:
    """A misspelt table, and a rule or nearly one at any level, may be what forbids: it is told with its place."""
    found = read_own_policy(text.encode(), PATH)
    assert found is not None
    (wrong,) = found.wrong
    assert wrong.startswith(f"cannot use {PATH}{place}: ") and words in wrong
    (closed,) = read_policy(found).closed
    assert closed == wrong


def test_a_misspelt_table_beside_the_right_one() -> None:
    """What the right one denies stays denied."""
    found = read_own_policy(b'[policy]\ndeniedTools = ["a/b"]\n[polcy]\n', PATH)
    assert found is not None
    policy = read_policy(found)
    assert [rule.text for rule in policy.denied_tools] == ["a/b"]
    assert len(policy.closed) == 1


@pytest.mark.parametrize("data", [b"[names]\nmaxL", b"x = [", b"[names]\nmaxLength = 6\0\0\0\n"])
def test_a_file_that_was_cut_off(data: bytes) -> None:
    """C131: what followed may have been rules, so it closes where nobody knows better; where there were none, not."""
    found = read_own_policy(data, PATH)
    assert found is not None and found.fault.endswith("what followed may have been rules of yours")
    assert read_own_policy(data, PATH, held=False) is None


@pytest.mark.parametrize("data", [b"[names]\nmaxLength=\n", b"x = [", b"\xff\n"])
def test_a_broken_file_that_held_rules(data: bytes) -> None:
    """Whatever its text is now, it is the file of those rules."""
    found = read_own_policy(data, PATH, held=True)
    assert found is not None and found.fault.endswith("; the file may hold rules of yours")


@pytest.mark.parametrize("data", [b"[polcy]\nx = ", b'[call]\n"deniedTool" = [', b"a = {deniedMcpServer = []\n"])
def test_a_broken_file_that_nearly_speaks_of_policy_closes(data: bytes) -> None:
    """C131: a slip of the pen in a file that cannot be read either."""
    found = read_own_policy(data, PATH)
    assert found is not None and found.fault


def test_no_setting_is_like_a_rule() -> None:
    """What settings are called is never taken for a misspelt rule."""
    names: list[str] = []
    sections: list[object] = [HubSettings()]
    for section in sections:
        for name, value in msgspec.structs.asdict(section).items():  # type: ignore[arg-type]
            names.append(name.replace("_", ""))
            if isinstance(value, msgspec.Struct):
                sections.append(value)
    assert len(names) > 20 and not [name for name in names if belongs_to_policy(name)]


def test_no_table() -> None:
    """Another value under the name is a fault with its place."""
    found = read_own_policy(b"\npolicy = true\n", PATH)
    assert found is not None
    assert found.fault == f"cannot use {PATH}:2 policy: expected a table, written [policy], found true or false"


def test_unreadable() -> None:
    """A file that is there and cannot be read closes as well."""
    assert unreadable(PATH, "cannot read it").fault == "cannot read it"

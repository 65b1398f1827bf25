"""Tables for the values of one file and for what a broken file leaves in force."""

from __future__ import annotations

import msgspec

from mcphub.config.jsonc import Lines
from mcphub.config.layer import Entry, Layer, keep_last_good
from mcphub.config.managed_document import broken, parse_managed
from mcphub.policy.document import read_policy
from mcphub.spec import Origin, Problem, Scope

PATH = "/c/mcp.json"


def layer(*names: str, problems: tuple[Problem, ...] = (), path: str = PATH) -> Layer:
    entries = tuple(Entry(name, {"command": name}, Origin(Scope.USER, path, name)) for name in names)
    return Layer(Scope.USER, path, "/c", entries, problems)


def problem(name: str) -> Problem:
    return Problem(name, Origin(Scope.USER, PATH, name), "wrong")


def names(layers: tuple[Layer, ...]) -> list[list[str]]:
    return [[entry.name for entry in one.entries] for one in layers]


def test_a_file_that_breaks_keeps_what_it_said() -> None:
    """A half-written file changes nothing but adds its problem and a warning; its own bad entries stay shown."""
    kept = keep_last_good((layer(problems=(problem(""),)),), (layer("a", problems=(problem("bad"),)),))
    assert names(kept) == [["a"]]
    assert [one.name for one in kept[0].problems] == ["", "bad"]
    assert "stays in force" in kept[0].warnings[0]


def test_only_a_broken_file_is_kept() -> None:
    """A file that is gone, emptied on purpose, or partly wrong counts as it is now, and so does another path."""
    before = (layer("a"),)
    assert keep_last_good((), before) == ()
    assert names(keep_last_good((layer(),), before)) == [[]]
    assert names(keep_last_good((layer("b", problems=(problem(""),)),), before)) == [["b"]]
    assert names(keep_last_good((layer(problems=(problem(""),), path="/d/mcp.json"),), before)) == [[]]


def test_a_file_stays_kept_while_it_is_broken() -> None:
    """Loading twice during the same fault gives the same entries."""
    broken = (layer(problems=(problem(""),)),)
    once = keep_last_good(broken, (layer("a"),))
    assert names(keep_last_good(broken, once)) == [["a"]]


def test_broken_managed_settings_keep_what_they_denied() -> None:
    """C131: they close, and what they denied before stays denied to the organisation's own servers, too; of an
    enterprise's file nothing is kept."""
    before = parse_managed(b'{"deniedMcpServers":[{"serverName":"m"}]}', path="/e/s.json", directory="/e")
    (kept,) = keep_last_good((broken("/e/s.json", "/e", "cannot use it"),), (before,))
    assert kept.policy is not None
    assert (kept.policy.raw, kept.policy.fault) == ({"deniedMcpServers": [{"serverName": "m"}]}, "cannot use it")
    (again,) = keep_last_good((broken("/e/s.json", "/e", "cannot use it"),), (kept,))
    assert again.policy == kept.policy
    enterprise = msgspec.structs.replace(layer("a"), scope=Scope.ENTERPRISE)
    gone = msgspec.structs.replace(layer(problems=(problem(""),)), scope=Scope.ENTERPRISE)
    assert names(keep_last_good((gone,), (enterprise,))) == [[]]


def test_what_was_wrong_with_former_content_is_told_no_more() -> None:
    """C131: broken content after other broken content: only what is wrong now is said, and it stays closed."""
    text = b'{"deniedMcpServers":[{"serverName":"m"},1],"allowedMcpServers":7}'
    before = parse_managed(text, path="/e/s", directory="/")
    assert before.policy is not None and len(read_policy(before.policy).closed) == 2
    (kept,) = keep_last_good((broken("/e/s", "/", "first"),), (before,))
    (again,) = keep_last_good((broken("/e/s", "/", "second"),), (kept,))
    assert again.policy is not None
    policy = read_policy(again.policy)
    assert policy.closed == ("second",)
    assert [rule.kind for rule in policy.denied] == ["serverName", ""]


def test_what_never_was_good_stays_in_no_force() -> None:
    """A file that was broken from the start has nothing that could be kept, and nobody says so."""
    (first,) = keep_last_good((broken("/e/s", "/", "first"),), ())
    (second,) = keep_last_good((broken("/e/s", "/", "second"),), (first,))
    assert second.warnings == ()
    assert second.policy is not None and read_policy(second.policy).closed == ("second",)


def test_entries_do_not_show_their_content() -> None:
    """What an entry holds may be secret, so its repr leaves it out."""
    entry = Entry("a", {"env": {"K": "tok-1"}}, Origin(Scope.USER, PATH, "a"))
    assert "tok-1" not in repr(entry)


def test_the_place_of_a_value() -> None:
    """A place is file, line and key path; a key that is no plain name is escaped, an unknown line left out."""
    lines = Lines(3, {"args": Lines(4, {1: Lines(5)})})
    entry = Entry("a", {}, Origin(Scope.USER, PATH, "mcpServers.a", 3), lines)
    assert entry.place() == f"{PATH}:3 mcpServers.a"
    assert entry.place("args", 1) == f"{PATH}:5 mcpServers.a.args[1]"
    assert entry.place("args", 2) == f"{PATH}:4 mcpServers.a.args[2]"
    assert entry.place("a b") == f'{PATH}:3 mcpServers.a."a b"'
    assert Entry("a", {}, Origin(Scope.USER, PATH, "a")).place("b") == f"{PATH} a.b"

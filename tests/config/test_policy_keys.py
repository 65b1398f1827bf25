"""Keys of policy where they do not count."""

from __future__ import annotations

import pytest

from mcphub.config.policy_keys import DENIED, GUARDED, TABLE, UNMISTAKABLE, in_vain, misplaced, misspelt


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({}, []),
        ([], []),
        ("deniedMcpServers", []),
        ({"env": {"a": 1}, "hooks": [1, "deniedTools", {}]}, []),
        ({"deniedTools": []}, [(("deniedTools",), "deniedTools")]),
        ({"denyTools": []}, [(("denyTools",), "deniedTools")]),
        ({"a": {"b": {"deniedTools": 1}}}, [(("a", "b", "deniedTools"), "deniedTools")]),
        ({"a": [1, [{"deniedTools": 1}]]}, [(("a", 1, 0, "deniedTools"), "deniedTools")]),
        # those at the top come before what stands below others
        (
            {"a": {"deniedTools": 1}, "allowedTools": 1},
            [(("allowedTools",), "allowedTools"), (("a", "deniedTools"), "deniedTools")],
        ),
        # one message for a key, whatever stands below it
        ({"allowedTools": {"deniedTools": 1}}, [(("allowedTools",), "allowedTools")]),
    ],
)
def test_what_stands_where_it_does_not_count(value: object, found: list[object]) -> None:
    """At any depth, with its place; what is below a key that was found is not looked at."""
    assert list(misplaced(value, GUARDED)) == found


def test_what_is_looked_for_and_where() -> None:
    """Only keys that are wanted; what is skipped is skipped at the top alone; a place begins where the caller says."""
    value = {TABLE: {DENIED: 1}, "x": {TABLE: {DENIED: 1}}, "deniedTools": 1}
    found = misplaced(value, UNMISTAKABLE, skip=(TABLE,), path=("settings",))
    assert list(found) == [(("settings", "x", TABLE, DENIED), DENIED)]
    assert list(misplaced(value, UNMISTAKABLE)) == [((TABLE, DENIED), DENIED), (("x", TABLE, DENIED), DENIED)]


def test_deep_values() -> None:
    """A file that is nested without end is read to its end."""
    value: object = {DENIED: 1}
    for _ in range(2_000):
        value = [value]
    assert len(list(misplaced(value, GUARDED))) == 1


def test_what_is_said() -> None:
    """The key that was meant, or where the right one belongs."""
    assert "probably meant as deniedTools" in misspelt("deniedTools")
    assert in_vain("denyTools", "deniedTools", "to the file") == misspelt("deniedTools")
    assert in_vain("deniedTools", "deniedTools", "to the file") == "it does not count here; move it to the file"

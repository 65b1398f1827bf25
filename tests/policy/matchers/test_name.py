"""Rules by name."""

from __future__ import annotations

import pytest

from mcphub.policy.candidate import Candidate
from mcphub.policy.matchers.matcher import Refused, Useless
from mcphub.policy.matchers.name import NameMatcher
from mcphub.spec import Scope

MATCHER = NameMatcher()


def says(pattern: str, name: str, *, deny: bool) -> bool:
    found, warning = MATCHER.read(pattern, deny)
    assert warning == ""
    subject = MATCHER.subject(Candidate(name, Scope.USER, "built in"))
    return MATCHER.denies(found, subject) if deny else MATCHER.allows(found, subject)


@pytest.mark.parametrize(
    ("pattern", "name", "allows", "denies"),
    [
        ("git-hub", "git-hub", True, True),
        ("git-hub", "Git-Hub", False, True),
        ("git-hub", "git-hub ", False, True),
        ("git-hub", "git\u200b-hub", False, True),
        ("git-hub", "\uff47it-hub", False, True),
        ("git-hub", "git_hub", False, False),
        ("git-hub", "git-hub-2", False, False),
        ("github", "plugin:tools:github", False, True),
        ("plugin:tools:github", "plugin:tools:github", True, True),
        ("plugin:tools:github", "github", False, False),
    ],
)
def test_names(pattern: str, name: str, allows: bool, denies: bool) -> None:
    """C120: what is allowed is meant exactly, what is denied in every form that reads the same."""
    assert says(pattern, name, deny=False) is allows
    assert says(pattern, name, deny=True) is denies


@pytest.mark.parametrize(("pattern", "name"), [("café", "cafe\u0301"), ("cafe\u0301", "café"), ("STRASSE", "straße")])
def test_composed_and_decomposed_letters_are_one(pattern: str, name: str) -> None:
    """C120: a twin of a denied name in another normal form is denied."""
    assert says(pattern, name, deny=True)


@pytest.mark.parametrize("value", [None, 5, [], {}])
def test_other_values_mean_nothing(value: object) -> None:
    """A name is a string."""
    with pytest.raises(Refused, match="expected a string"):
        MATCHER.read(value, deny=True)


@pytest.mark.parametrize(
    ("value", "deny"),
    [("*", True), ("git*", True), ("*", False), ("", True), ("  ", True), ("a b", False), ("", False)],
)
def test_names_that_no_server_can_have(value: str, deny: bool) -> None:
    """A wildcard would not be one, so that a rule with it would protect nobody."""
    with pytest.raises(Useless):
        MATCHER.read(value, deny)

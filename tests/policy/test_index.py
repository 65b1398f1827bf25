"""Finding the first rule that matches, without trying each."""

from __future__ import annotations

import itertools

import pytest

from mcphub.policy.candidate import Candidate
from mcphub.policy.index import Index
from mcphub.policy.matchers import BY_KIND
from mcphub.policy.matchers.matcher import Refused, Useless
from mcphub.policy.rules import Rule
from mcphub.spec import Origin, Scope, Secret
from tests.policy.tables import lines, unescaped

HERE = Origin(Scope.MANAGED, "/p", "deniedMcpServers")

PROGRAMS = [
    Candidate("a", Scope.USER, "program", *forms)
    for forms in itertools.product(
        [("rm",), ("/bin/rm",), ("./RM", "-f"), ("/u/link", "-f")],
        [(), ("${C}",), ("rm",)],
        [(), ("/u/link", "/bin/rm")],
    )
]
COMMANDS = [["rm"], ["RM", "-f"], ["/bin/rm"], ["${C}"], ["${B}/rm", "-f"], ["link", "-f"], ["other"]]
NAMES = ["a", "A", "plugin:p:a", "b"]


def rules(kind: str, values: list[object], deny: bool) -> list[Rule]:
    found = []
    for number, value in enumerate(values):
        try:
            pattern, _ = BY_KIND[kind].read(value, deny)
        except (Refused, Useless):
            continue
        found.append(Rule(kind, str(number), HERE, pattern))
    return found


def remotes() -> list[Candidate]:
    urls = dict.fromkeys(unescaped(row.cells[1]) for row in lines("urls.txt"))
    return [Candidate("x", Scope.USER, "remote", urls=(Secret(url),)) for url in urls]


def patterns() -> list[object]:
    return list(dict.fromkeys(unescaped(row.cells[0]) for row in lines("urls.txt")))


@pytest.mark.parametrize("deny", [True, False])
@pytest.mark.parametrize(
    ("kind", "values", "candidates"),
    [
        ("serverUrl", patterns(), remotes()),
        ("serverCommand", COMMANDS, PROGRAMS),
        ("serverName", NAMES, [Candidate(name, Scope.USER, "built in") for name in (*NAMES, "plugin:q:b", "B")]),
    ],
    ids=["url", "command", "name"],
)
def test_no_rule_is_overlooked(kind: str, values: list[object], candidates: list[Candidate], deny: bool) -> None:
    """For every rule and every server of the tables, alone and among all others, the answer is that of trying each."""
    matcher = BY_KIND[kind]
    all_rules = rules(kind, values, deny)
    compare = matcher.denies if deny else matcher.allows
    together = Index(matcher, all_rules, deny)
    alone = [Index(matcher, [rule], deny) for rule in all_rules]
    for candidate in candidates:
        subject = matcher.subject(candidate)
        assert subject is not None
        met = [rule for rule in all_rules if compare(rule.pattern, subject)]
        assert together.first(subject) == (met[0] if met else None)
        assert [index.first(subject) for index in alone] == [rule if rule in met else None for rule in all_rules]


def test_other_kinds_and_empty_rules_are_left_out() -> None:
    """An index holds what can match, and is false where nothing can."""
    found = Index(BY_KIND["serverName"], [Rule("serverUrl", "", HERE, "a"), Rule("serverName", "", HERE)], True)
    assert not found
    assert found.first(("a", frozenset("a"))) is None

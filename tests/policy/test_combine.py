"""What several documents say together. The rows about servers are in tests/data/policy/servers.txt."""

from __future__ import annotations

from mcphub.config.entries.context import Context
from mcphub.config.layer import Layer
from mcphub.config.policy_document import PolicyDocument
from mcphub.config.resolve import resolve
from mcphub.policy.combine import combine, documents_of, effective, policy_of
from mcphub.policy.rules import Policy
from mcphub.spec import Scope
from tests.policy.tables import document

FIRST = document(Scope.MANAGED, '{"deniedMcpServers": [{"serverName": "a"}], "allowedTools": ["a/*"], "odd": 1}')
SECOND = document(
    Scope.MANAGED,
    '{"deniedMcpServers": [{"serverName": "b"}], "allowedMcpServers": [{"serverName": "x"}], "allowedTools": ["b/*"]}',
)
OWN = document(
    Scope.USER, '{"deniedTools": ["c/*"], "allowedMcpServers": [{"serverName": "y"}], "allowedTools": ["c/*"]}'
)
LOCK = document(Scope.MANAGED, '{"allowManagedMcpServersOnly": true}')
BROKEN = document(Scope.MANAGED, "FAULT")


def texts(found: Policy) -> tuple[list[str], list[str], list[str], list[str]]:
    return (
        [rule.text for one in found.allowed or () for rule in one.rules],
        [rule.text for rule in found.denied],
        [rule.text for one in found.allowed_tools or () for rule in one.tools],
        [rule.text for rule in found.denied_tools],
    )


def test_nothing_says_nothing() -> None:
    """Without documents there is no policy."""
    assert effective([]) == combine([]) == Policy()


def test_lists() -> None:
    """What is denied unites; of the organisation's lists of what is allowed the first counts, a person's is added."""
    assert texts(effective([FIRST, SECOND, OWN])) == (
        ['{"serverName": "x"}', '{"serverName": "y"}'],
        ['{"serverName": "a"}', '{"serverName": "b"}'],
        ["a/*", "c/*"],
        ["c/*"],
    )
    assert texts(effective([SECOND, FIRST]))[2] == ["b/*"]


def test_the_lock_is_about_what_is_allowed() -> None:
    """Under it a person's lists of what is allowed are not read, those of what is denied are."""
    assert texts(effective([SECOND, LOCK, OWN])) == (
        ['{"serverName": "x"}'],
        ['{"serverName": "b"}'],
        ["b/*"],
        ["c/*"],
    )


def test_a_lock_without_a_list_allows_everything_and_says_so() -> None:
    """Who sets the lock alone has probably forgotten the list."""
    found = effective([LOCK, OWN])
    assert found.allowed is None
    assert "so every server is allowed" in found.warnings[-1]


def test_a_lock_that_is_wrong_does_not_speak_of_what_is_allowed() -> None:
    """It closes, and nothing else is said of it."""
    found = effective([document(Scope.MANAGED, '{"allowManagedMcpServersOnly": "yes"}')])
    assert (len(found.closed), found.warnings) == (1, ())


def test_faults_and_warnings_are_kept() -> None:
    """One broken document is enough, and nothing that was said is lost."""
    found = effective([FIRST, BROKEN, OWN])
    assert found.closed == (BROKEN.fault,)
    assert any("odd" in text for text in found.warnings)
    assert found.managed
    assert not effective([OWN]).managed


def test_the_documents_of_a_set() -> None:
    """They come with the layers, in the order of their rank."""
    layers = [Layer(one.origin.scope, one.origin.path, policy=one) for one in (FIRST, OWN)]
    found = resolve([layers[0], Layer(Scope.USER, "/u/mcp.json"), layers[1]], Context())
    documents: tuple[PolicyDocument, ...] = documents_of(found)
    assert documents == (FIRST, OWN)
    assert policy_of(found) == effective([FIRST, OWN])

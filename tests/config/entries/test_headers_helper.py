"""Tables for the program that gives an entry's headers."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.config import urls
from mcphub.config.entries.context import Context
from mcphub.config.entries.entry import parse_entry
from mcphub.config.layer import Entry
from mcphub.spec import HelperSpec, HttpSpec, Origin, Problem, Scope, Secret, ServerSpec
from tests.config.entries.written import CONTEXT, parsed, problem, spec

HTTP = {"type": "http", "url": "https://h.example/mcp"}


def helper(text: str, scope: Scope = Scope.USER, context: Context = CONTEXT) -> HelperSpec:
    transport = spec({**HTTP, "headersHelper": text}, scope, context).transport
    assert isinstance(transport, HttpSpec) and transport.helper is not None
    return transport.helper


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("get-token", ("get-token",)),
        ("get-token --for 'the server' a\\ b \"c d\"", ("get-token", "--for", "the server", "a b", "c d")),
        ("get-token; rm -rf $HOME | x && y", ("get-token;", "rm", "-rf", "$HOME", "|", "x", "&&", "y")),
        ("sh -c 'a | b'", ("sh", "-c", "a | b")),
        ("${HOME}/bin/token ${TOKEN}", ("/home/u/bin/token", "tok-5")),
        ("x # y", ("x", "#", "y")),
    ],
)
def test_words(text: str, words: tuple[str, ...]) -> None:
    """As a shell splits them, and nothing else of a shell; variables are replaced within a word, which stays one."""
    found = helper(text)
    assert tuple(map(str, found.words)) == words
    assert (found.shown, found.cwd, found.foreign) == (text, "/home/u/.config/mcphub", False)


def test_a_value_with_blanks_is_one_word() -> None:
    """What a variable holds is never split, nor does it end a quotation."""
    assert helper("x '${A}'", context=Context({"A": "b c' d"}, "/e")).words == ("x", "b c' d")


@pytest.mark.parametrize("kind", [{"type": "http", "url": "https://h/"}, {"type": "sse", "url": "https://h/"},
                                  {"type": "ws", "url": "wss://h/"}])  # fmt: skip
def test_each_remote_kind_has_one(kind: dict[str, Any]) -> None:
    """It makes another server of the entry; a program has none."""
    assert parsed({**kind, "headersHelper": "x"}).warnings == ()
    assert spec({**kind, "headersHelper": "x"}).key() != spec(kind).key()
    assert spec({**kind, "headersHelper": "x"}).key() != spec({**kind, "headersHelper": "y"}).key()
    [warning] = parsed({"command": "x", "headersHelper": "x"}).warnings
    assert "not used by a server that is a program" in warning


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        ("", "is empty"),
        (" ", "is empty"),
        ("''", "names no program"),
        ("x 'y", "cannot be split into words: no closing quotation"),
        (["x"], "expected a string, found a list"),
        ("x\0", "NUL"),
        ("x ${UNSET}", "missing variable UNSET"),
    ],
)
def test_wrong_helpers(value: Any, cause: str) -> None:
    """Each is an error at its key."""
    said = problem({**HTTP, "headersHelper": value})
    assert "mcpServers.s.headersHelper" in said
    assert cause in said


def test_a_projects_helper() -> None:
    """It runs in the project's directory, is marked as foreign, and gets no credential in its words."""
    found = helper("bin/token ${TOKEN}x", Scope.PROJECT)
    assert (found.cwd, found.foreign) == ("/w", True)
    assert found.words == ("bin/token", "x")


def test_a_catalogue_has_no_helper() -> None:
    """What is fetched from somewhere does not name programs that run here."""
    entry = Entry("s", {**HTTP, "headersHelper": "x"}, Origin(Scope.WEBAPP, "/c", "s"))
    outcome = parse_entry(entry, "", CONTEXT).outcome
    assert isinstance(outcome, Problem) and "a catalogue cannot name a program" in outcome.message


def test_its_secrets() -> None:
    """What a variable brought into its words is hidden; what stands in the file is not."""
    found = spec({**HTTP, "headersHelper": "token --key ${TOKEN}"})
    assert isinstance(found, ServerSpec) and isinstance(found.transport, HttpSpec)
    assert urls.secrets_of(found.transport) == {"tok-5"}
    assert "tok-5" not in repr(found)
    assert found.transport.helper is not None and found.transport.helper.words[2] == Secret("tok-5")

"""The flags of `mcphub add`."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.cli.entry_flags import entry_of, sorted_arguments
from mcphub.cli.usage import UsageError
from mcphub.errors import ConfigError

ENVIRON = {"TOKEN": "tok-1", "EMPTY": ""}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a -- cmd", "a -- cmd"),
        ("a cmd", "a cmd"),
        ("--env K=V a -- cmd --env X", "--env K=V a -- cmd --env X"),
        ("a --env K=V -- cmd -e x", "--env K=V a -- cmd -e x"),
        ("a -e K=V -s local -- cmd", "-e K=V -s local a -- cmd"),
        ("a npx -y pkg --force", "a -- npx -y pkg --force"),
        ("a npx -- x", "a npx -- x"),
        ("-t http a https://h/m -H x --json", "-t http -H x --json a https://h/m"),
        ("a https://h/m --header x", "--header x a https://h/m"),
        ("--scope=user a -- docker run -- x", "--scope=user a -- docker run -- x"),
        ("a --env", "--env a"),
        ("", ""),
    ],
)
def test_options_may_stand_behind_words(line: str, expected: str) -> None:
    """However people order them, options of ours come first and what belongs to the command stays with it."""
    assert sorted_arguments(line.split()) == expected.split()


@pytest.mark.parametrize(
    ("transport", "words", "env", "headers", "entry", "kept"),
    [
        (None, ["npx"], [], [], {"command": "npx"}, {}),
        (None, ["npx", "-y", "x"], [], [], {"command": "npx", "args": ["-y", "x"]}, {}),
        ("stdio", ["x"], ["A=1=2", "B="], [], {"command": "x", "env": {"A": "1=2", "B": ""}}, {}),
        (None, ["x"], ["A=${B}"], [], {"command": "x", "env": {"A": "${B}"}}, {}),
        (None, ["x"], ["TOKEN"], [], {"command": "x", "env": {"TOKEN": "${TOKEN}"}}, {"TOKEN": "tok-1"}),
        (None, ["x"], ["EMPTY"], [], {"command": "x", "env": {"EMPTY": "${EMPTY}"}}, {"EMPTY": ""}),
        (None, ["https://h/m"], [], [], {"type": "http", "url": "https://h/m"}, {}),
        ("sse", ["https://h/m"], [], [], {"type": "sse", "url": "https://h/m"}, {}),
        ("http", ["${BASE}/m"], [], [], {"type": "http", "url": "${BASE}/m"}, {}),
        (
            "http", ["https://h/m"], [], ["Authorization: Bearer ${T}", "X-A:b:c"],
            {"type": "http", "url": "https://h/m", "headers": {"Authorization": "Bearer ${T}", "X-A": "b:c"}}, {},
        ),
    ],
)  # fmt: skip
def test_flags_are_an_entry(
    transport: str | None, words: list[str], env: list[str], headers: list[str], entry: Any, kept: dict[str, str]
) -> None:
    """They give what a person would have written, and a value that comes from the environment is not in it."""
    assert entry_of(transport, words, env, headers, ENVIRON) == (entry, kept)


@pytest.mark.parametrize(
    ("transport", "words", "env", "headers", "message"),
    [
        (None, [], [], [], "give its URL, or -- and its command"),
        ("stdio", ["https://h/m"], [], [], "a URL is no command; add --transport http"),
        (None, ["https://h/m", "x"], [], [], "a URL is no command"),
        (None, ["ftp://h/m"], [], [], "this one is no command either"),
        ("http", ["https://h/m", "x"], [], [], "takes one URL, and no arguments"),
        ("http", ["https://h/m"], ["A=tok-9"], [], "--env is for a program"),
        (None, ["x"], [], ["A: tok-9"], "--header is for a server at a URL"),
        (None, ["x"], ["=tok-9"], [], "--env takes NAME=VALUE or NAME"),
        (None, ["x"], ["A=tok-9", "A=2"], [], "--env A is given twice"),
        ("http", ["https://h/m"], [], ["tok-9"], "--header takes 'Name: value'"),
        ("http", ["https://h/m"], [], ["a b: tok-9"], "--header takes 'Name: value'"),
        ("http", ["https://h/m"], [], ["A: tok-9", "a: 2"], "--header a is given twice"),
    ],
)
def test_what_makes_no_entry(
    transport: str | None, words: list[str], env: list[str], headers: list[str], message: str
) -> None:
    """It is named, and what might be a secret is not in the message."""
    with pytest.raises(UsageError, match=message) as caught:
        entry_of(transport, words, env, headers, ENVIRON)
    assert "tok-" not in str(caught.value)


def test_a_variable_that_is_not_there() -> None:
    """The command line is sound, and what it refers to is missing."""
    with pytest.raises(ConfigError, match="your environment has no variable UNSET"):
        entry_of(None, ["x"], ["UNSET"], [], ENVIRON)

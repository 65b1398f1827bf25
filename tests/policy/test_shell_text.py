"""Which part of a command is a text for a shell."""

from __future__ import annotations

import shlex

import pytest

from mcphub.policy.shell_text import command_behind, plain_commands, program_name, shell_text


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("sh -c 'npx foo'", "npx foo"),
        ("/bin/bash -lc 'a b' x", "a b"),
        ("bash -o pipefail -c 'a | b'", "a | b"),
        ("env -u B A=1 nohup zsh -c x", "x"),
        ("busybox sh -c x", "x"),
        ("fish --command x", "x"),
        ("sh -c", ""),
        ("sh ./run.sh -c x", ""),
        ("bash -- -c", ""),
        ("node -c x", ""),
        ("", ""),
    ],
)
def test_the_text(command: str, text: str) -> None:
    """It is what follows -c, whatever program starts the shell."""
    assert shell_text(shlex.split(command)) == text


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("npx foo", [["npx", "foo"]]),
        ("cd x && A=1 npx foo; exec ./run | sh", [["cd", "x"], ["npx", "foo"], ["./run"], ["sh"]]),
        ("a\nb & c", [["a"], ["b"], ["c"]]),
        ("(a 'b c')", [["a", "b c"]]),
        ("a 'never ends", [["a"]]),
        ("", []),
    ],
)
def test_plain_commands(text: str, commands: list[list[str]]) -> None:
    """Each command between separators, as its words; what is no shell's text does no harm."""
    assert plain_commands(text) == commands


def test_names_and_wrappers() -> None:
    """A path or an ending of Windows makes no other program; who runs another program is passed by."""
    assert [program_name(one) for one in ("/usr/bin/Node", "C:\\x\\npx.CMD")] == ["node", "npx"]
    assert command_behind(["sudo", "-u", "me", "nice", "-n", "5", "x", "-n"]) == ["x", "-n"]
    assert command_behind(["env", "A=b"]) == []

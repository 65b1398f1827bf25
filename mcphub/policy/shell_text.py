"""Owns which part of a command is a text for a shell, and the commands that this text plainly holds.

It must not know what any of them does. It reads words as a shell would only as far as they are plain: variables,
substitutions and scripts stay what they are, so what is found is a help and no promise.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "busybox"})
_SEPARATORS = frozenset({";", "&", "&&", "|", "||", "|&", ";;", "(", ")", "\n"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
#: Programs that run the command behind them, each with those of its options that take a value.
_BEFORE = {
    "env": frozenset({"-u", "--unset", "-C", "--chdir"}),
    "exec": frozenset({"-a"}),
    "command": frozenset[str](),
    "nohup": frozenset[str](),
    "setsid": frozenset[str](),
    "time": frozenset[str](),
    "nice": frozenset({"-n", "--adjustment"}),
    "sudo": frozenset({"-u", "--user", "-g", "--group"}),
    "doas": frozenset({"-u"}),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
}


def program_name(path: str) -> str:
    """The name by which a program is known, whatever path leads to it."""
    name = re.split(r"[/\\]", path)[-1]
    return re.sub(r"\.(?:exe|cmd|bat)$", "", name, flags=re.IGNORECASE).lower()


def command_behind(command: Sequence[str]) -> list[str]:
    """The command without programs that only run another one, and without assignments in front of it."""
    words = list(command)
    while words:
        values = _BEFORE.get(program_name(words[0]))
        if values is None and not _ASSIGNMENT.fullmatch(words[0]):
            break
        words.pop(0)
        while values is not None and words and words[0].startswith("-"):
            option = words.pop(0)
            if option in values and words:
                words.pop(0)
    return words


def shell_text(command: Sequence[str]) -> str:
    """The text that the command gives to a shell (`sh -c TEXT`), "" = it gives none."""
    words = command_behind(command)
    if not words or program_name(words[0]) not in _SHELLS:
        return ""
    rest = words[1:]
    if program_name(words[0]) == "busybox":
        rest = rest[1:]
    while rest and rest[0][:1] in ("-", "+") and rest[0] != "--":
        option = rest.pop(0)
        if not option.startswith("--") and "c" in option:
            return next((word for word in rest if not word.startswith("-")), "")
        if option in ("-o", "+o", "-O", "--rcfile", "--init-file") and rest:
            rest.pop(0)
        if option == "--command":
            return rest[0] if rest else ""
    return ""


def plain_commands(text: str) -> list[list[str]]:
    """The commands in a shell's text, as far as they are plain, each as its words."""
    lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word in _SEPARATORS or set(word) <= set(";&|()"):
                found.append([])
            else:
                found[-1].append(word)
    except ValueError:  # quotes that do not end
        pass
    return [words for words in map(command_behind, found) if words]

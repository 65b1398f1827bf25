"""Owns rules by command: `{"serverCommand": ["npx", "-y", "server"]}`, program and every argument, in order.

It must not look for files: what a command leads to is part of what it is asked about.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any, NamedTuple

from mcphub.config.jsonc import kind_of
from mcphub.policy.candidate import Candidate
from mcphub.policy.glob import glob

from .matcher import Refused, Useless

_VARIABLE = re.compile(r"\$\{[^}]*\}")


class _Denied(NamedTuple):
    """`program` is a path or a bare name, folded. `globs` is the list with `*` for variables, () where it has none."""

    program: str
    args: tuple[str, ...]
    argv: tuple[str, ...]
    globs: tuple[str, ...]


class CommandMatcher:
    """Allowed commands are equal word by word, and a program that is not a path must not be looked for in places that
    the entry itself chooses. A denied program is met under any path that ends in its name, and by what it leads to."""

    kind = "serverCommand"

    def read(self, value: Any, deny: bool) -> tuple[Any, str]:
        if not isinstance(value, list):
            hint = "; write the program and each argument as one string" if isinstance(value, str) else ""
            raise Refused(f"expected a list of strings, found {kind_of(value)}{hint}")
        for item in value:
            if not isinstance(item, str):
                raise Refused(f"expected a list of strings, found {kind_of(item)} in it")
        if not value or not value[0]:
            raise Useless("the list names no program")
        variables = any(map(_VARIABLE.search, value))
        if not deny:
            if variables:
                raise Useless("variables are not replaced in policy; write the value")
            return tuple(value), ""
        program, *args = value
        globs = tuple(_VARIABLE.sub("*", item) for item in value) if variables else ()
        warning = "a variable stands for any text in a rule that denies" if variables else ""
        return _Denied(_folded(program), tuple(args), tuple(value), globs), warning

    def subject(self, candidate: Candidate) -> Candidate | None:
        return candidate if candidate.kind == "program" else None

    def key(self, pattern: Any, deny: bool) -> tuple[str, ...] | None:
        if not deny:
            return tuple(pattern)
        return None if pattern.globs else (_base(pattern.argv[0]), *pattern.args)

    def keys(self, subject: Candidate, deny: bool) -> set[tuple[str, ...]]:
        if not deny:
            return {subject.argv}
        args = subject.argv[1:]
        found = {(_base(subject.argv[0]), *args)}
        for program in subject.executed:
            found.add((_base(program), *args))
        if subject.written and subject.written != subject.argv:
            found.add((_base(subject.written[0]), *subject.written[1:]))
        return found

    def allows(self, pattern: tuple[str, ...], subject: Candidate) -> bool:
        return subject.argv == pattern and ("/" in pattern[0] or not subject.own_path)

    def denies(self, pattern: _Denied, subject: Candidate) -> bool:
        if pattern.argv in (subject.argv, subject.written):
            return True
        if pattern.globs:
            return any(_covers(pattern.globs, argv) for argv in (subject.argv, subject.written))
        if pattern.args != subject.argv[1:]:
            return False
        programs = (subject.argv[0], *subject.executed)
        if "/" in pattern.program:
            return any(_folded(program) == pattern.program for program in programs)
        return any(_base(program) == pattern.program for program in programs)


def _folded(program: str) -> str:
    """One form of a path; without case, which some file systems do not tell apart."""
    return (posixpath.normpath(program) if "/" in program else program).casefold()


def _base(program: str) -> str:
    return posixpath.basename(_folded(program)) if "/" in program else program.casefold()


def _covers(globs: tuple[str, ...], argv: tuple[str, ...]) -> bool:
    if len(globs) != len(argv):
        return False
    program, *args = globs
    program, first = program.casefold(), _folded(argv[0])
    named = glob(program, first) or ("/" not in program and glob(program, posixpath.basename(first)))
    return named and all(glob(pattern, arg) for pattern, arg in zip(args, argv[1:], strict=True))

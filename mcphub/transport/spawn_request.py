"""Owns what a program is started with, as the system takes it, and the words for why it cannot be started.

It must not start anything, nor know which server asks.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mcphub.errors import TransportError
from mcphub.spec import Limits
from mcphub.transport import executable

#: What execve(2) and chdir(2) take: file, arguments, environment, working directory.
Encoded = tuple[bytes, list[bytes], dict[bytes, bytes], bytes]


@dataclass(frozen=True, slots=True)
class SpawnRequest:
    """A program to be started in a session of its own, with exactly this environment.

    `fds` become its stdin, stdout and stderr; they stay the caller's, to be closed after the spawn, however it ends.
    `path` is the file to execute, "" = `argv[0]`; absolute, see `executable.find_executable`. `shown_path` and
    `shown_cwd` are what may be printed of it and of `cwd`, "" = they themselves. `named_by` is the variable that names
    the program, "" = the server's entry.
    """

    argv: Sequence[str] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    cwd: str
    fds: tuple[int, int, int]
    path: str = ""
    limits: Limits = Limits()
    shown_path: str = ""
    shown_cwd: str = ""
    named_by: str = ""

    @property
    def file(self) -> str:
        return self.path or self.argv[0]

    def encoded(self) -> Encoded:
        """Raises TransportError (kind `spawn`) for what no system could execute, naming the place, never the value."""
        words = [("the path", self.file), ("the working directory", self.cwd)]
        words += [(f"argument {number}", argument) for number, argument in enumerate(self.argv)]
        for name, value in self.env.items():
            if not name or "=" in name:
                raise TransportError(f"cannot start a process: {name!r} is no name of a variable", kind="spawn")
            words += [("the name of a variable", name), (f"the value of variable {name!r}", value)]
        for place, word in words:
            try:
                if b"\0" in os.fsencode(word):
                    raise TransportError(f"cannot start a process: {place} holds a NUL byte", kind="spawn")
            except UnicodeEncodeError:
                raise TransportError(f"cannot start a process: {place} is not valid text", kind="spawn") from None
        env = {os.fsencode(name): os.fsencode(value) for name, value in self.env.items()}
        return os.fsencode(self.file), list(map(os.fsencode, self.argv)), env, os.fsencode(self.cwd)

    def refusal(self, stage: str, number: int) -> TransportError:
        """Why the system did not start it (kind `spawn`), in words fit for the person; values of arguments, environment
        and variables are never in them. `stage` is `fork`, `cwd` or `exec`, `number` the errno."""
        _, argv, env, _ = self.encoded()
        size = sum(map(len, argv)) + sum(len(name) + len(value) + 2 for name, value in env.items())
        head = executable.read_head(self.file)
        shown, cwd = self.shown_path or self.file, self.shown_cwd or self.cwd
        is_now = executable.access(self.file)
        reason = executable.explain_refusal(stage, number, shown, cwd, size, head, lambda _: is_now)
        if self.named_by and stage == "exec" and number != errno.E2BIG:
            reason = f"cannot use {self.named_by}: {reason}"
        return TransportError(reason, kind="spawn")

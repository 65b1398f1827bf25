"""Owns a program that stands in for one of the system's: first on PATH, it notes each call, and answers by a table.

It must not know what is tested.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

_PROGRAM = """#!{python} -I
import json, os, sys
with open({log!r}, "a") as log:
    print(json.dumps([{name!r}, *sys.argv[1:]]), file=log)
with open({table!r}) as table:
    answers = json.load(table)
called = " ".join(sys.argv[1:])
for words, status, output in answers:
    if words in called:
        sys.stdout.write(output)
        sys.exit(status)
sys.exit(0)
"""


class StandIn:
    """One program, in a directory that goes first into PATH. `answers` are (part of the arguments, status, output): the
    first that fits counts, else it ends with status 0 and no word."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self._table = directory / f"{name}.answers"
        self._log = directory / "calls"
        self.answers()
        program = directory / name
        program.write_text(
            _PROGRAM.format(python=sys.executable, name=name, log=str(self._log), table=str(self._table))
        )
        program.chmod(0o755)

    def answers(self, *answers: tuple[str, int, str]) -> None:
        self._table.write_text(json.dumps(answers))

    def calls(self) -> list[Sequence[str]]:
        """How all programs of this directory were called since the last look."""
        if not self._log.exists():
            return []
        lines = self._log.read_text().splitlines()
        self._log.unlink()
        return [json.loads(line) for line in lines]

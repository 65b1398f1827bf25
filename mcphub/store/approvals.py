"""Owns the file of what a person decided about servers that projects bring.

It must not know what a digest is made of, nor what follows from a decision. The file lies in the person's state
directory, never in a project: nothing that a repository holds can approve anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from .state_file import StateFile

VERSION = 1
#: Approved contents remembered for one server, newest last: switching between branches must not ask again each time.
REMEMBERED = 8


class Approved(msgspec.Struct, frozen=True):
    """One content that was approved; beside its digest, what it ran, to be shown when it changes. No secrets.

    `entry` is the entry as JSON by lines, its values masked; "" of what was approved before that was kept.
    """

    digest: str
    command: tuple[str, ...] = ()
    cwd: str = ""
    env_names: tuple[str, ...] = ()
    entry: str = ""


class Decision(msgspec.Struct, frozen=True):
    """What is decided about one name of one directory. `rejected` wins, whatever the content, until it is approved."""

    approved: tuple[Approved, ...] = ()
    rejected: bool = False


#: By real path of the project file's directory, and name of the server.
Decisions = Mapping[tuple[str, str], Decision]


class _Item(msgspec.Struct, frozen=True):
    directory: str
    name: str
    approved: tuple[Approved, ...] = ()
    rejected: bool = False


class _File(msgspec.Struct, frozen=True):
    approvals: tuple[_Item, ...] = msgspec.field(default=())


class ApprovalStore:
    """The file at `path`. Every method reads it afresh, so that several programs may use it at once."""

    def __init__(self, path: str) -> None:
        self._file = StateFile(path, _File, version=VERSION, lost="no server of a project is approved")

    def load(self) -> tuple[Decisions, tuple[str, ...]]:
        """All decisions, and what is wrong with the file. A file that cannot be used approves nothing."""
        value, problems = self._file.load()
        return _decisions(value), problems

    def check(self) -> None:
        """Raise ConfigError where no decision could be kept now."""
        self._file.check()

    def approve(self, directory: str, name: str, content: Approved) -> None:
        """Approve this content, and take a rejection back. Raises ConfigError when the file cannot be changed."""

        def approved(old: Decision) -> Decision:
            others = tuple(one for one in old.approved if one.digest != content.digest)
            return Decision((*others, content)[-REMEMBERED:])

        self._change(directory, name, approved)

    def reject(self, directory: str, name: str) -> None:
        """Reject the server, whatever its content; forgets what was approved. Raises ConfigError as `approve`."""
        self._change(directory, name, lambda old: Decision(rejected=True))

    def forget(self, directory: str, name: str) -> None:
        """Back to undecided. Raises ConfigError as `approve`."""
        self._change(directory, name, lambda old: Decision())

    def _change(self, directory: str, name: str, decide: Callable[[Decision], Decision]) -> None:
        def change(old: _File) -> _File:
            decisions = _decisions(old)
            new = decide(decisions.pop((directory, name), Decision()))
            if new != Decision():
                decisions[directory, name] = new
            return _File(
                tuple(_Item(*key, one.approved, one.rejected) for key, one in sorted(decisions.items()))
            )

        self._file.change(change)


def _decisions(file: _File) -> dict[tuple[str, str], Decision]:
    return {(item.directory, item.name): Decision(item.approved, item.rejected) for item in file.approvals}

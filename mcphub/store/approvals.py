"""Owns the file of what a person decided about servers that projects bring.

It must not know what a digest is made of, nor what follows from a decision. The file lies in the person's state
directory, never in a project: nothing that a repository holds can approve anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from mcphub.errors import ConfigError

from . import atomicfile

VERSION = 1
#: Approved contents remembered for one server, newest last: switching between branches must not ask again each time.
REMEMBERED = 8


class Approved(msgspec.Struct, frozen=True):
    """One content that was approved; beside its digest, what it ran, to be shown when it changes. No secrets."""

    digest: str
    command: tuple[str, ...] = ()
    cwd: str = ""
    env_names: tuple[str, ...] = ()


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
    version: int = VERSION
    approvals: tuple[_Item, ...] = msgspec.field(default=())


class ApprovalStore:
    """The file at `path`. Every method reads it afresh, so that several programs may use it at once."""

    def __init__(self, path: str) -> None:
        self._path = path

    def load(self) -> tuple[Decisions, tuple[str, ...]]:
        """All decisions, and what is wrong with the file. A file that cannot be used approves nothing."""
        try:
            with open(self._path, "rb") as file:
                return self._decode(file.read()), ()
        except FileNotFoundError:
            return {}, ()
        except OSError as error:
            return {}, (f"cannot read {self._path}: {error.strerror}; no server of a project is approved",)
        except ConfigError as error:
            return {}, (f"{error}; no server of a project is approved",)

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
        def change(data: bytes | None) -> bytes:
            decisions = dict(self._for_change(data))
            new = decide(decisions.pop((directory, name), Decision()))
            if new != Decision():
                decisions[directory, name] = new
            return _encode(decisions)

        atomicfile.update(self._path, change)

    def _for_change(self, data: bytes | None) -> Decisions:
        if data is None:
            return {}
        try:
            return self._decode(data)
        except _NewerVersion:
            raise
        except ConfigError:
            # It approves nothing as it is; a copy stays beside it for whoever wants to know what happened.
            atomicfile.replace(f"{self._path}.damaged", data)
            return {}

    def _decode(self, data: bytes) -> Decisions:
        try:
            version = msgspec.json.decode(data, type=_Version).version
            if version > VERSION:
                raise _NewerVersion(
                    f"cannot use {self._path}: it has version {version} and this mcphub knows up to {VERSION}; "
                    "use the newer mcphub that wrote it, or move the file away"
                )
            file = msgspec.json.decode(data, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(f"cannot use {self._path}: it is damaged ({error})") from error
        return {(item.directory, item.name): Decision(item.approved, item.rejected) for item in file.approvals}


class _NewerVersion(ConfigError):
    """A newer mcphub wrote the file: it is left alone, since writing it would lose what only that one knows."""


class _Version(msgspec.Struct, frozen=True):
    version: int


def _encode(decisions: Decisions) -> bytes:
    items = tuple(
        _Item(directory, name, decision.approved, decision.rejected)
        for (directory, name), decision in sorted(decisions.items())
    )
    return msgspec.json.format(msgspec.json.encode(_File(VERSION, items)), indent=2) + b"\n"

"""Owns what every file of mcphub's own state has in common: a version, and what happens when it is not the one we know.

It must not know what any of them holds. Blocking calls on small local files: an event loop makes them from a thread.

A file is one JSON object with `version` beside its own members. An older one is migrated step by step when it is read,
and written in the new form by the next change. One that a newer mcphub wrote is left alone: it counts as empty, and a
change is refused, since writing it would lose what only that one knows. A damaged one counts as empty too; the next
change sets it aside as `FILE.damaged` and starts anew.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from mcphub.errors import ConfigError

from . import atomicfile

#: Bytes above which a file is not read.
MAX_BYTES = 64 << 20

T = TypeVar("T", bound=msgspec.Struct)

#: Takes the members of the version that it is registered for to those of the next one. Raises as reading a damaged
#: document does: KeyError, TypeError, ValueError.
Migration = Callable[[dict[str, Any]], dict[str, Any]]


class NewerVersion(ConfigError):
    """A newer mcphub wrote the file."""


class Damaged(ConfigError):
    """The file is not what any mcphub wrote."""


class StateFile(Generic[T]):
    """The file at `path`, whose members are those of `kind` (every field with a default; it has no `version`).

    `lost` says what follows when it cannot be used, such as "no server of a project is approved". `migrations` has one
    step for each version that is older than `version`. `mend`: a change sets a damaged file aside and begins anew; else
    it is refused, where what the file said may still be in force.
    """

    def __init__(
        self, path: str, kind: type[T], *, version: int = 1, migrations: Mapping[int, Migration] | None = None,
        lost: str, mend: bool = True,
    ) -> None:
        self.path = path
        self.version = version
        self._kind = kind
        self._migrations = migrations or {}
        self._lost = lost
        self._mend = mend

    def load(self) -> tuple[T, tuple[str, ...]]:
        """What the file says (without one: the empty value), and why it cannot be used. Never raises."""
        try:
            return self.decode(_read(self.path)), ()
        except OSError as error:
            return self._kind(), (f"cannot read {self.path}: {error.strerror or error}; {self._lost}",)
        except ConfigError as error:
            return self._kind(), (f"{error}; {self._lost}",)

    def understand(self, data: bytes | None) -> tuple[T, tuple[str, ...]]:
        """As `load`, of bytes that the caller has read (None = there is no file)."""
        try:
            return self.decode(data), ()
        except ConfigError as error:
            return self._kind(), (f"{error}; {self._lost}",)

    def change(self, change: Callable[[T], T]) -> T:
        """Replace what the file says by what `change` makes of it, with every other writer locked out meanwhile.

        Returns the new value. Raises ConfigError when the file cannot be written or a newer mcphub wrote it; what
        `change` raises leaves the file as it was.
        """
        made: list[T] = []

        def changed(data: bytes | None) -> bytes:
            try:
                old = self.decode(data)
            except Damaged as damaged:
                if not self._mend:
                    raise ConfigError(f"{damaged}; repair it, or move it away: {self._lost}") from damaged
                assert data is not None
                atomicfile.replace(f"{self.path}.damaged", data)
                old = self._kind()
            made.append(change(old))
            if data is not None and made[0] == old and _version(data) == self.version:
                return data
            return self.encode(made[0])

        atomicfile.update(self.path, changed)
        return made[0]

    def check(self) -> None:
        """Raise ConfigError where a change would be refused now, or the file could not be written."""
        data = atomicfile.check(self.path)
        try:
            self.decode(data)
        except Damaged:
            if not self._mend:
                raise

    def decode(self, data: bytes | None) -> T:
        """The value of a file's bytes. Raises `NewerVersion` or `Damaged`, which name the file."""
        if data is None:
            return self._kind()
        try:
            if len(data) > MAX_BYTES:
                raise ValueError(f"it is larger than {MAX_BYTES >> 20} MiB")
            version = _version(data)
            if version > self.version:
                raise NewerVersion(
                    f"cannot use {self.path}: it has version {version} and this mcphub knows up to {self.version}; "
                    "use the newer mcphub that wrote it, or move the file away"
                )
            if version == self.version:
                return msgspec.json.decode(data, type=self._kind)
            document = msgspec.json.decode(data, type=dict[str, Any])
            for step in range(version, self.version):
                document = self._migrations[step](document)
            return msgspec.convert(document, self._kind)
        except KeyError as error:
            raise Damaged(f"cannot use {self.path}: it is damaged (no {error})") from error
        except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise Damaged(f"cannot use {self.path}: it is damaged ({error})") from error

    def encode(self, value: T) -> bytes:
        """The bytes of a file that says this."""
        document = {"version": self.version, **msgspec.to_builtins(value)}
        return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


class _Version(msgspec.Struct, frozen=True):
    version: int


def _version(data: bytes) -> int:
    data.decode("utf-8")  # the decoder passes what it need not look at
    return msgspec.json.decode(data, type=_Version).version


def _read(path: str) -> bytes | None:
    """The bytes of a regular file, None without one; never waits for a FIFO. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return file.read(MAX_BYTES + 1)

"""Owns the files of what servers said they offer, which outlive the daemon: sealed, bounded, and dropped when damaged.

It must not know what they hold, nor who is wanted. Blocking calls on small local files.

One file an owner, so that a damaged one says nothing about the others, and of a thousand only those are read that are
wanted. A file is a line with the version of the form, a keyed digest, and the content. The digest covers the owner too:
a file that was cut, changed, renamed or brought from elsewhere counts as none. So does one of another version, newer or
older: all that it costs is that a server is listed again. Names are keyed digests of owners, since an owner is made
from secrets too.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import stat
import time

from mcphub.errors import ConfigError

from . import atomicfile

#: Changes with the form of the content, so that no file of another form is read.
VERSION = 2
#: Bytes of one file, of all, and how many there are: the ones that were not read or written for longest go first.
MAX_FILE = 8 << 20
MAX_BYTES = 64 << 20
MAX_FILES = 2000
#: A file that is read is marked as used, but not more often than this, seconds.
MARK_EVERY = 86_400.0

_SUFFIX = ".catalogue"
_LINE = b"mcphub catalogue %d\n"
_DIGEST = 32


class CatalogueStore:
    """The files below `directory`, sealed with `key` (32 bytes). An owner is any text."""

    def __init__(self, directory: str, key: bytes) -> None:
        self._directory = directory
        self._key = key

    def load(self, owner: str) -> tuple[bytes | None, str]:
        """What was saved for this owner (None = nothing that can be used), and why its file cannot be used. Never
        raises."""
        path = self.path(owner)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None, ""
        except OSError as error:
            return None, f"cannot read {path}: {error.strerror or error}"
        try:
            with open(descriptor, "rb") as file:
                is_now = os.fstat(descriptor)
                if not stat.S_ISREG(is_now.st_mode):
                    return None, f"cannot use {path}: it is not a regular file"
                data = file.read(MAX_FILE + 1)
        except OSError as error:
            return None, f"cannot read {path}: {error.strerror or error}"
        line = _LINE % VERSION
        content = data[len(line) + _DIGEST :]
        if not data.startswith(line):
            return None, f"cannot use {path}: another mcphub wrote it, or none did"
        if not hmac.compare_digest(data[len(line) : len(line) + _DIGEST], self._seal(owner, content)):
            return None, f"cannot use {path}: it is damaged, or of another place"
        if time.time_ns() - is_now.st_mtime_ns > MARK_EVERY * 1e9:
            with contextlib.suppress(OSError):
                os.utime(path)
        return content, ""

    def save(self, owner: str, content: bytes) -> None:
        """Keep this in place of what was saved for this owner. Raises ConfigError when it is too long or cannot be
        written; what was saved before is gone then, as far as that is possible."""
        data = _LINE % VERSION + self._seal(owner, content) + content
        try:
            if len(data) > MAX_FILE:
                raise ConfigError(f"cannot write {self.path(owner)}: it would be larger than {MAX_FILE >> 20} MiB")
            atomicfile.update(
                self.path(owner),
                lambda _: data,
                private=True,
                within=self._directory,
                lock=os.path.join(self._directory, ".lock"),
                sync=False,
            )
        except ConfigError:
            self.drop(owner)
            raise

    def drop(self, owner: str) -> None:
        """Keep nothing for this owner."""
        with contextlib.suppress(OSError):
            os.unlink(self.path(owner))

    def prune(self) -> None:
        """Drop the oldest of too many, or too large, files."""
        found: list[tuple[float, int, str]] = []
        try:
            with os.scandir(self._directory) as entries:
                for entry in entries:
                    if entry.name.endswith(_SUFFIX) and not entry.name.startswith("."):
                        with contextlib.suppress(OSError):
                            is_now = entry.stat(follow_symlinks=False)
                            found.append((is_now.st_mtime, is_now.st_size, entry.path))
        except OSError:
            return
        found.sort()
        count, size = len(found), sum(one[1] for one in found)
        for _, length, path in found:
            if count <= MAX_FILES and size <= MAX_BYTES:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
            count -= 1
            size -= length

    def path(self, owner: str) -> str:
        """The file of this owner."""
        named = hashlib.blake2b(_bytes(owner), digest_size=16, key=self._key, person=b"catalogue name")
        return os.path.join(self._directory, named.hexdigest() + _SUFFIX)

    def mark(self, text: str) -> str:
        """Stands for a text that must not be in a file, for whoever has no key."""
        marked = hashlib.blake2b(_bytes(text), digest_size=16, key=self._key, person=b"catalogue mark")
        return marked.hexdigest()

    def _seal(self, owner: str, content: bytes) -> bytes:
        seal = hashlib.blake2b(digest_size=_DIGEST, key=self._key, person=b"catalogue")
        whole = _bytes(owner)
        seal.update(b"%d:%d:" % (VERSION, len(whole)))
        seal.update(whole)
        seal.update(content)
        return seal.digest()


def _bytes(owner: str) -> bytes:
    return owner.encode("utf-8", "surrogatepass")

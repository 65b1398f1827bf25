"""Owns the short ids of workspaces in URLs: which directory each one stands for, kept over restarts.

It must not know URLs or servers. An id is the beginning of a hash of the directory, so the same directory always gets
the same one; it is an abbreviation, not a secret.
"""

from __future__ import annotations

import hashlib
import json
import threading

from mcphub.errors import ConfigError
from mcphub.store import atomicfile

VERSION = 1
#: Hex digits of an id; more where two directories meet.
DIGITS = 12
#: Directories that are remembered; the oldest go first.
MOST = 10_000
#: Bytes of the file above which it is not read.
MAX_BYTES = 64 << 20


class _Damaged(ConfigError):
    """The file is not what mcphub wrote."""


class WorkspaceIds:
    """The ids of one user. `problem` says why the file cannot be used, "" = it can. Blocking, for any thread."""

    def __init__(self, path: str) -> None:
        self.problem = ""
        self._path = path
        self._lock = threading.Lock()
        self._directories: dict[str, str] = {}
        try:
            with open(path, "rb") as file:
                self._directories = _read(file.read(MAX_BYTES), path)
        except FileNotFoundError:
            pass
        except OSError as error:
            self.problem = f"cannot read {path}: {error.strerror}"
        except ConfigError as error:
            self.problem = str(error)

    def directory(self, workspace_id: str) -> str | None:
        """The directory that an id stands for; None for an id that was never given out."""
        return self._directories.get(workspace_id)

    def remember(self, directory: str) -> str:
        """The id of a directory, an absolute path. Raises ConfigError where it cannot be kept."""
        with self._lock:
            found: list[str] = []

            def change(old: bytes | None) -> bytes:
                try:
                    known = _read(old, self._path) if old is not None else {}
                except _Damaged:
                    known = dict(self._directories)  # what cannot be read cannot be kept, and ids can be made again
                found.append(_add(known, directory))
                self._directories = known
                text = json.dumps({"version": VERSION, "workspaces": known}, indent=1)
                return text.encode() + b"\n"

            try:
                digest = hashlib.sha256(directory.encode()).hexdigest()
            except UnicodeEncodeError:
                raise ConfigError(f"cannot make an id for {directory!r}: its name is not UTF-8") from None
            if self._directories.get(digest[:DIGITS]) == directory:
                return digest[:DIGITS]
            atomicfile.update(self._path, change)
            self.problem = ""
            return found[0]


def _add(known: dict[str, str], directory: str) -> str:
    digest = hashlib.sha256(directory.encode()).hexdigest()
    size = DIGITS
    while known.get(digest[:size], directory) != directory:
        size += 1
    known[digest[:size]] = directory
    while len(known) > MOST:
        del known[next(iter(known))]
    return digest[:size]


def _read(data: bytes, path: str) -> dict[str, str]:
    """The directories by id. Raises ConfigError, of a file that a newer mcphub wrote as well."""
    try:
        document = json.loads(data)
        version = document["version"]
        if version != VERSION:
            cure = "use the mcphub that wrote it, or move it away: agents' URLs of workspaces are then new ones"
            raise ConfigError(f"cannot use {path}: it is of version {version!r}, this mcphub knows {VERSION}; {cure}")
        found = document["workspaces"]
        if not all(isinstance(one, str) and one.startswith("/") for one in found.values()):
            raise ValueError("a workspace is an absolute path")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        cause = f"it is damaged (no {error})" if isinstance(error, KeyError) else f"it is damaged ({error})"
        raise _Damaged(f"cannot use {path}: {cause}; `mcphub connect --print-url` writes it anew") from None
    return dict(found)

"""Owns the servers that were added while the daemon runs: those that end with it, and the file of those that are kept.

It must not know what an entry means, nor which one wins. Blocking calls: an event loop makes them from a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import msgspec

from .state_file import StateFile

VERSION = 1


class Added(msgspec.Struct, frozen=True):
    """One server that was added: its entry as it came, for agents in `directory` (a real path), "" = for all."""

    name: str
    entry: Mapping[str, Any]
    directory: str = ""

    def __repr__(self) -> str:
        # An entry may hold what no log may show.
        return f"Added({self.name!r}, directory={self.directory!r})"


class Kept(msgspec.Struct, frozen=True):
    """The file's content."""

    servers: tuple[Added, ...] = ()


class DynamicServers:
    """The servers added to one daemon; `path` is the file of those that outlive it.

    A name stands once in either place for each directory; the one that ends with the daemon hides the one that is kept.
    """

    def __init__(self, path: str) -> None:
        self.added: tuple[Added, ...] = ()
        self._file = kept_file(path)
        self._lock = threading.Lock()

    def add(self, server: Added, *, keep: bool) -> None:
        """Add it, or replace what was added under its name. Raises ConfigError when the file cannot be changed."""
        with self._lock:
            others = _without(self.added, server.name, server.directory)
            if keep:
                self._file.change(lambda kept: Kept((*_without(kept.servers, server.name, server.directory), server)))
                self.added = others
            else:
                self.added = (*others, server)

    def remove(self, name: str, directory: str) -> bool:
        """Take it away from both places; False = it was in neither. Raises ConfigError as `add`."""
        with self._lock:
            found = any(_same(one, name, directory) for one in self.added)
            if any(_same(one, name, directory) for one in self._file.load()[0].servers):
                self._file.change(lambda kept: Kept(_without(kept.servers, name, directory)))
                found = True
            self.added = _without(self.added, name, directory)
            return found


def kept_file(path: str) -> StateFile[Kept]:
    """The file of those that outlive the daemon."""
    return StateFile(path, Kept, version=VERSION, lost="no server that was added with --keep is there")


def _without(servers: tuple[Added, ...], name: str, directory: str) -> tuple[Added, ...]:
    return tuple(one for one in servers if not _same(one, name, directory))


def _same(one: Added, name: str, directory: str) -> bool:
    return (one.name, one.directory) == (name, directory)

"""Owns the files of what the tools of each server looked like when a person first used, or last approved, them.

It must not know what a digest is made of, nor what follows from a difference. One file a server, so that a damaged one
says nothing about the others, and a new server does not rewrite what is known of fifty. The files lie in the person's
state directory, never in a project.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

import msgspec

from .state_file import StateFile

VERSION = 1


class Pin(msgspec.Struct, frozen=True):
    """One tool as it was. `definition` is its canonical JSON without its name, "" where it was too long to be kept."""

    digest: str
    definition: str = ""


class Pinned(msgspec.Struct, frozen=True):
    """What is known of one server: the directory whose agents may use it ("" = all), its name, its tools by name.

    `release` is the name and version that the server said it has, when it was last listed.
    """

    workspace: str = ""
    server: str = ""
    tools: Mapping[str, Pin] = msgspec.field(default_factory=dict)
    release: str = ""


class PinStore:
    """The files below `directory`. Blocking calls on small local files; every method reads afresh."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def load(self, workspace: str, server: str) -> tuple[Pinned | None, str]:
        """What is known of the server (None = nothing yet), and why its file cannot be used ("" = it can).

        A file that is there and cannot be used is never the same as none: nothing may be trusted anew because of it.
        """
        file = self._file(workspace, server)
        found, problems = file.load()
        if problems:
            return None, problems[0]
        if (found.workspace, found.server) == (workspace, server):
            return found, ""
        if not os.path.lexists(file.path):
            return None, ""
        return None, f"cannot use {file.path}: it is damaged (it is about another server); {_LOST}"

    def save(self, pinned: Pinned) -> None:
        """Keep this in place of what was known of the server. Raises ConfigError when the file cannot be written or a
        newer mcphub wrote it; a damaged one is set aside."""
        self._file(pinned.workspace, pinned.server).change(lambda _: pinned)

    def check(self, workspace: str, server: str) -> None:
        """Raise ConfigError where nothing about the server could be kept now."""
        self._file(workspace, server).check()

    def path(self, workspace: str, server: str) -> str:
        """The file of one server; its name says nothing, since a server may be called anything."""
        whole = f"{workspace}\0{server}".encode("utf-8", "surrogatepass")
        return os.path.join(self._directory, f"{hashlib.sha256(whole).hexdigest()[:32]}.json")

    def _file(self, workspace: str, server: str) -> StateFile[Pinned]:
        return StateFile(self.path(workspace, server), Pinned, version=VERSION, lost=_LOST)


_LOST = "no tool of this server counts as known"

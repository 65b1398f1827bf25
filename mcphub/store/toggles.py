"""Owns the file of servers that a person has switched off: everywhere, or for agents that work in one directory.

It must not know what a server is, nor what follows from being switched off. A server that nobody switched off is not in
the file, so an empty one is the ordinary case.
"""

from __future__ import annotations

import msgspec

from .state_file import StateFile

VERSION = 1


class Toggle(msgspec.Struct, frozen=True, order=True):
    """This name is off for agents in `directory` (a real path) and below it; "" = for all."""

    name: str
    directory: str = ""


class Toggles(msgspec.Struct, frozen=True):
    """Everything that is switched off."""

    off: tuple[Toggle, ...] = ()

    def switched_off(self, workspace: str) -> dict[str, str]:
        """The names that are off for agents of this workspace (a real path, "" = none), each with the directory that
        it is off for."""
        found: dict[str, str] = {}
        for toggle in sorted(self.off, reverse=True):  # "" comes last: off for all is the stronger reason
            if covers(toggle.directory, workspace):
                found[toggle.name] = toggle.directory
        return found


def covers(directory: str, workspace: str) -> bool:
    """What holds for `directory` holds for agents of `workspace`: it is the same one, or below it."""
    return directory in ("", workspace) or workspace.startswith(directory.rstrip("/") + "/")


#: What follows of a file that cannot be used: for one who read it before, for one who did not.
KEPT = "what was switched off while it could be read stays so, and a mcphub that starts with it starts no server"
LOST = "what you switched off is not known, so no server starts until it is mended; without the file all are on"


class ToggleStore:
    """The file at `path`. Every method reads it afresh, so that several programs may use it at once."""

    def __init__(self, path: str, *, known: bool = True) -> None:
        self.lost = KEPT if known else LOST
        self._file = StateFile(path, Toggles, version=VERSION, lost=self.lost, mend=False)

    def load(self) -> tuple[Toggles, tuple[str, ...]]:
        """What is off, and what is wrong with the file. One that cannot be used says of nothing that it is off; what
        that means is for who asks."""
        return self._file.load()

    def understand(self, data: bytes | None) -> tuple[Toggles, tuple[str, ...]]:
        """As `load`, of bytes that were read elsewhere (None = no file)."""
        return self._file.understand(data)

    def disable(self, name: str, directory: str = "") -> None:
        """Switch it off for agents of this directory, "" = for all. Raises ConfigError when the file cannot be
        changed, or read: what it said may still be in force, and must not end by this."""
        toggle = Toggle(name, directory)
        self._file.change(lambda old: Toggles(tuple(sorted({*old.off, toggle}))))

    def enable(self, name: str, workspace: str = "") -> tuple[str, ...]:
        """Switch it on again for agents of this workspace: take away every toggle that covers it. Returns the
        directories that it was off for. Raises ConfigError as `disable`."""
        taken: list[str] = []

        def change(old: Toggles) -> Toggles:
            gone = [one for one in old.off if one.name == name and covers(one.directory, workspace)]
            taken[:] = [one.directory for one in gone]
            return Toggles(tuple(one for one in old.off if one not in gone))

        self._file.change(change)
        return tuple(taken)

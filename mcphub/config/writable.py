"""Owns which file a person's own change of a server goes into, and making it there.

It must not know whether the change is a good one: names, policy and what an entry means are judged before. Blocking
calls on small local files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from mcphub.errors import ConfigError
from mcphub.spec import Scope
from mcphub.store import atomicfile

from . import edit, jsonc
from .document import SERVERS
from .places import Places
from .readfile import Reader
from .sources.local import VERSION, new_document, project_directory
from .sources.project import FILE, searched
from .sources.request import Request
from .worktree import main_directory

T = TypeVar("T")

#: The scopes whose files a person's command changes. What was added to a running daemon is another thing.
WRITABLE: Final = (Scope.LOCAL, Scope.PROJECT, Scope.USER)


class Place(msgspec.Struct, frozen=True):
    """One file that may hold servers. `directory` is what its relative paths start from; `start` is what the file says
    before the first server is in it, with comments or without. The rest is as `atomicfile.update` has it."""

    scope: Scope
    path: str
    directory: str
    mode: int = 0o600
    within: str = ""
    lock: str = ""
    start: Mapping[str, Any] | None = None

    def read(self) -> bytes | None:
        """What it says now, None = there is no file. Raises ConfigError."""
        return Reader().read(self.path)

    def has(self, name: str) -> bool:
        """Whether it holds an entry of this name. Raises ConfigError where that cannot be known."""
        return _told(self.path, lambda: edit.has_member(self.read(), (SERVERS, name)))

    def with_entry(self, data: bytes | None, name: str, entry: Mapping[str, Any]) -> bytes:
        """`data`, the file's content, with this entry. Raises ConfigError."""

        def put() -> bytes:
            self._refuse_newer(data)
            base = data
            for key, value in (self.start or {}).items() if data is None else ():
                base = edit.set_member(base, (key,), value)
            return edit.set_member(base, (SERVERS, name), dict(entry))

        return _told(self.path, put)

    def put(self, name: str, entry: Mapping[str, Any], *, replace: bool) -> None:
        """Write the entry. Raises ConfigError; so it does where the name is there and `replace` is not set."""

        def change(data: bytes | None) -> bytes:
            if not replace and _told(self.path, lambda: edit.has_member(data, (SERVERS, name))):
                raise ConfigError(
                    f"cannot add server {name}: it already exists in scope {self.scope} ({self.path}); "
                    f"to replace it, add --force"
                )
            return self.with_entry(data, name, entry)

        self._update(change)

    def remove(self, name: str) -> bool:
        """Take the entry away; False = it was not there. Raises ConfigError."""
        return self._take((SERVERS, name))

    def remove_member(self, name: str, key: str) -> bool:
        """Take one key of an entry away; False = it was not there. Raises ConfigError."""
        return self._take((SERVERS, name, key))

    def _take(self, path: tuple[str, ...]) -> bool:
        if self.read() is None:
            return False
        found = False

        def change(data: bytes | None) -> bytes:
            nonlocal found
            self._refuse_newer(data)
            found = data is not None and edit.has_member(data, path)
            return edit.remove_member(data or b"", path)

        self._update(lambda data: _told(self.path, lambda: change(data)))
        return found

    def _update(self, change: Callable[[bytes | None], bytes]) -> None:
        atomicfile.update(self.path, change, mode=self.mode, within=self.within, lock=self.lock)

    def _refuse_newer(self, data: bytes | None) -> None:
        if self.scope is Scope.LOCAL and data is not None:
            value = jsonc.parse(data).value
            version = value.get("version", VERSION) if isinstance(value, dict) else VERSION
            if not isinstance(version, int) or version > VERSION:
                raise ConfigError(f"it has version {version!r} and this mcphub knows up to {VERSION}")


def place_for(scope: Scope, workspace: str, places: Places) -> Place:
    """The file that a new server of this scope goes into. Raises ConfigError where there is none for `workspace`.

    A project's is the nearest `.mcp.json` that is there already, else one at the root of the repository, else in the
    workspace itself.
    """
    if scope is Scope.USER:
        return Place(scope, places.servers, places.config_dir)
    if scope is Scope.LOCAL:
        project = project_directory(Request(workspace, places, Reader()))
        if project:
            return _local(project, places)
    if scope is Scope.PROJECT:
        found = places_of(scope, workspace, places)
        if found:
            return next((one for one in found if os.path.lexists(one.path)), found[-1])
    raise ConfigError(f"cannot use scope {scope}: it needs a directory to work in, and there is none")


def places_of(scope: Scope, workspace: str, places: Places) -> list[Place]:
    """The files of this scope that agents of `workspace` have servers from, nearest first, there or not."""
    if scope is Scope.USER:
        return [place_for(scope, workspace, places)]
    reader = Reader()
    directories = searched(workspace, places.home, reader)
    if scope is Scope.PROJECT:
        return [_project(directory, places) for directory in directories]
    if directories and (main := main_directory(directories[-1], reader)):
        directories.append(main)
    return [_local(directory, places) for directory in directories]


def holders(name: str, workspace: str, places: Places, scopes: Iterable[Scope] = WRITABLE) -> list[Place]:
    """Every file a person may change that holds an entry of this name, the one that wins first. Raises ConfigError
    where one of them cannot be read."""
    return [place for scope in scopes for place in places_of(scope, workspace, places) if place.has(name)]


def _local(project: str, places: Places) -> Place:
    return Place(Scope.LOCAL, places.local(project), project, start=new_document(project))


def _project(directory: str, places: Places) -> Place:
    path = os.path.join(directory, FILE)
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    # Locked from elsewhere: a lock file in the repository would be one more thing to ignore there.
    lock = os.path.join(places.state_dir, "locks", digest)
    return Place(Scope.PROJECT, path, directory, mode=_shared_mode(), within=directory, lock=lock)


def _shared_mode() -> int:
    """The mode of a new file that others shall read: what every other program would give it."""
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _told(path: str, act: Callable[[], T]) -> T:
    """What `act` gives; what it says to be wrong is told with the file's place."""
    try:
        return act()
    except jsonc.JsoncError as error:
        place = f"{path}:{error.line}:{error.column}" if error.line else path
        raise ConfigError(f"cannot change {place}: {error.message}; mend it first") from error
    except ConfigError as error:
        if str(error).startswith("cannot "):
            raise
        raise ConfigError(f"cannot change {path}: {error}") from error

"""Owns which directories must be watched, so that whatever happens to a set of paths is told, and what of it matters.

It must not watch anything, nor know what the paths are for.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Mapping

import msgspec

from .readfile import Stamp

#: As many links may follow each other as the kernel follows.
_MAX_LINKS = 40
#: Kinds of file system that are somebody else's too.
_SHARED = frozenset(
    ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "vboxsf", "afs", "ceph", "lustre", "ocfs2", "gfs2", "fuse"]
)


class Watched(msgspec.Struct, frozen=True):
    """`directories` are real ones that exist, each with device and inode: under the same name there may be another
    later. What happens to one of `names`, which lie in them, matters; in those of `whole` everything does. `shared`:
    some are on a file system that other machines write to, of which the kernel does not tell."""

    directories: Mapping[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    names: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    shared: bool = False

    def concerns(self, path: str) -> bool:
        """Whether what happened at this path can have changed what is read. A directory's end does."""
        return path in self.names or path in self.directories or os.path.dirname(path) in self.whole


def watched(stamps: Iterable[Stamp]) -> Watched:
    """For each path the directory it stands in, and that of each symbolic link on the way there; where the way ends
    early, the last directory there is, since the next step may appear in it."""
    walk = _Walk()
    for path, presence in {stamp.path: stamp.presence for stamp in stamps}.items():
        if os.path.isabs(path) and "\0" not in path:
            walk.to(path, presence)
    shared = any_shared({device for device, _ in walk.directories.values()})
    return Watched(walk.directories, frozenset(walk.names), frozenset(walk.whole), shared)


def any_shared(devices: Collection[int], table: str = "/proc/self/mountinfo") -> bool:
    """Whether one of these devices may be written to by another machine, as far as the system's table of mounts tells
    (proc_pid_mountinfo(5))."""
    wanted = {f"{os.major(device)}:{os.minor(device)}" for device in devices}
    try:
        with open(table, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                kind = after.partition(" ")[0]
                if (kind in _SHARED or kind.startswith("fuse.")) and before.split(" ")[2] in wanted:
                    return True
    except (OSError, IndexError):
        pass  # no Linux
    return False


class _Walk:
    def __init__(self) -> None:
        self.directories: dict[str, tuple[int, int]] = {}
        self.names: set[str] = set()
        self.whole: set[str] = set()
        self._status: dict[str, os.stat_result | None] = {}

    def to(self, path: str, presence: bool) -> None:
        """`presence`: only whether something stands there matters, not what is in it."""
        here = "/"
        steps = path.split("/")[::-1]
        links = 0
        while steps:
            step = steps.pop()
            if step in ("", "."):
                continue
            if step == "..":
                here = os.path.dirname(here)
                continue
            child = os.path.join(here, step)
            status = self._look(child)
            if status is None:
                return self._watch(here, child)
            if stat.S_ISLNK(status.st_mode):
                self._watch(here, child)
                links += 1
                target = _target(child)
                if links > _MAX_LINKS or not target or (presence and not steps):
                    return None
                here = "/" if target.startswith("/") else here
                steps += target.split("/")[::-1]
            elif not steps:
                self._watch(here, child)
                if stat.S_ISDIR(status.st_mode) and not presence:
                    self.whole.add(child)
                    self.directories[child] = (status.st_dev, status.st_ino)
            elif stat.S_ISDIR(status.st_mode):
                here = child
            else:
                return self._watch(here, child)
        return None

    def _watch(self, directory: str, child: str) -> None:
        self.names.add(child)
        status = self._look(directory)
        if status is not None:
            self.directories[directory] = (status.st_dev, status.st_ino)

    def _look(self, path: str) -> os.stat_result | None:
        if path not in self._status:
            try:
                self._status[path] = os.lstat(path)
            except (OSError, ValueError):
                self._status[path] = None
        return self._status[path]


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""

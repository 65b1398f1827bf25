"""Owns the files of the service on this machine: what they are now, what they should be, writing and removing them.

It must not ask a service manager anything. A file that a person has changed is theirs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Literal

import msgspec

from mcphub.errors import ConfigError
from mcphub.store import atomicfile

from . import files, places

#: Variables of whoever installs that the daemon must have too: they say where its files are. A service manager knows
#: nothing of what a shell's profile sets.
PLACES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
#: What a program has in its path that was fetched for one run (uvx, pipx run), and is gone some day.
_FOR_ONE_RUN = ("/archive-v0/", "/environments-v2/", "/.cache/pipx/", "/pipx/.cache/")

State = Literal["missing", "current", "outdated", "changed"]


class File(msgspec.Struct, frozen=True):
    """One file. `outdated`: mcphub wrote it, for another program or in another version; `changed`: a person did."""

    path: str
    text: str
    state: State
    there: str = ""


def argv() -> list[str]:
    """What the service runs: this very program."""
    return [sys.executable, "-P", "-m", "mcphub", "serve"]


def short_lived() -> str:
    """What to say where this program will not be here for long, "" = nothing."""
    if not any(part in sys.executable for part in _FOR_ONE_RUN):
        return ""
    return f"{sys.executable} was fetched for one run, and goes some day; `uv tool install` or pipx keeps it"


def look(env: Mapping[str, str], log: str) -> list[File]:
    """The files as they are and should be. `log` is where launchd's daemon logs. Raises ConfigError where one cannot
    be read."""
    names = (*PLACES, "XDG_RUNTIME_DIR") if sys.platform == "darwin" else PLACES
    kept = {name: env[name] for name in names if env.get(name, "").startswith("/")}
    return [_look(os.path.join(places.directory(), name), _wanted(name, kept, log)) for name in places.names()]


def difference(wanted: list[File]) -> str:
    """What overwriting the files that a person has changed would do to them, as a unified diff."""
    changed = [file for file in wanted if file.state == "changed"]
    return "".join(files.difference(file.path, file.there, file.text) for file in changed)


def write(wanted: list[File], lock: str, *, force: bool = False) -> list[str]:
    """Write what is not current; returns the paths. `lock` is a file that keeps two from writing at once. Raises
    ConfigError, before anything is written, where a person has changed one of them; `force` overwrites that."""
    theirs = [file.path for file in wanted if file.state == "changed"]
    if theirs and not force:
        raise ConfigError(
            f"cannot install the service: {' and '.join(theirs)} was changed since mcphub wrote it, or is not its own. "
            "Move it away, put what you need into a drop-in (systemctl --user edit), or overwrite it with --force"
        )
    todo = [file for file in wanted if file.state != "current"]
    for file in todo:
        atomicfile.update(file.path, lambda _, text=file.text: _bytes(text), mode=0o644, lock=lock)  # type: ignore[misc]
    return [file.path for file in todo]


def remove(wanted: list[File], *, force: bool = False) -> list[str]:
    """Remove the files; returns the paths. Raises ConfigError, before anything is removed, where one is a person's."""
    theirs = [file.path for file in wanted if file.state == "changed"]
    if theirs and not force:
        raise ConfigError(
            f"cannot uninstall the service: {' and '.join(theirs)} was changed since mcphub wrote it. Move it away, or "
            "remove it with --force"
        )
    gone = []
    for file in wanted:
        try:
            os.unlink(file.path)
            gone.append(file.path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise ConfigError(f"cannot remove {file.path}: {error.strerror or error}") from error
    return gone


def _wanted(name: str, env: Mapping[str, str], log: str) -> str:
    text = places.shipped(name)
    return files.plist(text, argv(), env, log) if name.endswith(".plist") else files.unit(text, argv(), env)



def _look(path: str, text: str) -> File:
    try:
        with open(path, "rb") as file:
            there = file.read().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return File(path, text, "missing")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    state: State = "current" if there == text else "changed" if files.edited(there) else "outdated"
    return File(path, text, state, there)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")

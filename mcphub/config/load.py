"""Owns reading everything that decides which servers one workspace has, in one pass over the files.

It must not watch files, approve anything or start a server. Blocking calls on small local files: an event loop calls
it from a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mcphub.errors import ConfigError
from mcphub.spec import SHORTEST_SECRET, HttpSpec, StdioSpec

from .entries.context import Context, EnvFile
from .environment import hub_environment, parse_environment
from .layer import keep_last_good
from .places import Places
from .readfile import Reader, Stamp, changed
from .resolve import ResolvedSet, resolve, wanted_env_files
from .settings import HubSettings, parse_settings
from .sources import SOURCES
from .sources.request import Request
from .urls import secrets_of


@dataclass(frozen=True, slots=True)
class Loaded:
    """The state of the files at one moment.

    `environment` is what references were expanded from and what `child_environment` takes; it holds secrets. `notes`
    are one-line problems of the settings and the environment file.
    """

    resolved: ResolvedSet
    settings: HubSettings
    environment: Mapping[str, str] = field(repr=False)
    notes: tuple[str, ...]
    stamps: tuple[Stamp, ...] = field(repr=False)

    def signature(self) -> tuple[Stamp, ...]:
        """What every file looked at (also those that are not there) was like: path, device, inode, mode, size,
        times."""
        return self.stamps

    def stale(self) -> bool:
        """Whether loading again may give another result; one stat for each file looked at."""
        return changed(self.stamps)

    def problems(self) -> tuple[str, ...]:
        """What cannot be used as it is written, as `StatusReport.problems` wants it."""
        return (*(problem.message for problem in self.resolved.problems), *self.notes)

    def warnings(self) -> tuple[str, ...]:
        """What is used, but probably not as its writer meant it, as `StatusReport.warnings` wants it."""
        return self.resolved.warnings

    def secrets(self) -> frozenset[str]:
        """Values that must not be seen in a log: those of entries' `env` and `headers`, user and query of a URL,
        and arguments that held a variable."""
        found: set[str] = set()
        for one in self.resolved.servers.values():
            transport = one.spec.transport if one.spec is not None else None
            if isinstance(transport, StdioSpec):
                found |= {str(value) for value in transport.env.values()}
                pairs = zip(transport.args, transport.shown[1:], strict=False)
                found |= {str(arg) for arg, shown in pairs if arg != shown}
            elif isinstance(transport, HttpSpec):
                found |= secrets_of(transport)
        return frozenset(value for value in found if len(value) >= SHORTEST_SECRET)


def load(workspace: str, env: Mapping[str, str], places: Places, *, previous: Loaded | None = None) -> Loaded:
    """Everything for one workspace (an absolute directory, "" = none). `env` is the daemon's own environment.

    `previous` is the last result for the same workspace: a file of servers that cannot be read now keeps what it said
    then, with a warning. Never raises for what is in the files.
    """
    reader = Reader()
    notes: list[str] = []
    file_env, found = parse_environment(_read(reader, places.environment, notes), places.environment)
    notes += found
    environment = hub_environment(env, file_env)
    settings, found = parse_settings(_read(reader, places.settings, notes), places.settings, environment)
    notes += found

    request = Request(workspace, places, reader)
    layers = tuple(layer for source in SOURCES for layer in source.load(request))
    if previous is not None:
        layers = keep_last_good(layers, previous.resolved.layers)
    context = Context(
        environment,
        places.environment,
        startup_timeout=settings.connect.timeout,
        call_timeout=settings.call.timeout,
    )
    env_files = {path: _env_file(reader, path) for path in wanted_env_files(layers, context)}
    resolved = resolve(layers, replace(context, env_files=env_files), workspace=workspace)
    return Loaded(resolved, settings, environment, tuple(notes), reader.stamps)


def _read(reader: Reader, path: str, notes: list[str]) -> bytes:
    try:
        return reader.read(path) or b""
    except ConfigError as error:
        notes.append(str(error))
        return b""


def _env_file(reader: Reader, path: str) -> EnvFile:
    try:
        data = reader.read(path)
    except ConfigError as error:
        return EnvFile(error=str(error))
    if data is None:
        return EnvFile(error=f"cannot read {path}: No such file")
    values, problems = parse_environment(data, path)
    return EnvFile(values, problems)

"""Owns reading everything that decides which servers one workspace has, in one pass over the files.

It must not watch files, approve anything or start a server. Blocking calls on small local files: an event loop calls
it from a thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from msgspec.structs import replace as replace_fields

from mcphub.errors import ConfigError
from mcphub.spec import DIVIDED, SHORTEST_SECRET, IdpSpec, Origin, Scope
from mcphub.store.dynamic import Added
from mcphub.store.login_path import login_path_file
from mcphub.store.toggles import Toggles, ToggleStore
from mcphub.store.vault_state import VaultUnavailable

from .entries.context import Context, EnvFile
from .environment import hub_environment, listed, parse_environment
from .identity_provider import KEY as IDP_KEY
from .identity_provider import read_idp, written_in
from .layer import OWNED, Layer, keep_last_good
from .own_policy import read_own_policy, unreadable
from .places import Places
from .policy_document import PolicyDocument
from .readfile import GONE, Content, Reader, Stamp, changed
from .remote_settings import RemoteSettings
from .resolve import ResolvedSet, resolve, wanted_env_files
from .search_path import merged
from .secret_values import secret_values
from .settings import HubSettings, parse_settings
from .settle import SETTLE, settled
from .sources import SOURCES
from .sources.request import Request
from .toml import TomlError, parse_toml


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
    toggles: Toggles = field(default_factory=Toggles)
    #: Why nobody knows what a person switched off, "" = it is `toggles`.
    toggles_lost: str = ""
    #: Since when administrators' files are in force as they were before, by time.monotonic(); None = as they are.
    unsettled: float | None = None
    #: Where administrators want further settings to be fetched from: what their highest document says now, whole.
    remote: RemoteSettings | None = None
    #: What each file that was read said last, and since when one is gone that still counts as it was.
    contents: Mapping[str, Content] = field(default_factory=dict, repr=False)
    gone: float | None = None
    #: The servers are those of no workspace, the very same ones; `stamps` are then of what was looked at beside those.
    shared: bool = False
    #: Whether the person's own rules are known: their file could be read, now or before, or there was none.
    rules_known: bool = True
    #: The organisation's identity provider (`xaaIdp`).
    identity_provider: IdpSpec | None = field(default=None, repr=False)

    def signature(self) -> tuple[Stamp, ...]:
        """What every file looked at (also those that are not there) was like: path, device, inode, mode, size,
        times."""
        return self.stamps

    def stale(self) -> bool:
        """Whether loading again may give another result; one stat for each file looked at."""
        return self._due_passed() or changed(self.stamps)

    @property
    def due(self) -> float | None:
        """When loading again may give another result though no file is touched, by time.monotonic(); None = never."""
        times = []
        if self.unsettled is not None:
            times.append(self.unsettled + SETTLE)
        if self.gone is not None:
            times.append(self.gone + GONE)
        return min(times, default=None)

    def _due_passed(self) -> bool:
        due = self.due
        return due is not None and time.monotonic() >= due

    def problems(self) -> tuple[str, ...]:
        """What cannot be used as it is written, as `StatusReport.problems` wants it."""
        return (*(problem.message for problem in self.resolved.problems), *self.notes)

    def warnings(self) -> tuple[str, ...]:
        """What is used, but probably not as its writer meant it, as `StatusReport.warnings` wants it."""
        return self.resolved.warnings

    def secrets(self) -> frozenset[str]:
        """Values that must not be seen in a log: see `secret_values`."""
        found: set[str] = set()
        for one in self.resolved.servers.values():
            if one.spec is not None:
                known = one.entry.variables if one.entry is not None else {}
                found.update(secret_values(one.spec.transport, known))
        provider = self.identity_provider
        if provider is not None and len(provider.client_secret) >= SHORTEST_SECRET:
            found.add(str(provider.client_secret))
        return frozenset(found)


class _Settings(NamedTuple):
    """The settings, the hub's environment, what the settings' file says, and why it could not be read."""

    settings: HubSettings
    environment: Mapping[str, str]
    written: bytes
    fault: str


def load_settings(env: Mapping[str, str], places: Places) -> HubSettings:
    """The settings alone, as `load` finds them: what a daemon must know before it can read the rest."""
    return _settings(Reader(None), env, places, None, []).settings


def _settings(
    reader: Reader, env: Mapping[str, str], places: Places, last: HubSettings | None, notes: list[str]
) -> _Settings:
    """What is wrong with its files goes to `notes`."""
    file_env, found = parse_environment(_read(reader, places.environment, notes), places.environment)
    notes += found
    environment = hub_environment(_with_login_path(reader, env, places.login_path, notes), file_env)
    known = len(notes)
    written = _read(reader, places.settings, notes)
    fault = "".join(notes[known:])
    settings, found = parse_settings(written, places.settings, environment, last)
    # What was wrong with what the file said before is no help to who has to mend it now.
    notes += [one for one in found if not fault or places.settings not in one]
    return _Settings(settings, environment, written, fault)


def load(
    workspace: str,
    env: Mapping[str, str],
    places: Places,
    *,
    previous: Loaded | None = None,
    dynamic: tuple[Added, ...] = (),
    client: Mapping[str, str] | None = None,
    agent: str = "",
    secret: Callable[[str], str | None] | None = None,
) -> Loaded:
    """Everything for one workspace (an absolute directory, "" = none). `env` is the daemon's own environment, `dynamic`
    what was added to it until it ends. `client` are variables of an agent's: those that the settings list in
    `clientEnv` are what references find first. `agent` is the one that it is for, "" = all: see `ServerSpec.agent`.
    `secret` finds what `${secret:NAME}` stands for in the vault, and may raise VaultUnavailable; None = none is known.

    `previous` is the last result for the same workspace, or for none: a file of servers that cannot be read now keeps
    what it said then, with a warning; what administrators wrote does so for a moment (settle.py), and so does a file
    that vanished (readfile.py). Never raises for what is in the files.
    """
    reader = Reader(previous.contents if previous is not None else None)
    notes: list[str] = []
    last = previous.settings if previous is not None else None
    settings, environment, written, fault = _settings(reader, env, places, last, notes)
    request = Request(workspace, places, reader, settings, dynamic)
    layers = tuple(layer for source in SOURCES for layer in source.load(request))
    remote = next((layer.remote for layer in layers if layer.remote is not None), None)
    unsettled: float | None = None
    if previous is not None:
        layers, unsettled = settled(layers, previous.resolved.layers, previous.unsettled, time.monotonic())
        layers = keep_last_good(layers, previous.resolved.layers)
    before = _rules_before(previous, places.settings)
    known_before = previous is not None and previous.rules_known
    held = True if before is not None else False if known_before else None
    own = read_own_policy(written, places.settings, held=held)
    if fault and (not written or (own is not None and own.fault)):
        own = unreadable(places.settings, fault)
    rules_known = known_before or (not fault and _readable(own, written, places.settings))
    if known_before and own is not None and own.fault:
        own = _last_good_rules(own, before, places.settings, notes)
    if own is not None:
        layers += (Layer(Scope.USER, places.settings, policy=own),)
    toggles, toggles_lost = _toggles(reader, places.toggles, notes, previous)
    secrets = _Secrets(secret, reader, places.vault) if secret is not None else None
    context = Context(
        {**environment, **listed(client, settings.client_env)} if client else environment,
        places.environment,
        startup_timeout=settings.connect.timeout,
        call_timeout=settings.call.timeout,
        switched_off=toggles.switched_off(os.path.realpath(workspace) if workspace else ""),
        switches_lost=toggles_lost,
        workspace=workspace,
        agent=agent,
        secrets=secrets,
        no_secrets=secrets.problem if secrets is not None else None,
    )
    env_files = {path: _env_file(reader, path) for path in wanted_env_files(layers, context)}
    resolved = resolve(layers, replace(context, env_files=env_files), workspace=workspace)
    provider = _identity_provider(layers, settings, places.settings, context, notes)
    return Loaded(
        resolved, settings, environment, tuple(notes), reader.stamps, toggles, toggles_lost, unsettled, remote,
        reader.contents, reader.gone, rules_known=rules_known, identity_provider=provider,
    )


def _identity_provider(
    layers: tuple[Layer, ...], settings: HubSettings, path: str, context: Context, notes: list[str]
) -> IdpSpec | None:
    """The organisation's; what its highest document says wins over a person's own, also where it cannot be used."""
    own = written_in(settings.xaa_idp, Origin(Scope.USER, path, IDP_KEY))
    written = next((layer.idp for layer in layers if layer.idp is not None), own)
    if written is None:
        return None
    provider, problem = read_idp(written, context.env, context.secrets)
    notes += [problem] if problem else []
    return provider


class _Secrets:
    """Finds secrets in the vault. The file is noted where one is looked for: what was loaded is then stale when the
    vault changes, and whoever refers to no secret pays nothing."""

    def __init__(self, secret: Callable[[str], str | None], reader: Reader, path: str) -> None:
        self._secret = secret
        self._reader = reader
        self._path = path
        self._problem = ""

    def __call__(self, name: str) -> str | None:
        self._reader.note(self._path)
        try:
            return self._secret(name)
        except VaultUnavailable as error:
            self._problem = str(error)
            return None

    def problem(self) -> str:
        return self._problem


def load_beside(
    everybody: Loaded, workspace: str, places: Places, *, dynamic: tuple[Added, ...] = ()
) -> Loaded | None:
    """Everything for a workspace that brings nothing of its own, taken from what was loaded for none and is not stale;
    None where it does bring something. Costs a few stat calls, and reads nothing where nothing is."""
    reader = Reader(everybody.contents)
    request = Request(workspace, places, reader, everybody.settings, dynamic)
    own = tuple(layer for source in SOURCES if source.scope in OWNED for layer in source.load(request))
    theirs = everybody.resolved.layers
    if own != tuple(layer for layer in theirs if layer.scope in OWNED):
        return None
    if divides(everybody.resolved):
        return None
    toggles = everybody.toggles
    if toggles.switched_off(os.path.realpath(workspace)) != toggles.switched_off(""):
        return None
    return replace(
        everybody,
        resolved=replace(everybody.resolved, workspace=workspace),
        stamps=reader.stamps,
        shared=True,
    )


def divides(resolved: ResolvedSet, by: Collection[str] = DIVIDED) -> bool:
    """Whether any server has further instances for further workspaces or agents, or for those of `by` alone."""
    return any(one.spec is not None and one.spec.sharing in by for one in resolved.servers.values())


def _read(reader: Reader, path: str, notes: list[str]) -> bytes:
    """What the file says; while it cannot be read, what it said last."""
    try:
        return reader.read(path) or b""
    except ConfigError as error:
        last = reader.last(path)
        notes.append(f"{error}; what it said last stays in force" if last else str(error))
        return last


def _with_login_path(reader: Reader, env: Mapping[str, str], path: str, notes: list[str]) -> Mapping[str, str]:
    """The daemon's own environment, with the directories that programs are found in when a person looks for them."""
    data = _read(reader, path, notes)
    if not data:
        return env
    known, problems = login_path_file(path).understand(data)
    notes += problems
    return {**env, "PATH": merged(env.get("PATH", ""), known.path)} if known.path else env


def _rules_before(previous: Loaded | None, path: str) -> PolicyDocument | None:
    """The person's own rules as they were in force before, closed ones too."""
    layers = previous.resolved.layers if previous is not None else ()
    return next((one.policy for one in layers if one.path == path and one.policy is not None), None)


def _readable(own: PolicyDocument | None, data: bytes, path: str) -> bool:
    if own is not None:
        return not own.fault
    try:
        parse_toml(data, path)
    except TomlError:
        return False
    return True


def _last_good_rules(
    now: PolicyDocument, before: PolicyDocument | None, path: str, notes: list[str]
) -> PolicyDocument | None:
    """A person's own rules while their file cannot be used: what they were before. What was closed stays closed."""
    if before is None:
        return None  # there were none
    if before.fault:
        return now
    notes.append(f"{path}: cannot be used now, so your own rules of policy stay as they were")
    return replace_fields(before, former=now.fault)


def _toggles(reader: Reader, path: str, notes: list[str], previous: Loaded | None) -> tuple[Toggles, str]:
    """What is switched off, and why that is not known; while the file cannot be used, what was so before: nothing
    starts by its damage."""
    known = previous is not None and not previous.toggles_lost
    store = ToggleStore(path, known=known)
    try:
        toggles, problems = store.understand(reader.read(path))
    except ConfigError as error:
        toggles, problems = Toggles(), (f"{error}; {store.lost}",)
    notes += problems
    if not problems:
        return toggles, ""
    if previous is not None and known:
        return previous.toggles, ""
    return Toggles(), problems[0].removesuffix(f"; {store.lost}")


def _env_file(reader: Reader, path: str) -> EnvFile:
    stale: tuple[str, ...] = ()
    try:
        data = reader.read(path)
    except ConfigError as error:
        data = reader.last(path)
        if not data:
            return EnvFile(error=str(error))
        stale = (f"{error}; what it said last stays in force",)
    if data is None:
        return EnvFile(error=f"cannot read {path}: No such file")
    values, problems = parse_environment(data, path)
    return EnvFile(values, (*stale, *problems))

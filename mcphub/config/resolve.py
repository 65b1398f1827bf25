"""Owns which entry of a name is in force: the whole one of the first layer that has the name, never a mixture.

It must not read files, nor know whether a server may run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from mcphub.spec import Off, Origin, Problem, Scope, ServerSpec

from .entries.context import Context
from .entries.entry import parse_entry
from .entries.stdio import env_file_path
from .layer import NOT_SEEN, Entry, Layer, owner


class Resolved(msgspec.Struct, frozen=True):
    """One name and what became of its winner; `outcome` None = not configured yet, so there is nothing to show or run.

    `entry` is None where the winner is no readable entry; `outcome` is then its problem. `shadows` are the places of
    the losers, nearest first. `directory` is that of the winner's file.
    """

    name: str
    origin: Origin
    outcome: ServerSpec | Off | Problem | None
    entry: Entry | None = None
    directory: str = ""
    shadows: tuple[Origin, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def spec(self) -> ServerSpec | None:
        """The spec, also of an entry that is switched off."""
        return self.outcome.spec if isinstance(self.outcome, Off) else _spec(self.outcome)

    def refers_to_secret(self, name: str) -> bool:
        """Whether the winner's entry has `${secret:NAME}` anywhere."""
        return self.entry is not None and _holds(self.entry.raw, f"${{secret:{name}}}")

    @property
    def workspace(self) -> str:
        """The directory whose agents may use it, "" = every agent of the user."""
        return owner(self.origin.scope, self.directory)


@dataclass(frozen=True, slots=True)
class ResolvedSet:
    """What agents of one workspace ("" = none) would get. `servers` are sorted by name.

    `problems` are about files as a whole; problems of an entry are its outcome. `warnings` hold those of files and of
    the winning entries.
    """

    workspace: str
    servers: Mapping[str, Resolved]
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = field(default=(), repr=False)

    @property
    def specs(self) -> Mapping[str, ServerSpec]:
        """The servers that are ready to run, by name."""
        return {name: one.outcome for name, one in self.servers.items() if isinstance(one.outcome, ServerSpec)}


def resolve(layers: Iterable[Layer], context: Context, *, workspace: str = "") -> ResolvedSet:
    """The set that `layers`, highest precedence first, make together.

    The embedded layer counts only while no other has an entry or a problem: a file that cannot be read is not the same
    as no file, and must not look like a fresh start.
    """
    counted = in_force(layers)
    claims: dict[str, list[tuple[Layer, Entry | Problem]]] = {}
    problems: list[Problem] = []
    warnings: list[str] = []
    for layer in counted:
        warnings += layer.warnings
        for entry in layer.entries:
            claims.setdefault(entry.name, []).append((layer, entry))
        for problem in layer.problems:
            if problem.name == "":
                problems.append(problem)
            else:
                claims.setdefault(problem.name, []).append((layer, problem))

    servers: dict[str, Resolved] = {}
    alone = exclusive(counted)
    for name in sorted(claims):
        (layer, winner), *losers = claims[name]
        shadows = tuple(loser.origin for _, loser in losers)
        if alone is not None and layer.scope is not Scope.ENTERPRISE:
            servers[name] = _ignored(name, layer, winner, shadows, context, alone)
            continue
        if isinstance(winner, Problem):
            servers[name] = Resolved(name, winner.origin, winner, None, layer.directory, shadows)
            continue
        parsed = parse_entry(winner, layer.directory, context)
        warnings += parsed.warnings
        servers[name] = Resolved(
            name, winner.origin, parsed.outcome, winner, layer.directory, shadows, parsed.warnings
        )
    return ResolvedSet(workspace, servers, tuple(problems), tuple(warnings), counted)


def in_force(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """`layers` without the embedded one where any other says something."""
    all_layers = tuple(layers)
    said = exclusive(all_layers) is not None
    said = said or any(layer.entries or layer.problems for layer in all_layers if layer.scope is not Scope.EMBEDDED)
    return tuple(layer for layer in all_layers if not (said and layer.scope is Scope.EMBEDDED))


def exclusive(layers: Iterable[Layer]) -> Layer | None:
    """The enterprise's layer where there is one: no entry of another layer counts beside it, be it empty or broken
    (case C124)."""
    return next((layer for layer in layers if layer.scope is Scope.ENTERPRISE), None)


def control(alone: Layer) -> str:
    """Why an entry of another file does not count beside an enterprise's, for a person."""
    if any(problem.message.startswith(f"{NOT_SEEN} ") for problem in alone.problems):
        return f"{alone.path} cannot be looked for, and where it is there it has exclusive control over MCP servers"
    cannot = ", and cannot be used" if alone.faulty else ""
    return f"{alone.path} has exclusive control over MCP servers{cannot}"


def _ignored(
    name: str, layer: Layer, winner: Entry | Problem, shadows: tuple[Origin, ...], context: Context, alone: Layer
) -> Resolved:
    """What an entry is beside an enterprise's file: shown, and off. Nothing in it is expanded."""
    if isinstance(winner, Problem):
        return Resolved(name, winner.origin, winner, None, layer.directory, shadows)
    parsed = parse_entry(winner, layer.directory, replace(context, switched_off={name: ""}))
    outcome = parsed.outcome
    if isinstance(outcome, Off):
        outcome = Off(outcome.spec, "enterprise", f"ignored: {control(alone)}")
    return Resolved(name, winner.origin, outcome, winner, layer.directory, shadows)


def wanted_env_files(layers: Iterable[Layer], context: Context) -> tuple[str, ...]:
    """The absolute paths that the winning entries name as `envFile`, for the caller to read into
    `Context.env_files`."""
    seen: set[str] = set()
    paths: dict[str, None] = {}
    all_layers = tuple(layers)
    alone = exclusive(all_layers)
    for layer in all_layers if alone is None else (alone,):
        for entry in layer.entries:
            if entry.name not in seen and (path := env_file_path(entry, layer.directory, context)) is not None:
                paths[path] = None
        seen |= {entry.name for entry in layer.entries} | {problem.name for problem in layer.problems}
    return tuple(paths)


def _spec(outcome: ServerSpec | Problem | None) -> ServerSpec | None:
    return outcome if isinstance(outcome, ServerSpec) else None


def _holds(value: object, text: str) -> bool:
    if isinstance(value, Mapping):
        return any(_holds(one, text) for one in value.values())
    if isinstance(value, list):
        return any(_holds(one, text) for one in value)
    return isinstance(value, str) and text in value

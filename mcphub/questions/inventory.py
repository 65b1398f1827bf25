"""Owns the inventory: every layer and every entry of a machine as one document without secrets, written and read.

It must not decide anything, nor read a file. The form has a version, since a fleet's machines are not all of one age.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from mcphub.config.layer import Entry, Layer
from mcphub.config.resolve import Resolved, ResolvedSet, exclusive
from mcphub.desired import Judged
from mcphub.errors import ConfigError
from mcphub.policy.approval_text import MASK, shown_entry
from mcphub.policy.candidate import Candidate, candidate_of
from mcphub.spec import Broken, HttpSpec, Off, Origin, Scope, Secret, StdioSpec
from mcphub.status import InventoryEntry, InventoryLayer, InventoryReport, ServerStatus

from .explain import standing

FORMAT = "mcphub-inventory"
VERSION = 1
#: How a reference to a variable begins.
_REFERENCE = "${"


def inventory(
    resolved: ResolvedSet,
    judgements: Mapping[str, Judged],
    twins: Mapping[str, Resolved],
    *,
    problems: Iterable[str] = (),
    warnings: Iterable[str] = (),
    live: bool,
    rows: Mapping[str, ServerStatus] | None = None,
) -> InventoryReport:
    """Everything that agents of the workspace have or might have had. `judgements` are by name, of the winners, and so
    are `rows`, which a daemon has: files alone cannot know what became of a server that they let run."""
    return InventoryReport(
        format=FORMAT,
        version=VERSION,
        workspace=resolved.workspace,
        layers=[
            _layer(rank, layer, resolved, judgements, twins, rows or {})
            for rank, layer in enumerate(resolved.layers, 1)
        ],
        problems=list(problems),
        warnings=list(warnings),
        live=live,
    )


def _layer(
    rank: int,
    layer: Layer,
    resolved: ResolvedSet,
    judgements: Mapping[str, Judged],
    twins: Mapping[str, Resolved],
    rows: Mapping[str, ServerStatus],
) -> InventoryLayer:
    alone = exclusive(resolved.layers)
    entries = []
    for entry in layer.entries:
        winner = resolved.servers.get(entry.name)
        how = standing(layer, entry.origin, winner, alone)
        wins = winner is not None and (winner.origin, winner.directory) == (entry.origin, layer.directory)
        shown = _entry(entry, how, winner if wins else None, judgements, twins)
        if shown["state"] == "would run" and (row := rows.get(entry.name)) is not None:
            shown["live_state"] = row["state_text"]
            error = row["last_error"]
            shown["detail"] = row["reason"] or (error["message"] if error is not None and not _up(row) else "")
        entries.append(shown)
    return InventoryLayer(
        rank=rank,
        scope=str(layer.scope),
        path=layer.path,
        directory=layer.directory,
        policy=layer.policy is not None,
        entries=entries,
        problems=[problem.message for problem in layer.problems],
        warnings=list(layer.warnings),
    )


def _entry(
    entry: Entry,
    standing: str,
    one: Resolved | None,
    judgements: Mapping[str, Judged],
    twins: Mapping[str, Resolved],
) -> InventoryEntry:
    """`one` is what became of the entry, None where another one wins its name."""
    origin = entry.origin
    shown: dict[str, Any] = json.loads(shown_entry(entry.raw))
    row = InventoryEntry(
        name=entry.name,
        key=origin.key,
        line=origin.line,
        standing=standing,
        state="",
        detail="",
        kind="",
        command=[],
        url="",
        variables=False,
        masked=False,
        entry=shown,
    )
    if one is None:
        return row
    row["state"], row["detail"] = _state(one, judgements.get(entry.name), twins)
    candidate = candidate_of(one)
    if candidate is None or one.spec is None:
        return row
    row["kind"] = candidate.kind
    transport = one.spec.transport
    if isinstance(transport, StdioSpec):
        row["command"] = list(transport.shown)
        row["masked"] = any(MASK in part for part in transport.shown)
        row["variables"] = any(_REFERENCE in part for part in transport.shown)
    elif isinstance(transport, HttpSpec):
        row["url"] = transport.shown
        row["masked"] = MASK in transport.shown
        row["variables"] = _REFERENCE in transport.shown
    return row


def _up(row: ServerStatus) -> bool:
    return row["state"] == "connected"


def _state(one: Resolved, judged: Judged | None, twins: Mapping[str, Resolved]) -> tuple[str, str]:
    if (winner := twins.get(one.name)) is not None:
        return "duplicate", f"the same server as {winner.name} ({winner.origin})"
    if judged is None:
        return "blank", "its url is empty"
    match judged.wish:
        case Off(because=because, detail=detail):
            return because, detail
        case Broken(problem=problem):
            return "broken", problem.message
        case _:
            return "would run", ""


# --- read again -------------------------------------------------------------------------------------------------------


class Known(msgspec.Struct, frozen=True):
    """One effective server of an inventory, as policy can be asked about it. `certain`: nothing of it is masked, or a
    reference whose value the machine knows alone."""

    candidate: Candidate
    origin: Origin
    shown: str
    certain: bool


def read_inventory(data: bytes, path: str) -> list[Known]:
    """The effective servers of an exported inventory, those that cannot run left out. Raises ConfigError."""
    try:
        report = msgspec.json.decode(data, type=_Report)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"cannot use {path}: it is no inventory of mcphub config show --json: {error}") from None
    if report.format != FORMAT:
        raise ConfigError(f"cannot use {path}: it is no inventory of mcphub config show --json")
    if report.version > VERSION:
        raise ConfigError(f"cannot use {path}: it has version {report.version}, and this mcphub knows up to {VERSION}")
    return list(_known(report))


class _Entry(msgspec.Struct, frozen=True):
    name: str
    key: str
    standing: str
    kind: str
    line: int = 0
    command: tuple[str, ...] = ()
    url: str = ""
    variables: bool = False
    masked: bool = False
    entry: Mapping[str, Any] = {}


class _Layer(msgspec.Struct, frozen=True):
    scope: Scope
    path: str
    entries: tuple[_Entry, ...]


class _Report(msgspec.Struct, frozen=True):
    format: str
    version: int
    layers: tuple[_Layer, ...]


def _known(report: _Report) -> Iterator[Known]:
    for layer in report.layers:
        for entry in layer.entries:
            if entry.standing != "effective":
                continue
            origin = Origin(layer.scope, layer.path, entry.key, entry.line)
            certain = not (entry.masked or entry.variables)
            if entry.kind == "program" and entry.command:
                argv, env = entry.command, entry.entry.get("env")
                candidate = Candidate(
                    entry.name,
                    layer.scope,
                    "program",
                    argv,
                    argv,
                    own_path=isinstance(env, dict) and "PATH" in env,
                    variables=entry.variables,
                )
                yield Known(candidate, origin, " ".join(argv), certain)
            elif entry.kind == "remote":
                candidate = Candidate(
                    entry.name, layer.scope, "remote", urls=(Secret(entry.url),), variables=entry.variables
                )
                yield Known(candidate, origin, entry.url, certain)
            elif entry.kind == "built in":
                yield Known(Candidate(entry.name, layer.scope, "built in"), origin, "built in", certain)


def known_here(resolved: ResolvedSet) -> list[Known]:
    """The effective servers of this machine, whole."""
    found = []
    for one in resolved.servers.values():
        candidate = candidate_of(one)
        if candidate is None or one.spec is None:
            continue
        transport = one.spec.transport
        shown = "built in"
        if isinstance(transport, StdioSpec):
            shown = " ".join(transport.shown)
        elif isinstance(transport, HttpSpec):
            shown = transport.shown
        # What is off is not expanded.
        expanded = not (isinstance(one.outcome, Off) and _REFERENCE in shown)
        found.append(Known(candidate, one.origin, shown, expanded))
    return found

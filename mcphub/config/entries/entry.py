"""Owns what becomes of one entry: the fields that entries of every kind have, around the transport it asks for.

It must not know the fields of one transport, which entry wins, or whether a server may run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mcphub.config.layer import Entry
from mcphub.spec import (
    DIVIDED,
    INPUT_TIMEOUT,
    HttpSpec,
    InProcessSpec,
    Off,
    Problem,
    Scope,
    ServerSpec,
    SseSpec,
    StdioSpec,
)

from .allowance import read_allowances
from .context import Context
from .fields import Fault, boolean, one_of, seconds, strings
from .http import read_http
from .kinds import transport_kind, unused_keys
from .limits import note_unused
from .reading import Reading
from .sdk import read_sdk
from .stdio import read_stdio
from .tools import read_idempotency_arguments

#: Who may share an instance; those of DIVIDED make further ones for further workspaces or agents.
SHARING = ("auto", "shared", *DIVIDED)

#: How the reason begins of what is off since nobody knows whether a person switched it off.
SWITCH_UNKNOWN = "it may be one that you switched off, which is not known"


class Parsed(msgspec.Struct, frozen=True):
    """What became of one entry: ready to run, switched off, wrong, or (None) not configured yet."""

    outcome: ServerSpec | Off | Problem | None
    warnings: tuple[str, ...] = ()


def parse_entry(entry: Entry, directory: str, context: Context) -> Parsed:
    """One entry, expanded and checked. Never raises; the first thing that is wrong makes the problem.

    `directory` is the layer's: relative paths of a project file start there and its servers run there. An entry that
    is switched off is checked but not expanded, so a variable that is missing does not matter.
    """
    reading = Reading(entry, directory, context)
    try:
        return Parsed(_outcome(reading), reading.notes())
    except Fault as fault:
        message = f"cannot use server {entry.name}: {entry.place(*fault.path)}: {fault.cause}"
        return Parsed(Problem(entry.name, entry.origin, message, fault.missing), reading.notes())


def _outcome(reading: Reading) -> ServerSpec | Off | Problem | None:
    entry, raw = reading.entry, reading.raw
    if entry.origin.scope is Scope.EMBEDDED:
        return ServerSpec(entry.name, entry.origin, InProcessSpec(str(raw["inProcess"])))
    _check_switch(reading)
    kind = transport_kind(raw)
    if kind is None:
        reading.note("url is empty, so this server is not configured yet", "url")
        return None
    for key, why in unused_keys(raw, kind):
        reading.note(why, key)
    if kind != "stdio":
        note_unused(reading)
    match kind:
        case "stdio":
            return _server(reading, read_stdio(reading))
        case "in-process":
            return _server(reading, read_sdk(reading))
        case _:
            return _server(reading, read_http(reading, kind))


def _check_switch(reading: Reading) -> None:
    boolean(reading.raw, "enabled")
    boolean(reading.raw, "disabled")
    if "disabled" in reading.raw:
        # Other hosts write it so; running what somebody switched off would be worse than reading their word for it.
        reading.note('write "enabled": false instead', "disabled")


def _era(raw: Mapping[str, Any], transport: StdioSpec | HttpSpec | InProcessSpec) -> str:
    """The era that the entry pins; the transport of 2024-11-05 carries the legacy one alone."""
    era = one_of(raw, "era", ("legacy", "modern"), "")
    if not isinstance(transport, SseSpec):
        return era
    if era == "modern":
        raise Fault("a server of type 'sse' speaks the legacy era; remove era, or set type to 'http'", "era")
    return "legacy"


def _shared_by(reading: Reading, sharing: str) -> tuple[str, str]:
    """The directory whose agents share an instance, "" = all agents, and the one agent that has it alone, "" = none."""
    context = reading.context
    if sharing == "shared" and reading.project:
        # Each project's entry is approved by itself, and must not get what was started for another one.
        reading.note("a project's server is not shared with other projects; it is taken as 'auto'", "sharing")
    elif sharing == "shared":
        return "", ""
    directory = reading.workspace
    if sharing in DIVIDED:
        directory = directory or context.workspace
    return directory, context.agent if sharing == "agent" else ""


def _always_on(reading: Reading, sharing: str) -> bool:
    """Whether it runs though nobody uses it. What else says when it ends, or for whom it is, contradicts that."""
    raw = reading.raw
    if not boolean(raw, "alwaysOn"):
        return False
    if sharing in DIVIDED:
        text = f'has no effect beside "sharing": "{sharing}": an instance of it is there for somebody'
        reading.note(text, "alwaysOn")
        return False
    for key in ("lazy", "idleTimeout"):
        if raw.get(key):
            reading.note("has no effect beside \"alwaysOn\": true, which keeps the server running", key)
    return True


def _health_idle(raw: Mapping[str, Any]) -> float | None:
    """Seconds of silence before it is asked whether it is there; 0 = never, None = as the settings say."""
    value = raw.get("healthCheck", True)
    if isinstance(value, bool):
        return None if value else 0.0
    return seconds(raw, "healthCheck")


def _server(reading: Reading, transport: StdioSpec | HttpSpec | InProcessSpec) -> ServerSpec | Off:
    entry, raw, context = reading.entry, reading.raw, reading.context
    startup = seconds(raw, "startupTimeout")
    call = seconds(raw, "timeout")
    sharing = one_of(raw, "sharing", SHARING, "auto")
    workspace, agent = _shared_by(reading, sharing)
    idle_timeout = seconds(raw, "idleTimeout") or 0.0
    always_on = _always_on(reading, sharing)
    spec = ServerSpec(
        entry.name,
        entry.origin,
        transport,
        startup_timeout=context.startup_timeout if startup is None else startup,
        call_timeout=context.call_timeout if call is None else call,
        enabled_tools=strings(raw, "enabledTools") if "enabledTools" in raw else None,
        disabled_tools=strings(raw, "disabledTools"),
        era=_era(raw, transport),
        workspace=workspace,
        sampling=boolean(raw, "sampling"),
        sharing=sharing,
        agent=agent,
        lazy=boolean(raw, "lazy") and not always_on,
        idle_timeout=0.0 if always_on else idle_timeout,
        always_on=always_on,
        told=tuple(reading.told.items()),
        health_idle=_health_idle(raw),
        input_timeout=seconds(raw, "inputTimeout") or INPUT_TIMEOUT,
        trust_annotations=boolean(raw, "trustAnnotations"),
        idempotency_arguments=read_idempotency_arguments(reading),
        allowance=read_allowances(reading),
    )
    if reading.enabled:
        return spec
    if entry.name in context.switched_off:
        directory = context.switched_off[entry.name]
        where = f" for {directory}" if directory else ""
        detail = f"switched off by you{where}; to switch it on again: mcphub enable {entry.name}"
        return Off(spec, "person", detail, workspace=context.workspace if directory else "")
    if context.switches_lost:
        return Off(spec, "person", f"{SWITCH_UNKNOWN}: {context.switches_lost}")
    key = "enabled" if raw.get("enabled") is False else "disabled"
    return Off(spec, "person", f"switched off by {entry.place(key)}")

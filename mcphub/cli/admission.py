"""Owns what is said against a server before a person's command writes it: by its name, its entry, or policy.

It must not write anything. The daemon judges by the same rules whatever a file says; this only says so in time.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from mcphub.config.entries.context import Context, EnvFile, assumed
from mcphub.config.entries.entry import parse_entry
from mcphub.config.entries.stdio import ADDRESS, is_address
from mcphub.config.layer import Entry, Layer
from mcphub.config.load import Loaded
from mcphub.config.names import name_fault, shown_name
from mcphub.config.resolve import resolve, wanted_env_files
from mcphub.config.writable import Place
from mcphub.desired import desired_state
from mcphub.errors import ConfigError
from mcphub.spec import Off, Origin, Problem, Scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: Word for word what other hosts say, so that a person who searches for it finds it.
ENTERPRISE = (
    "Cannot add MCP server: enterprise MCP configuration is active and has exclusive control over MCP servers"
)


def refuse_name(name: str) -> None:
    """Raise ConfigError where no server can have this name."""
    if fault := name_fault(name):
        raise ConfigError(f"cannot add server {shown_name(name)}: {fault}")


def refuse_enterprise(loaded: Loaded) -> None:
    """Raise ConfigError where the organisation alone says which servers there are."""
    alone = next((layer for layer in loaded.resolved.layers if layer.scope is Scope.ENTERPRISE), None)
    if alone is not None:
        raise ConfigError(f"{ENTERPRISE} ({alone.path})")


def judge(loaded: Loaded, place: Place, name: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    """What is odd about an entry that may be written. Raises ConfigError for one that must not: it means nothing, or
    policy would not let it run. A variable that is missing can be set later."""
    refuse_name(name)
    refuse_enterprise(loaded)
    origin = Origin(place.scope, place.path, f"mcpServers.{name}")
    # What is off is checked and not expanded: a variable can be set later, a wrong entry stays wrong.
    checked = parse_entry(Entry(name, {**entry, "enabled": False}, origin), place.directory, Context()).outcome
    if isinstance(checked, Problem):
        raise ConfigError(checked.message.replace("cannot use", "cannot add", 1))
    if is_address(entry.get("command")):
        raise ConfigError(f"cannot add server {name}: {place.path} mcpServers.{name}.command: {ADDRESS}")
    if checked is None:
        raise ConfigError(f"cannot add server {name}: its url is empty")

    policies = [
        msgspec.structs.replace(layer, entries=(), problems=(), warnings=())
        for layer in loaded.resolved.layers
        if layer.policy is not None
    ]
    layer = Layer(place.scope, place.path, place.directory, (Entry(name, entry, origin),))
    settings = loaded.settings
    context = Context(
        loaded.environment,
        startup_timeout=settings.connect.timeout,
        call_timeout=settings.call.timeout,
        secrets=assumed,
    )
    # A file of variables can be written later, too.
    files = dict.fromkeys(wanted_env_files([layer], context), EnvFile())
    alone = resolve([*policies, layer], replace(context, env_files=files), workspace=loaded.resolved.workspace)
    outcome = alone.servers[name].outcome
    if isinstance(outcome, Problem) and not outcome.missing:
        raise ConfigError(outcome.message.replace("cannot use", "cannot add", 1))
    for wish in desired_state({alone.workspace: alone}, {}).values():
        if isinstance(wish, Off) and wish.because == "policy":
            raise ConfigError(f"cannot add server {name}: {wish.detail}")
    return alone.servers[name].warnings

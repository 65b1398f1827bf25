"""Owns the values that one configuration file becomes: its entries, each with its origin, and what is wrong with it.

It must not know how a file is found or read, nor which of two entries wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mcphub.spec import Origin, Problem, Scope

from .identity_provider import WrittenIdp
from .jsonc import Lines
from .names import shown_name
from .policy_document import PolicyDocument
from .remote_settings import RemoteSettings

#: Whose entries are for the agents of one directory alone.
OWNED = frozenset([Scope.DYNAMIC, Scope.LOCAL, Scope.PROJECT])


def owner(scope: Scope, directory: str) -> str:
    """The directory whose agents may use what a layer of this scope and directory holds, "" = every agent."""
    return directory if scope in OWNED else ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One server as the file has it, nothing expanded. `lines` holds the line of each of its keys.

    `variables` are what a plugin's placeholders stand for: they count before the hub's environment, in this entry.
    """

    name: str
    raw: Mapping[str, Any] = field(repr=False)
    origin: Origin
    lines: Lines = field(default_factory=Lines, repr=False, compare=False)
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    def place(self, *path: str | int) -> str:
        """`FILE:LINE mcpServers.NAME.key[0]` for the value at `path`; keys that are no plain names are escaped."""
        keys = "".join(f"[{step}]" if isinstance(step, int) else f".{shown_name(step)}" for step in path)
        line = self.lines.line(path) or self.origin.line
        return str(msgspec.structs.replace(self.origin, key=self.origin.key + keys, line=line))


#: How a problem begins that is about a file of which it cannot even be said whether it is there.
NOT_SEEN = "cannot look for"


class Layer(msgspec.Struct, frozen=True):
    """One file of one scope. `problems` with name "" are about the file, others about an entry that cannot be read.

    `directory` is where relative paths of the file start; where `owner` says so it is the workspace of its entries.
    """

    scope: Scope
    path: str
    directory: str = ""
    entries: tuple[Entry, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    #: What a managed document says beside its servers.
    policy: PolicyDocument | None = None
    remote: RemoteSettings | None = None
    #: The organisation's identity provider, as a managed document has it.
    idp: WrittenIdp | None = None

    @property
    def faulty(self) -> bool:
        """Something is wrong with the file as a whole."""
        return any(problem.name == "" for problem in self.problems)

    @property
    def unreadable(self) -> bool:
        """The file as a whole gave nothing: what it would say is unknown."""
        return not self.entries and self.faulty


def keep_last_good(current: tuple[Layer, ...], previous: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """`current`, where a file that can no longer be read keeps the entries it had, and its problem.

    An editor that truncates and then writes must not stop every server (case C014). A file that is gone stays gone. An
    enterprise's file gives nothing while it cannot be read: settle.py has given it a moment.
    """
    kept_ones = (layer for layer in previous if layer.scope is not Scope.ENTERPRISE and _said_something(layer))
    before = {(layer.scope, layer.path, layer.directory): layer for layer in kept_ones}
    kept: list[Layer] = []
    for layer in current:
        old = before.get((layer.scope, layer.path, layer.directory))
        if layer.unreadable and old is not None:
            warning = f"{layer.path}: cannot be used as it is now, so what could be used of it before stays in force"
            named = tuple(problem for problem in old.problems if problem.name != "")
            layer = msgspec.structs.replace(
                layer,
                entries=old.entries,
                problems=layer.problems + named,
                warnings=(*layer.warnings, warning),
                policy=_with_old_rules(layer.policy, old.policy),
            )
        kept.append(layer)
    return tuple(kept)


def _said_something(layer: Layer) -> bool:
    """Whether anything of the file could be used: what never could be stays in no force."""
    policy = layer.policy
    return bool(layer.entries) or (policy is not None and (not policy.fault or bool(policy.raw)))


def _with_old_rules(new: PolicyDocument | None, old: PolicyDocument | None) -> PolicyDocument | None:
    """A broken document of policy closes, and what it denied before stays denied, to the organisation's servers too.
    What was wrong with that is told no more."""
    if new is None or old is None:
        return new
    return msgspec.structs.replace(old, fault=new.fault, wrong=(), former=new.fault)

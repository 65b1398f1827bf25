"""Owns what one document of policy says: raw values to rules, each with its place, and what cannot be read.

It must not read files, nor know other documents. What is wrong closes: a rule that cannot be read may be the one that
forbids (an unknown key is a warning, since files made for other programs are copied; a misspelt one is wrong).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from mcphub.config.jsonc import kind_of
from mcphub.config.masking import masked
from mcphub.config.names import shown_name
from mcphub.config.policy_document import PolicyDocument
from mcphub.config.policy_keys import (
    CONNECTORS,
    GUARDED,
    MANAGED_ONLY,
    TABLE,
    UNMISTAKABLE,
    in_vain,
    misplaced,
    misspelt,
)
from mcphub.config.spelling import near_miss
from mcphub.spec import Origin, Scope

from .candidate import OWN_SCOPES
from .matchers import BY_KIND
from .matchers.matcher import Refused, Useless
from .rules import AllowList, Policy, Rule, ToolRule
from .tools import read_tool_rule

#: Keys of managed settings that other parts read.
OTHER_KEYS = frozenset(["$schema", "managedMcpServers", "xaaIdp"])
#: Characters of an entry that are shown.
_SHOWN = 200
_JSON = json.JSONEncoder(default=str)


def read_policy(document: PolicyDocument) -> Policy:
    """What the document says. Never raises; what is wrong is in `closed`, one sentence each, naming file, line, key."""
    return _Reader(document).read()


class _Reader:
    def __init__(self, document: PolicyDocument) -> None:
        self.document = document
        self.scope = document.origin.scope
        self.closed: list[str] = [*([document.fault] if document.fault else []), *document.wrong]
        self.warnings: list[str] = []

    def read(self) -> Policy:
        raw = self.document.raw
        allowed: AllowList | None = None
        allowed_tools: AllowList | None = None
        denied: tuple[Rule, ...] = ()
        denied_tools: tuple[ToolRule, ...] = ()
        managed_only: Origin | None = None
        for key, value in raw.items():
            match key:
                case "allowedMcpServers":
                    allowed = AllowList(self._origin(key), rules=self._servers(key, value, deny=False))
                case "deniedMcpServers":
                    denied = self._servers(key, value, deny=True)
                case "allowedTools":
                    allowed_tools = AllowList(self._origin(key), tools=self._tools(key, value, deny=False))
                case "deniedTools":
                    denied_tools = self._tools(key, value, deny=True)
                case "allowManagedMcpServersOnly" | "allowAllClaudeAiMcps":
                    # What is not plainly off is on: a lock that was meant to be set must not be open.
                    if self._lock(key, value) and key == MANAGED_ONLY:
                        managed_only = self._origin(key)
                case _:
                    self._unknown(key, value)
        managed = self.scope in OWN_SCOPES
        if managed_only is not None and not managed:
            self._warn("counts in managed settings only", MANAGED_ONLY)
            managed_only = None
        if self.scope is Scope.PROJECT:
            for one in (allowed, allowed_tools):
                if one is not None:
                    self.warnings.append(f"{one.origin}: what a repository brings cannot allow anything; it is ignored")
            allowed = allowed_tools = None
        if self.document.former:
            self.closed, self.warnings = [self.document.former] if self.closed else [], []
        return Policy(
            allowed=None if allowed is None else (allowed,),
            denied=denied,
            allowed_tools=None if allowed_tools is None else (allowed_tools,),
            denied_tools=denied_tools,
            managed_only=managed_only,
            closed=tuple(self.closed),
            warnings=tuple(self.warnings),
            managed=managed,
        )

    def _origin(self, *path: str | int) -> Origin:
        base = self.document.origin
        key = base.key
        for step in path:
            key += f"[{step}]" if isinstance(step, int) else f"{'.' if key else ''}{shown_name(step)}"
        return msgspec.structs.replace(base, key=key, line=self.document.lines.line(path) or base.line)

    def _wrong(self, cause: str, *path: str | int) -> None:
        self.closed.append(f"cannot use {self._origin(*path)}: {cause}")

    def _warn(self, text: str, *path: str | int) -> None:
        self.warnings.append(f"{self._origin(*path)}: {text}")

    def _unknown(self, key: str, value: Any) -> None:
        managed = self.scope in OWN_SCOPES
        if key in OTHER_KEYS and managed:
            return
        if meant := near_miss(key, GUARDED):
            self._wrong(misspelt(meant), key)
            return
        if key == TABLE or near_miss(key, (TABLE,)):
            self._wrong(f"no table of rules is read here; move what it holds {self._where}", key)
            return
        # Other programs have keys of their own for tools, deep in their settings.
        inside = list(misplaced(value, UNMISTAKABLE if managed else GUARDED, path=(key,)))
        for place, meant in inside:
            self._wrong(in_vain(str(place[-1]), meant, self._where), *place)
        if not inside:
            self._warn("unknown key, not used", key)

    @property
    def _where(self) -> str:
        """Where rules of this document stand."""
        return "to the top of the file" if self.scope in OWN_SCOPES else f"below [{TABLE}]"

    def _lock(self, key: str, value: Any) -> bool:
        if not isinstance(value, bool):
            self._wrong(f"expected true or false, found {kind_of(value)}", key)
        elif value and key == CONNECTORS:
            self._warn("not used: where an enterprise file exists, its servers are the only ones", key)
        return value is not False

    def _list(self, key: str, value: Any) -> list[Any]:
        if isinstance(value, list):
            return value
        self._wrong(f"expected a list, found {kind_of(value)}", key)
        return []

    def _servers(self, key: str, value: Any, *, deny: bool) -> tuple[Rule, ...]:
        found = [self._server(key, index, item, deny) for index, item in enumerate(self._list(key, value))]
        return tuple(rule for rules in found for rule in rules)

    def _server(self, key: str, index: int, item: Any, deny: bool) -> tuple[Rule, ...]:
        """The rule of one entry. One that matches nothing still says which kinds of rule its writer speaks in: several
        where it has several keys."""
        origin = self._origin(key, index)
        if not isinstance(item, dict):
            self._wrong(f'expected an object such as {{"serverName": "NAME"}}, found {kind_of(item)}', key, index)
            return (Rule("", "", origin),)
        kinds = [kind for kind in item if kind in BY_KIND]
        shown = _shown(item)
        rules = tuple(Rule(kind, shown, origin) for kind in kinds or [""])
        for name in item:
            if name not in BY_KIND and (meant := near_miss(name, BY_KIND)):
                self._wrong(f"unknown key, probably meant as {meant}; correct it", key, index, name)
        if len(item) != 1 or not kinds:
            self._matches_nothing(f"expected exactly one of the keys {', '.join(BY_KIND)}", deny, key, index)
            return rules
        kind = kinds[0]
        try:
            pattern, warning = BY_KIND[kind].read(item[kind], deny)
        except Useless as error:
            self._matches_nothing(str(error), deny, key, index, kind)
        except Refused as error:
            self._wrong(str(error), key, index, kind)
        else:
            if warning:
                self._warn(warning, key, index, kind)
            return (Rule(kind, shown, origin, pattern),)
        return rules

    def _tools(self, key: str, value: Any, *, deny: bool) -> tuple[ToolRule, ...]:
        rules = []
        for index, item in enumerate(self._list(key, value)):
            if not isinstance(item, str):
                self._wrong(f'expected a string such as "SERVER/TOOL", found {kind_of(item)}', key, index)
            elif (rule := read_tool_rule(item, self._origin(key, index))) is not None:
                rules.append(rule)
            else:
                self._matches_nothing('expected "SERVER/TOOL"; * stands for any characters', deny, key, index)
        return tuple(rules)

    def _matches_nothing(self, cause: str, deny: bool, *path: str | int) -> None:
        """Wrong where somebody believes in being protected by it; where it would allow, nothing is allowed by it."""
        if deny:
            self._wrong(cause, *path)
        else:
            self._warn(f"allows nothing: {cause}", *path)


def _shown(item: Mapping[str, Any]) -> str:
    """The entry in one line, its words masked where they look like secrets."""
    text = _JSON.encode({key: _masked(value) for key, value in item.items()})
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return masked(value)
    return [_masked(item) for item in value] if isinstance(value, list) else value

"""Owns rules by name: `{"serverName": "github"}`, without wildcards.

It must not know what a server runs. Whoever writes an entry chooses its name: a name alone proves nothing.
"""

from __future__ import annotations

from typing import Any

from mcphub.config.jsonc import kind_of
from mcphub.config.names import name_fault
from mcphub.policy.candidate import Candidate
from mcphub.policy.folding import folded, folded_names

from .matcher import Refused, Useless


class NameMatcher:
    """Allowed names are compared exactly, denied ones without case, blanks, invisible letters and ways of composing."""

    kind = "serverName"

    def read(self, value: Any, deny: bool) -> tuple[Any, str]:
        if not isinstance(value, str):
            raise Refused(f"expected a string, found {kind_of(value)}")
        if "*" in value:
            raise Useless("a name has no wildcards; write one entry a name, or use serverUrl or serverCommand")
        if deny:
            if not folded(value):
                raise Useless("the name is empty")
            return folded(value), ""
        for part in value.split(":"):  # plugin:PLUGIN:SERVER
            if fault := name_fault(part):
                raise Useless(fault)
        return value, ""

    def subject(self, candidate: Candidate) -> tuple[str, frozenset[str]]:
        return candidate.name, folded_names(candidate.name)

    def key(self, pattern: str, deny: bool) -> str:
        return pattern

    def keys(self, subject: tuple[str, frozenset[str]], deny: bool) -> frozenset[str]:
        return subject[1] if deny else frozenset([subject[0]])

    def allows(self, pattern: str, subject: tuple[str, frozenset[str]]) -> bool:
        return subject[0] == pattern

    def denies(self, pattern: str, subject: tuple[str, frozenset[str]]) -> bool:
        return pattern in subject[1]

"""Owns how a text with variables is told to a person once they are replaced: all of it but secrets.

It must not know which field the text belongs to, nor who asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from mcphub.spec import SHORTEST_SECRET

from .expand import Variables, expand
from .masking import MASK
from .urls import is_credential

_USER = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s]*@")
_QUERY = re.compile(r"(?P<place>[A-Za-z][A-Za-z0-9+.-]*://[^?#\s]*)\?[^#\s]*")


def told(text: str, variables: Variables) -> str:
    """`text` with its variables replaced, as a person may see it. Secrets, variables that are credentials by their
    names, and those whose value holds the value of one stay references; user and query of a URL are masked."""
    known = Variables(
        _Shown(variables.env),
        variables.workspace,
        variables.withheld,
        None if variables.secret is None else lambda name: f"${{secret:{name}}}",
    )
    shown = _USER.sub(rf"\g<scheme>{MASK}@", expand(text, known).text)
    return _QUERY.sub(rf"\g<place>?{MASK}", shown)


class _Shown(Mapping[str, str]):
    """The variables, each with its value or, where that must not be seen, with a reference to it."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env

    def __getitem__(self, name: str) -> str:
        value = self._env[name]
        return f"${{{name}}}" if value and (is_credential(name) or self._holds_credential(value)) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._env)

    def __len__(self) -> int:
        return len(self._env)

    def _holds_credential(self, value: str) -> bool:
        others = ((name, other) for name, other in self._env.items() if len(other) >= SHORTEST_SECRET)
        return any(other in value and is_credential(name) for name, other in others)

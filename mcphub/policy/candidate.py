"""Owns what policy is asked about: one server as its rules see it, by name, by what it runs or where it is.

It must not know rules. It is made of the expanded spec that will be run, never of the entry alone (case C132).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from mcphub.config.resolve import Resolved
from mcphub.spec import HttpSpec, Scope, Secret, StdioSpec

#: Entries of these scopes are the organisation's own.
OWN_SCOPES = frozenset([Scope.ENTERPRISE, Scope.MANAGED])
_VARIABLE = re.compile(r"\$\{")
# What of an entry decides which code runs, or where a connection goes.
_DECISIVE = ("command", "args", "env", "cwd", "envFile", "url")


class Candidate(msgspec.Struct, frozen=True):
    """One server. `argv` is what would be executed, `written` the same as the file has it, `()` for a remote one.

    `executed` are absolute paths of the file that `argv[0]` leads to, as far as the caller knows them; they count
    against a server, never for it. `own_path`: the entry chooses itself where programs are looked for. `urls` are where
    it is: the first is the one that is connected to, others what stands behind a proxy. `variables` is asked of the
    organisation's own alone: what decides about it holds a reference, whose value the person at the machine chooses.
    """

    name: str
    scope: Scope
    kind: Literal["program", "remote", "built in"]
    argv: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    executed: tuple[str, ...] = ()
    own_path: bool = False
    urls: tuple[Secret, ...] = ()
    variables: bool = False

    @property
    def own(self) -> bool:
        """The organisation itself brings it."""
        return self.scope in OWN_SCOPES


def candidate_of(resolved: Resolved, executed: tuple[str, ...] = (), behind: tuple[str, ...] = ()) -> Candidate | None:
    """What policy is asked about this server, None where there is nothing that could run. `behind` are the URLs that
    a proxy would lead it to."""
    spec = resolved.spec
    if spec is None:
        return None
    raw: Mapping[str, Any] = resolved.entry.raw if resolved.entry is not None else {}
    transport, scope = spec.transport, spec.origin.scope
    variables = scope in OWN_SCOPES and any(_holds_variable(raw[key]) for key in _DECISIVE if key in raw)
    if isinstance(transport, StdioSpec):
        command, args = raw.get("command"), raw.get("args", [])
        written = (command, *args) if isinstance(command, str) and isinstance(args, list) else ()
        argv = (transport.command, *transport.args)
        own_path = "PATH" in transport.env
        return Candidate(spec.name, scope, "program", argv, written, executed, own_path, variables=variables)
    if isinstance(transport, HttpSpec):
        urls = (transport.url, *map(Secret, behind))
        return Candidate(spec.name, scope, "remote", urls=urls, variables=variables)
    return Candidate(spec.name, scope, "built in", variables=variables)


def _holds_variable(value: Any) -> bool:
    if isinstance(value, str):
        return _VARIABLE.search(value) is not None
    if isinstance(value, Mapping):
        return any(map(_holds_variable, value.values()))
    return isinstance(value, list) and any(map(_holds_variable, value))

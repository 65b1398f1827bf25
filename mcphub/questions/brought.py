"""Owns what is said of a server whose entry refers to variables that agents bring (`clientEnv`).

It must not know their values, nor how agents bring them. Each set of values is an instance of its own, so that one
entry can run for some agents and lack a variable for others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from mcphub.config.resolve import Resolved
from mcphub.policy.approval_text import references
from mcphub.spec import InstanceKey, Problem, Scope
from mcphub.status import ServerStatus, WhyInstance

from .place import origin_status

#: Scopes of entries that somebody else wrote: what they send to another machine reads no credential.
_FOREIGN = frozenset({Scope.PROJECT, Scope.PLUGIN, Scope.WEBAPP})


def brought(one: Resolved, client_env: Collection[str]) -> tuple[str, ...]:
    """The variables that the entry refers to and agents may bring, sorted."""
    if one.entry is None or not client_env:
        return ()
    names = references(one.entry.raw, remote="url" in one.entry.raw, foreign=one.origin.scope in _FOREIGN)
    return tuple(name for name in names if name in client_env)


def instances(
    one: Resolved, own: InstanceKey | None, rows: Mapping[InstanceKey, ServerStatus], agents: Mapping[int, str]
) -> Iterator[WhyInstance]:
    """Every instance of this entry, `own` being that of agents which bring nothing. `agents` are names by number."""
    place = origin_status(one.origin)
    for key, row in rows.items():
        if row["name"] != key.name or row["origin"] != place or key.name != one.name:
            continue
        users = [agents.get(number, f"agent ({number})") for number in row.get("used_by", [])]
        yield WhyInstance(brings=key != own, state=row["state_text"], reason=row["reason"], agents=users)


def needs_an_agent(one: Resolved, names: Collection[str]) -> tuple[str, ...]:
    """The variables that only agents can give it here, where it lacks nothing else; () where it does."""
    missing = one.outcome.missing if isinstance(one.outcome, Problem) else ()
    return missing if set(missing) <= set(names) else ()

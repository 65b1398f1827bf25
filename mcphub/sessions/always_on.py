"""Owns in which workspaces servers run though no agent works there: those with an entry that says `alwaysOn`.

It must not decide whether they may run: it says which files are worth reading. What is approved is known without
reading any, and so is where the person's own servers for a project are.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace

import msgspec

from mcphub.config import jsonc
from mcphub.config.places import Places
from mcphub.config.resolve import ResolvedSet
from mcphub.spec import Scope, ServerSpec
from mcphub.store.approvals import Decisions

#: Workspaces that are kept so; the rest waits for an agent.
MOST = 100
#: How an approved entry that says so was written down (policy/approval_text.py).
_SAYS = re.compile(r'^  "alwaysOn": true,?$', re.MULTILINE)


def approved(decisions: Decisions) -> set[str]:
    """The directories for which a person approved such an entry."""
    return {
        directory
        for (directory, _), decision in decisions.items()
        if not decision.rejected and any(_SAYS.search(one.entry) for one in decision.approved)
    }


def own(places: Places) -> set[str]:
    """The directories for which the person has such a server of their own. What cannot be read has none."""
    found: set[str] = set()
    folder = os.path.join(places.state_dir, "local")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return found
    for name in names:
        try:
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            if b"alwaysOn" in data:
                found.add(msgspec.convert(jsonc.parse(data).value, _Local).project)
        except (OSError, jsonc.JsoncError, msgspec.ValidationError):
            continue
    return found - {""}


class _Local(msgspec.Struct, frozen=True):
    project: str


def lasting(resolved: ResolvedSet) -> set[str]:
    """The directories for which the person's own such servers are among these."""
    return {
        one.outcome.workspace
        for one in resolved.servers.values()
        if one.origin.scope is Scope.LOCAL and isinstance(one.outcome, ServerSpec) and one.outcome.always_on
    }


def alone(resolved: ResolvedSet) -> ResolvedSet:
    """What of a set is there while no agent works in its workspace."""
    kept = {
        name: one
        for name, one in resolved.servers.items()
        if one.spec is not None and (one.spec.always_on or not one.spec.workspace)
    }
    return replace(resolved, servers=kept)

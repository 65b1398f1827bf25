"""Owns the step from resolved sets and decisions to what shall run, be off, or be shown as broken.

It must not read anything or act: the same input gives the same answer, and the whole is computed again each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from .config.resolve import Resolved, ResolvedSet
from .policy import approval
from .policy.approval import Approval
from .spec import Broken, Desired, InstanceKey, Off, Problem, Want
from .store.approvals import Decisions


def desired_state(resolved_by_workspace: Mapping[str, ResolvedSet], decisions: Decisions) -> Desired:
    """What the instances of all active workspaces ("" = agents without one) shall be.

    Several workspaces that see the same entry share its key and so its instance. Names that are not configured yet have
    no key, and problems of whole files are no instances: `ResolvedSet.problems` has them.
    """
    return {key: _target(resolved, decisions) for key, resolved in rows(resolved_by_workspace).items()}


def rows(resolved_by_workspace: Mapping[str, ResolvedSet]) -> dict[InstanceKey, Resolved]:
    """What each instance comes from, for who shows its origin, what it shadows and its warnings."""
    found: dict[InstanceKey, Resolved] = {}
    for workspace in sorted(resolved_by_workspace):
        for resolved in resolved_by_workspace[workspace].servers.values():
            if (key := instance_key(resolved)) is not None:
                found.setdefault(key, resolved)
    return found


def visible(resolved: ResolvedSet) -> tuple[tuple[str, InstanceKey], ...]:
    """The names that agents of this workspace see, sorted, each with its instance, whatever state that is in."""
    keys = ((name, instance_key(one)) for name, one in sorted(resolved.servers.items()))
    return tuple((name, key) for name, key in keys if key is not None)


def instance_key(resolved: Resolved) -> InstanceKey | None:
    """The identity of what the name needs; None while it is not configured.

    A broken entry is identified by what is wrong with it: it becomes another row when its file is mended.
    """
    match resolved.outcome:
        case None:
            return None
        case Problem(message=message):
            digest = hashlib.sha256(message.encode("utf-8", "surrogatepass")).hexdigest()
            return InstanceKey(resolved.name, f"broken-{digest[:9]}", resolved.workspace)
        case Off(spec=spec):
            return spec.key()
        case spec:
            return spec.key()


def _target(resolved: Resolved, decisions: Decisions) -> Want | Off | Broken:
    match resolved.outcome:
        case Problem() as problem:
            return Broken(problem)
        case Off() as off:
            return off
        case None:
            raise AssertionError("a name that is not configured has no key")
        case spec:
            asked = approval.subject(resolved)
            if asked is None:
                return Want(spec)
            state = approval.decide(asked, decisions)
            if state is Approval.APPROVED:
                return Want(spec)
            return Off(spec, "approval", approval.detail(asked, state))

"""Owns the step from resolved sets and decisions to what shall run, be off, or be shown as broken.

It must not read anything or act: the same input gives the same answer, and the whole is computed again each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from .config.dedupe import Unwrap, dedupe, duplicates
from .config.policy_document import PolicyDocument
from .config.resolve import Resolved, ResolvedSet
from .policy import approval
from .policy.approval import Approval
from .policy.candidate import candidate_of
from .policy.combine import documents_of, effective
from .policy.rules import Policy, Verdict
from .spec import Broken, Desired, HttpSpec, InstanceKey, Off, Problem, ServerSpec, StdioSpec, Want
from .store.approvals import Decisions

if TYPE_CHECKING:
    from .policy.decide import Judge

#: The absolute paths of what a command leads to, as far as they can be found; asked only where a rule needs them.
Executed = Callable[[StdioSpec], tuple[str, ...]]
_AS_IT_IS = Unwrap()


class Judged(NamedTuple):
    """What one server shall be, and what was found on the way: None where the answer was there before it was asked."""

    wish: Want | Off | Broken
    verdict: Verdict | None = None
    asked: approval.Subject | None = None
    approval: Approval | None = None


def _unknown(spec: StdioSpec) -> tuple[str, ...]:
    return ()


def desired_state(
    resolved_by_workspace: Mapping[str, ResolvedSet],
    decisions: Decisions,
    *,
    unwrap: Unwrap = _AS_IT_IS,
    executed: Executed = _unknown,
) -> Desired:
    """What the instances of all active workspaces ("" = agents without one) shall be.

    Policy is asked about every server, whatever it came by: what it forbids is off, `because` "policy", and the detail
    names rule and file. Approval comes after it. `unwrap` says which server stands behind a proxied URL.

    Several workspaces that see the same entry share its key and so its instance. Names that are not configured yet have
    no key, and problems of whole files are no instances: `ResolvedSet.problems` has them.
    """
    court = _court(resolved_by_workspace.values(), unwrap, executed)
    return {key: _judged(one, decisions, court).wish for key, one in rows(resolved_by_workspace).items()}


def judgements(
    servers: Iterable[Resolved],
    sets: Iterable[ResolvedSet],
    decisions: Decisions,
    *,
    unwrap: Unwrap = _AS_IT_IS,
    executed: Executed = _unknown,
) -> dict[str, Judged]:
    """How `desired_state` comes to what it says of these servers, by name, `sets` being all that it was asked about;
    what is not configured yet is left out. Of what a person switched off policy is asked too: it says what would be."""
    court = _court(sets, unwrap, executed)
    found: dict[str, Judged] = {}
    for resolved in servers:
        if resolved.outcome is None:
            continue
        one = _judged(resolved, decisions, court)
        if isinstance(one.wish, Off) and one.wish.because == "person" and court.judges:
            one = one._replace(verdict=court.verdict(resolved))
        found[resolved.name] = one
    return found


def distinct(
    resolved: ResolvedSet, decisions: Decisions, unwrap: Unwrap, executed: Executed = _unknown
) -> ResolvedSet:
    """`resolved` without what runs already under another name; see `config.dedupe`. A server that may not run, or waits
    for approval, takes no other's place."""
    return dedupe(resolved, unwrap, _runs_in(resolved, decisions, unwrap, executed))


def twins(
    resolved: ResolvedSet, decisions: Decisions, unwrap: Unwrap, executed: Executed = _unknown
) -> Mapping[str, Resolved]:
    """The names that `distinct` takes out of `resolved`, each with the server that runs in its place."""
    return duplicates(resolved, unwrap, _runs_in(resolved, decisions, unwrap, executed))


def _runs_in(
    resolved: ResolvedSet, decisions: Decisions, unwrap: Unwrap, executed: Executed
) -> Callable[[Resolved], bool]:
    court = _court([resolved], unwrap, executed)
    return lambda one: isinstance(one.outcome, ServerSpec) and isinstance(_judged(one, decisions, court).wish, Want)


def verdict(
    resolved: Resolved, policy: Policy, *, unwrap: Unwrap = _AS_IT_IS, executed: Executed = _unknown
) -> Verdict:
    """What policy says of one server that has a spec."""
    from .policy.decide import Judge

    return _Court((Judge(policy),), unwrap, executed).verdict(resolved)


class _Court(NamedTuple):
    """The policies of the sets that are computed together, nearly always one, and what their rules need to know.
    Without a document of policy there is none, and everything is allowed."""

    judges: tuple[Judge, ...]
    unwrap: Unwrap
    executed: Executed

    def verdict(self, resolved: Resolved) -> Verdict:
        """The first that forbids, or the last."""
        transport = resolved.spec.transport if resolved.spec is not None else None
        executed: tuple[str, ...] = ()
        behind: tuple[str, ...] = ()
        if isinstance(transport, StdioSpec) and any(judge.asks_what_runs for judge in self.judges):
            executed = self.executed(transport)
        elif isinstance(transport, HttpSpec) and self.unwrap.hosts:
            inner = self.unwrap.url(str(transport.url))
            behind = (inner,) if inner != transport.url else ()
        candidate = candidate_of(resolved, executed, behind)
        assert candidate is not None, "a server without a spec cannot run"
        for judge in self.judges[:-1]:
            found = judge.decide(candidate)
            if not found.allowed:
                return found
        return self.judges[-1].decide(candidate)


def _court(sets: Iterable[ResolvedSet], unwrap: Unwrap, executed: Executed) -> _Court:
    known: list[tuple[PolicyDocument, ...]] = []
    for one in sets:
        if (documents := documents_of(one)) and documents not in known:
            known.append(documents)
    if not known:
        return _Court((), unwrap, executed)
    from .policy.decide import Judge  # most machines have no policy

    return _Court(tuple(Judge(effective(documents)) for documents in known), unwrap, executed)


def rows(resolved_by_workspace: Mapping[str, ResolvedSet]) -> dict[InstanceKey, Resolved]:
    """What each instance comes from, for who shows its origin, what it shadows and its warnings."""
    found: dict[InstanceKey, Resolved] = {}
    done: set[int] = set()
    for workspace in sorted(resolved_by_workspace):
        servers = resolved_by_workspace[workspace].servers
        if id(servers) in done:
            continue  # it brings nothing of its own, and has the very set of everybody
        done.add(id(servers))
        for resolved in servers.values():
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
        case Off(spec=spec, because=because, workspace=workspace):
            key = spec.key()
            if not workspace and because != "duplicate":
                return key
            # Off here, and not everywhere: a row of its own, beside the instance that others use.
            return key._replace(digest=f"off-{key.digest[:12]}", workspace=workspace or key.workspace)
        case spec:
            return spec.key()


def _judged(resolved: Resolved, decisions: Decisions, court: _Court) -> Judged:
    match resolved.outcome:
        case Problem() as problem:
            return Judged(Broken(problem))
        case Off() as off:
            return Judged(off)
        case None:
            raise AssertionError("a name that is not configured has no key")
        case spec:
            verdict = court.verdict(resolved) if court.judges else None
            if verdict is not None and not verdict.allowed:
                return Judged(Off(spec, "policy", verdict.sentence), verdict)
            asked = approval.subject(resolved)
            if asked is None:
                return Judged(Want(spec), verdict)
            state = approval.decide(asked, decisions)
            if state is Approval.APPROVED:
                return Judged(Want(spec), verdict, asked, state)
            return Judged(Off(spec, "approval", approval.detail(asked, state)), verdict, asked, state)

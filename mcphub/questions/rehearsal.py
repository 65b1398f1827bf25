"""Owns what a policy file would do to servers that are known, before it is rolled out.

It must not change what is in force, nor read a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mcphub.config.layer import Layer
from mcphub.config.policy_document import PolicyDocument
from mcphub.policy.combine import effective
from mcphub.policy.decide import PROOF, Judge
from mcphub.spec import Scope
from mcphub.status import BlockedServer, RehearsalReport

from .inventory import Known
from .place import origin_status


def rehearse(
    layer: Layer, inventories: Mapping[str, Iterable[Known]], beside: Iterable[PolicyDocument] = ()
) -> RehearsalReport:
    """What would be blocked if the file that `layer` was made of governed each of these machines; `beside` are other
    documents that would count there too, of lower rank."""
    policy = effective([*([layer.policy] if layer.policy is not None else []), *beside])
    judge = Judge(policy)
    blocked: list[BlockedServer] = []
    unsure: list[BlockedServer] = []
    count = 0
    for inventory, known in inventories.items():
        for one in known:
            count += 1
            sentence, certain = _judged(layer, judge, one)
            if sentence:
                found = BlockedServer(
                    inventory=inventory,
                    name=one.candidate.name,
                    origin=origin_status(one.origin),
                    shown=one.shown,
                    sentence=sentence,
                    certain=certain,
                )
                (blocked if certain else unsure).append(found)
    return RehearsalReport(
        policy=layer.path,
        judged=count,
        blocked=blocked,
        unsure=unsure,
        problems=list(dict.fromkeys([*(problem.message for problem in layer.problems), *policy.closed])),
        warnings=list(dict.fromkeys([*layer.warnings, *policy.warnings])),
    )


def _judged(layer: Layer, judge: Judge, one: Known) -> tuple[str, bool]:
    """Why it would be blocked, "" where it would not be, and whether that is certain."""
    if layer.scope is Scope.ENTERPRISE and one.candidate.scope is not Scope.ENTERPRISE:
        return f"{layer.path} would have exclusive control over MCP servers", True
    verdict = judge.decide(one.candidate)
    if not verdict.allowed:
        # What is not shown may be on the list; what denies has matched what is shown.
        listed = not judge.policy.closed and all(some.rules for some in judge.policy.allowed or ())
        return verdict.sentence, one.certain or bool(verdict.rule) or not listed
    kind = PROOF.get(one.candidate.kind)
    if not one.certain and any(rule.kind == kind and rule.pattern is not None for rule in judge.policy.denied):
        return f"a {kind} rule that denies may match what is not shown of it", False
    return "", True

"""Owns what all documents of policy say together.

It must not know where a document comes from beyond whose it is, the organisation's or a person's. To allow is a limited
power, to deny is everybody's: what is denied anywhere is denied, and a lock that is set anywhere is set.
"""

from __future__ import annotations

from collections.abc import Iterable

from mcphub.config.policy_document import PolicyDocument
from mcphub.config.resolve import ResolvedSet

from .rules import AllowList, Policy


def documents_of(resolved: ResolvedSet) -> tuple[PolicyDocument, ...]:
    """All documents of policy that a set of layers brought, highest rank first."""
    return tuple(layer.policy for layer in resolved.layers if layer.policy is not None)


def policy_of(resolved: ResolvedSet) -> Policy:
    """What is in force for the servers of this set."""
    return effective(documents_of(resolved))


def effective(documents: Iterable[PolicyDocument]) -> Policy:
    """What these documents, highest rank first, say together."""
    documents = tuple(documents)
    if not documents:
        return Policy()
    from .document import read_policy  # most machines have no policy

    return combine([read_policy(document) for document in documents])


def combine(policies: Iterable[Policy]) -> Policy:
    """Of the organisation's lists of what is allowed the highest one counts, whole. A person's own list adds to it,
    unless the lock leaves that to the organisation; a person's empty list allows nothing."""
    policies = list(policies)
    managed_only = next((one.managed_only for one in policies if one.managed_only is not None), None)
    warnings = [text for one in policies for text in one.warnings]
    allowed = _lists([(one.managed, one.allowed) for one in policies], managed_only is not None)
    allowed_tools = _lists([(one.managed, one.allowed_tools) for one in policies], managed_only is not None)
    if managed_only is not None and allowed is None and not any(one.closed for one in policies):
        warnings.append(f"{managed_only}: no managed settings hold allowedMcpServers, so every server is allowed")
    return Policy(
        allowed=allowed,
        denied=tuple(rule for one in policies for rule in one.denied),
        allowed_tools=allowed_tools,
        denied_tools=tuple(rule for one in policies for rule in one.denied_tools),
        managed_only=managed_only,
        closed=tuple(text for one in policies for text in one.closed),
        warnings=tuple(warnings),
        managed=any(one.managed for one in policies),
    )


def _lists(
    found: list[tuple[bool, tuple[AllowList, ...] | None]], managed_only: bool
) -> tuple[AllowList, ...] | None:
    managed = next((lists for mine, lists in found if mine and lists is not None), ())
    others = () if managed_only else tuple(one for mine, lists in found if not mine for one in lists or ())
    return (*managed, *others) or None

"""Owns what policy looks like to people: every rule with its place and rank, and its verdict about one thing.

It must not decide or combine anything itself.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

import msgspec

from mcphub.config.dedupe import Unwrap
from mcphub.config.masking import masked_url
from mcphub.config.policy_document import PolicyDocument
from mcphub.config.policy_keys import ALLOWED, ALLOWED_TOOLS, DENIED, DENIED_TOOLS, MANAGED_ONLY
from mcphub.config.resolve import Resolved
from mcphub.desired import Executed
from mcphub.desired import verdict as configured_verdict
from mcphub.policy.candidate import Candidate
from mcphub.policy.combine import combine
from mcphub.policy.decide import decide
from mcphub.policy.document import read_policy
from mcphub.policy.matchers.name import NameMatcher
from mcphub.policy.rules import AllowList, Policy, Rule, ToolRule, Verdict
from mcphub.spec import Origin, Scope, Secret, StdioSpec
from mcphub.status import OriginStatus, PolicyReport, PolicyRule, PolicyVerdict

from .explain import printed
from .place import origin_status


def policy_report(documents: Iterable[PolicyDocument], *, live: bool) -> PolicyReport:
    """All rules of these documents, highest rank first, and which of them count."""
    documents = tuple(documents)
    read = [read_policy(document) for document in documents]
    whole = combine(read)
    kept = (one for one, policy in zip(documents, read, strict=True) if one.former and not policy.closed)
    rules = [rule for rank, one in enumerate(read, 1) for rule in _rules(rank, one, whole)]
    return PolicyReport(
        documents=[origin_status(document.origin) for document in documents],
        rules=rules,
        closed=list(whole.closed),
        warnings=[*(f"{one.former}; its rules stay as they were" for one in kept), *whole.warnings],
        live=live,
    )


def _rules(rank: int, one: Policy, whole: Policy) -> Iterator[PolicyRule]:
    if one.managed_only is not None:
        note = "" if one.managed_only == whole.managed_only else f"{whole.managed_only} says so already"
        yield _rule(rank, MANAGED_ONLY, "true", one.managed_only, True, note)
    yield from _denied(rank, DENIED, one.denied)
    yield from _allowed(rank, ALLOWED, one.allowed, whole.allowed, whole)
    yield from _denied(rank, DENIED_TOOLS, one.denied_tools)
    yield from _allowed(rank, ALLOWED_TOOLS, one.allowed_tools, whole.allowed_tools, whole)


def _denied(rank: int, name: str, rules: Iterable[Rule | ToolRule]) -> Iterator[PolicyRule]:
    for rule in rules:
        useless = isinstance(rule, Rule) and rule.pattern is None
        yield _rule(rank, name, rule.text, rule.origin, not useless, "it matches nothing" if useless else "")


def _allowed(
    rank: int, name: str, lists: tuple[AllowList, ...] | None, counted: tuple[AllowList, ...] | None, whole: Policy
) -> Iterator[PolicyRule]:
    for one in lists or ():
        counts = any(other.origin == one.origin for other in counted or ())
        note = "" if counts else _ignored(one.origin, counted, whole)
        rules: tuple[Rule | ToolRule, ...] = (*one.rules, *one.tools)
        if not rules:
            yield _rule(rank, name, "(nothing)", one.origin, counts, note or "the list is empty: nothing is allowed")
        for rule in rules:
            useless = isinstance(rule, Rule) and rule.pattern is None
            yield _rule(
                rank, name, rule.text, rule.origin, counts and not useless, note or ("it matches nothing" * useless)
            )


def _ignored(origin: Origin, counted: tuple[AllowList, ...] | None, whole: Policy) -> str:
    if origin.scope is Scope.USER and whole.managed_only is not None:
        return f"{whole.managed_only} leaves this to the organisation"
    return f"the list of {counted[0].origin} counts in its place" if counted else "it does not count"


def _rule(rank: int, name: str, text: str, origin: Origin, in_force: bool, note: str) -> PolicyRule:
    return PolicyRule(
        rank=rank, list=name, rule=text, origin=origin_status(origin), in_force=in_force, note=note
    )


def verdict_report(about: str, verdict: Verdict, *, live: bool) -> PolicyVerdict:
    origin: OriginStatus | None = None if verdict.origin is None else origin_status(verdict.origin)
    return PolicyVerdict(
        about=about,
        allowed=verdict.allowed,
        rule=verdict.rule,
        origin=origin,
        sentence=verdict.sentence,
        live=live,
    )


def ask(
    policy: Policy,
    *,
    name: str = "",
    url: str = "",
    command: tuple[str, ...] = (),
    unwrap: Unwrap,
    executed: Executed,
) -> tuple[str, Verdict]:
    """What it is that was asked about, and what policy says of a server that a person would write so: with this
    command, or this URL, or of which nothing but the name is known. It need not be configured."""
    if command:
        leads_to = executed(StdioSpec(command[0], tuple(map(Secret, command[1:]))))
        written = tuple(command)
        return shlex.join(written), decide(
            Candidate(name, Scope.USER, "program", argv=written, written=written, executed=leads_to), policy
        )
    if url:
        behind = unwrap.url(url)
        urls = (Secret(url), *([Secret(behind)] if behind != url else []))
        return masked_url(url), decide(Candidate(name, Scope.USER, "remote", urls=urls), policy)
    verdict = decide(Candidate(name, Scope.USER, "built in"), policy)
    kinds = {rule.kind for one in policy.allowed or () for rule in one.rules} - {NameMatcher.kind, ""}
    if kinds and not policy.closed and not (verdict.rule and not verdict.allowed):
        text = f"{verdict.sentence}; but {' and '.join(sorted(kinds))} entries count for what it runs: ask about that"
        verdict = msgspec.structs.replace(verdict, sentence=text)
    return printed(name), verdict


def ask_configured(
    resolved: Resolved, policy: Policy, *, unwrap: Unwrap, executed: Executed
) -> tuple[str, Verdict]:
    """As `ask`, of a server that is configured."""
    about = f"{printed(resolved.name)} ({resolved.origin})"
    return about, configured_verdict(resolved, policy, unwrap=unwrap, executed=executed)

"""Owns the one answer to whether policy lets a server run, for every way in which it may come to be run.

It must not know how anything is started, listed or approved. The order is fixed: what is denied is denied; then the
organisation's own servers; then whether policy is known at all; then what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from mcphub.spec import Origin, Scope

from .candidate import Candidate
from .index import Index
from .matchers import MATCHERS
from .matchers.command import CommandMatcher
from .matchers.name import NameMatcher
from .matchers.url import UrlMatcher
from .rules import Policy, Verdict

#: The rules that speak of a kind of server once there is one of them; by its name alone it is then not allowed.
PROOF: Mapping[str, str] = {"program": CommandMatcher.kind, "remote": UrlMatcher.kind}
_WHAT: Mapping[str, str] = {"program": "programs", "remote": "remote servers"}
_FREE = Verdict(True, "", None, "allowed: no policy speaks of it")


def decide(candidate: Candidate, policy: Policy) -> Verdict:
    """Whether policy lets this server run, and which rule of which file says so."""
    return Judge(policy).decide(candidate)


class Judge:
    """One policy, its rules sorted, so that many servers are judged quickly."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    @cached_property
    def asks_what_runs(self) -> bool:
        """A rule is about programs, so `Candidate.executed` matters."""
        return any(index.matcher.kind == CommandMatcher.kind for index in self._denied)

    @cached_property
    def _denied(self) -> tuple[Index, ...]:
        found = (Index(matcher, self.policy.denied, deny=True) for matcher in MATCHERS)
        return tuple(index for index in found if index)

    @cached_property
    def _allowed(self) -> Mapping[str, Index]:
        """By kind, for the kinds that any entry speaks of, be it with a rule that matches nothing."""
        rules = [rule for one in self.policy.allowed or () for rule in one.rules]
        spoken = {rule.kind for rule in rules}
        return {matcher.kind: Index(matcher, rules, deny=False) for matcher in MATCHERS if matcher.kind in spoken}

    @cached_property
    def _lists(self) -> str:
        """Where the lists of what is allowed are, as a message names them."""
        return " and ".join(str(one.origin) for one in self.policy.allowed or ())

    def decide(self, candidate: Candidate) -> Verdict:
        """As `decide`."""
        policy = self.policy
        subjects: dict[str, object] = {}
        for index in self._denied:
            subject = subjects[index.matcher.kind] = index.matcher.subject(candidate)
            if subject is not None and (rule := index.first(subject)) is not None:
                text = f"denied by policy: {rule.text} in {rule.origin}; {_who(rule.origin)}"
                return Verdict(False, rule.text, rule.origin, text)
        if candidate.own and not candidate.variables:
            return Verdict(True, "", None, "allowed: the organisation's own server")
        if policy.closed and not candidate.own:
            text = f"policy cannot be read, so only the organisation's own servers may run: {policy.closed[0]}"
            return Verdict(False, "", None, text)
        if policy.allowed is None:
            return _FREE
        return self._look_for(candidate, subjects)

    def _look_for(self, candidate: Candidate, subjects: Mapping[str, object]) -> Verdict:
        lists = self.policy.allowed or ()
        for one in lists:
            if not one.rules:
                text = f"not allowed by policy: {one.origin} is empty, so nothing is; {_who(one.origin)}"
                return Verdict(False, "", one.origin, text)
        kind = PROOF.get(candidate.kind, "")
        by_name = kind not in self._allowed
        if by_name:
            kind = NameMatcher.kind
        index = self._allowed.get(kind)
        subject = index and (subjects.get(kind) or index.matcher.subject(candidate))
        if index and (rule := index.first(subject)) is not None:
            return Verdict(True, rule.text, rule.origin, f"allowed by policy: {rule.text} in {rule.origin}")
        text = f"not allowed by policy: no {kind} entry of {self._lists} matches it"
        if not by_name and NameMatcher.kind in self._allowed:
            text += f"; where a list has {kind} entries, names do not count for {_WHAT[candidate.kind]}"
        return Verdict(False, "", lists[0].origin, f"{text}; {_who(lists[0].origin)}")


def _who(origin: Origin) -> str:
    """The next step: who can change what stands there."""
    return "this is your own rule" if origin.scope is Scope.USER else "ask who manages this computer"

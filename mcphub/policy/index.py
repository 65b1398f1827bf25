"""Owns finding the first of many rules of one kind that matches a server, without trying each of them.

It must not know what rules compare: a matcher says under which keys a rule and a server can meet.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from .matchers.matcher import Matcher
from .rules import Rule


class Index:
    """The rules of one kind, in their order; those that match nothing are left out."""

    def __init__(self, matcher: Matcher, rules: Iterable[Rule], deny: bool) -> None:
        self.matcher = matcher
        self._matches = matcher.denies if deny else matcher.allows
        self._deny = deny
        self._rules = [rule for rule in rules if rule.kind == matcher.kind and rule.pattern is not None]
        self._by_key: dict[Hashable, list[int]] = {}
        self._always: list[int] = []
        for number, rule in enumerate(self._rules):
            key = matcher.key(rule.pattern, deny)
            (self._always if key is None else self._by_key.setdefault(key, [])).append(number)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def first(self, subject: Any) -> Rule | None:
        """The first rule that matches what `matcher.subject` made of a server."""
        keys = self.matcher.keys(subject, self._deny)
        numbers: Iterable[int] = range(len(self._rules))
        if keys is not None:
            numbers = self._always
            for key in keys:
                if key in self._by_key:
                    numbers = sorted({*numbers, *self._by_key[key]})
            if not numbers:
                return None
        for number in numbers:
            if self._matches(self._rules[number].pattern, subject):
                return self._rules[number]
        return None

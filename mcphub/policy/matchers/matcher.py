"""Owns what a way of naming servers consists of: reading the value of an entry, and comparing it with a server.

It must not know any of the ways.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Protocol

from mcphub.policy.candidate import Candidate


class Refused(ValueError):
    """The value means nothing. The text is the end of a sentence, with what to write instead."""


class Useless(ValueError):
    """The value is well formed and can match no server. Harmless in a list of what is allowed, in a list of what is
    denied a rule that somebody believes in."""


class Matcher(Protocol):
    """One way. `kind` is its key in an entry; what `read` and `subject` return is its own business."""

    kind: str

    def read(self, value: Any, deny: bool) -> tuple[Any, str]:
        """The pattern, and a warning or "". Raises `Refused` and `Useless`."""

    def subject(self, candidate: Candidate) -> object | None:
        """What patterns are compared with; None where this way does not speak of such servers."""

    def key(self, pattern: Any, deny: bool) -> Hashable | None:
        """A value that `keys` gives too for every subject that could match; None where there is none."""

    def keys(self, subject: Any, deny: bool) -> Iterable[Hashable] | None:
        """The keys of the patterns that could match; None = all could."""

    def allows(self, pattern: Any, subject: Any) -> bool:
        """Strict: only what is meant for certain."""

    def denies(self, pattern: Any, subject: Any) -> bool:
        """Broad: everything that could be meant."""

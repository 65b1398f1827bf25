"""Owns the ways in which an entry of a policy can name a server; one file each, and one line below.

It must not know which entries there are, nor what follows from a match. Start at matcher.py for what a way consists of.
"""

from __future__ import annotations

from .command import CommandMatcher
from .matcher import Matcher
from .name import NameMatcher
from .url import UrlMatcher

#: In the order in which rules are asked, and named where several match.
MATCHERS: tuple[Matcher, ...] = (NameMatcher(), CommandMatcher(), UrlMatcher())
BY_KIND = {matcher.kind: matcher for matcher in MATCHERS}

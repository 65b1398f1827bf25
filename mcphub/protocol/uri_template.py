"""Owns the question whether a URI may have been made from a template (RFC 6570), in time that grows with the URI only.

It must not know where templates come from: they are a stranger's text, so nothing of them becomes a regular expression.
"""

from __future__ import annotations

import msgspec

#: Templates and URIs above this many characters match nothing.
MAX_LENGTH = 2048

#: What an expansion cannot hold, by the operator of its expression; a lenient reading of RFC 6570 section 3.2, since
#: many servers write `{path}` for what has slashes encoded, and fill it by hand.
_EXCLUDED = {"+": "", "#": "", "/": "?#", "?": "#", "&": "#"}
_SIMPLE = "/?#"


class UriTemplate(msgspec.Struct, frozen=True):
    """A template made ready. Its text is a row of places, each a literal character or an expression that stands for any
    number of characters; the sets of places that a prefix of the URI can reach are integers, one bit a place."""

    literals: tuple[str, ...]
    _bits: dict[str, int]
    _stars: int
    _excluding: dict[str, int]
    #: The place behind the last one; 0 = matches nothing.
    _end: int

    def matches(self, uri: str) -> bool:
        if not self._end or len(uri) > MAX_LENGTH:
            return False
        if not uri.startswith(self.literals[0]) or not uri.endswith(self.literals[-1]):
            return False
        bits, stars, excluding = self._bits, self._stars, self._excluding
        here = 1
        here |= (here & stars) << 1
        for char in uri:
            here = ((here & bits.get(char, 0)) << 1) | (here & stars & ~excluding.get(char, 0))
            if not here:
                return False
            here |= (here & stars) << 1
        return bool(here & self._end)


def read_template(template: str) -> UriTemplate:
    """What is no expression (braces that do not pair) stands for itself. Never raises."""
    if len(template) > MAX_LENGTH:
        return UriTemplate(("",), {}, 0, {}, 0)
    literals, places = [""], list[str | None]()
    excluded: list[str] = []
    at = 0
    while at < len(template):
        end = template.find("}", at) if template[at] == "{" else -1
        if end < 0 or "{" in template[at + 1 : end]:
            literals[-1] += template[at]
            places.append(template[at])
            excluded.append("")
            at += 1
            continue
        cannot = _EXCLUDED.get(template[at + 1 : at + 2], _SIMPLE)
        if places and places[-1] is None:
            excluded[-1] = "".join(c for c in excluded[-1] if c in cannot)
        else:
            literals.append("")
            places.append(None)
            excluded.append(cannot)
        at = end + 1
    bits: dict[str, int] = {}
    excluding: dict[str, int] = {}
    stars = 0
    for number, place in enumerate(places):
        if place is None:
            stars |= 1 << number
            for char in excluded[number]:
                excluding[char] = excluding.get(char, 0) | 1 << number
        else:
            bits[place] = bits.get(place, 0) | 1 << number
    return UriTemplate(tuple(literals), bits, stars, excluding, 1 << len(places))

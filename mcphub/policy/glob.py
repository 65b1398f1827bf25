"""Owns the one wildcard of policy: `*` stands for any characters, also none; everything else stands for itself.

It must not know what is compared: who splits a URL decides how far a wildcard reaches.
"""

from __future__ import annotations


def glob(pattern: str, text: str) -> bool:
    """Whether `pattern` covers the whole of `text`. Time grows with the product of their lengths at worst."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    end = len(text) - len(last)
    at = len(first)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for part in middle:
        # The leftmost place of each part leaves most room for those behind it.
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True

"""Owns when two names are the same to a person who reads them: what is denied under one is denied under the other.

It must not know what bears the names.
"""

from __future__ import annotations

import unicodedata


def folded(name: str) -> str:
    """`name` without the differences that people do not see (Unicode UAX 15, compatibility caseless matching)."""
    if name.isascii():
        return name.strip().lower()
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKD", name).casefold())
    kept = "".join(letter for letter in text if unicodedata.category(letter) not in ("Cf", "Cc"))
    return unicodedata.normalize("NFKC", kept.casefold()).strip()


def folded_names(name: str) -> frozenset[str]:
    """What a server is denied by: its name, and of `plugin:PLUGIN:SERVER` also the last part."""
    whole = folded(name)
    return frozenset([whole, folded(name.rpartition(":")[2])] if ":" in name else [whole])

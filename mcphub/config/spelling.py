"""Owns whether a key or a name that nobody knows is a misspelt one: what stands under it would silently not count.

It must not know what the keys mean.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Other words that people write for the first word of a key.
_WORDS = {
    "allow": "allowed", "permit": "allowed", "permitted": "allowed", "allowlist": "allowed", "whitelist": "allowed",
    "deny": "denied", "block": "denied", "blocked": "denied", "disallowed": "denied", "forbidden": "denied",
    "denylist": "denied", "blacklist": "denied",
}  # fmt: skip
#: Letters by which two keys may differ, and the length from which on three may, and up to which one in three.
_MOST, _MORE, _LONG, _SHORT = 2, 3, 14, 4


def near_miss(key: str, known: Iterable[str]) -> str:
    """The one of `known` that `key` was probably meant to be, the nearest; "" where it is one of them, or like none."""
    known = tuple(known)
    if len(key) > 64 or key in known:
        return ""
    plain = _plain(key)
    forms = {plain, _reworded(plain), f"{plain[:-3]}y" if plain.endswith("ies") else plain}
    best, nearest = "", _MORE + 1
    for name in known:
        wanted = _plain(name)
        most = _MORE if len(wanted) >= _LONG else _MOST if len(wanted) > _SHORT else len(wanted) // 3
        far = min(_distance(form, wanted, most) for form in forms)
        if far <= most and far < nearest:
            best, nearest = name, far
    return best


def _plain(key: str) -> str:
    """Without case and the signs between words."""
    return "".join(filter(str.isalnum, key.casefold()))


def _reworded(plain: str) -> str:
    for word in sorted(_WORDS, key=len, reverse=True):
        if plain.startswith(word) and not plain.startswith((_WORDS[word], "allowmanaged", "allowall")):
            return _WORDS[word] + plain.removeprefix(word)
    return plain


def _distance(one: str, other: str, most: int) -> int:
    """Insertions, deletions, replacements and swaps of neighbours between two words; above `most` it may be less."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        now = [i]
        for j, b in enumerate(other, 1):
            cost = min(row[j] + 1, now[j - 1] + 1, row[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            now.append(cost)
        if min(now) > most and min(row) > most:
            return most + 1
        before, row = row, now
    return row[-1]

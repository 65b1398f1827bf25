"""Owns a person's own rules: the table `[policy]` of settings.toml, as one document of policy.

It must not read a file, nor know what a rule means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from mcphub.spec import Origin, Scope

from .jsonc import Lines, kind_of
from .names import shown_name
from .policy_document import PolicyDocument
from .policy_keys import GUARDED, TABLE, Path, in_vain, misplaced
from .spelling import near_miss
from .toml import TomlError, parse_toml

_RULES = (TABLE, *GUARDED)
_HEADER = re.compile(r"\s*(\[{1,2})\s*([A-Za-z0-9_.\s-]+?)\s*\]{1,2}\s*(?:#.*)?")
#: What may be a key in a text that cannot be read.
_WORD = re.compile(r"[A-Za-z0-9_-]+(?=[\"']?\s*[.=\]])")
_KEY = re.compile(r"\s*([A-Za-z0-9_-]+(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*=")


def read_own_policy(data: bytes, path: str, *, held: bool | None = None) -> PolicyDocument | None:
    """The rules of one file, None where it has none; one with rules, or nearly such, outside the table closes.

    A file that is no TOML closes where it may hold a rule that forbids. `held` is whether it had rules when it could be
    read; None = nobody knows, so the text decides: it may where it speaks of policy, and where it was cut off. Never
    raises."""
    if not data:
        return None
    origin = Origin(Scope.USER, path, TABLE)
    try:
        table = parse_toml(data, path)
    except TomlError as error:
        if held or _may_hold_rules(data):
            return PolicyDocument(origin, fault=f"cannot use {error}; the file may hold rules of yours")
        if held is None and _cut_off(data):
            cause = "it breaks off within a line, so what followed may have been rules of yours"
            return PolicyDocument(origin, fault=f"cannot use {error}; {cause}")
        return None
    text = data.decode("utf-8").removeprefix("\ufeff")
    wrong = tuple(_outside(table, text, path))
    if TABLE not in table:
        return PolicyDocument(origin, wrong=wrong) if wrong else None
    lines = _lines(text)
    origin = msgspec.structs.replace(origin, line=lines.number)
    raw = table[TABLE]
    if not isinstance(raw, dict):
        cause = f"expected a table, written [{TABLE}], found {kind_of(raw)}"
        return PolicyDocument(origin, fault=f"cannot use {origin}: {cause}", wrong=wrong)
    return PolicyDocument(origin, raw, lines, wrong=wrong)


def unreadable(path: str, cause: str) -> PolicyDocument:
    """The rules of a file that is there and cannot be read: nobody knows what they are."""
    return PolicyDocument(Origin(Scope.USER, path, TABLE), fault=cause)


def belongs_to_policy(key: str) -> bool:
    """Whether a key of settings is, or nearly is, one of the rules: what is to be said of it is said with them."""
    return key in _RULES or near_miss(key, _RULES) != ""


def _may_hold_rules(data: bytes) -> bool:
    if TABLE.encode() in data:
        return True
    words = dict.fromkeys(_WORD.findall(data.decode("utf-8", "replace")))
    return any(belongs_to_policy(word) for word in words)


def _cut_off(data: bytes) -> bool:
    """Whether a text that cannot be read may be the beginning of one: editors end the last line, a full disk does not.
    A block that was never written is zeros."""
    return b"\0" in data or not data.endswith((b"\n", b"\r"))


def _outside(table: dict[str, object], text: str, path: str) -> Iterator[str]:
    """What is wrong with rules, and what nearly are such, outside the table: they may forbid something."""
    for place, meant in misplaced(table, _RULES, skip=(TABLE,)):
        key = "".join(f"[{step}]" if isinstance(step, int) else f".{shown_name(step)}" for step in place)[1:]
        where = "to the top of the file" if meant == TABLE else f"below [{TABLE}]"
        cause = in_vain(str(place[-1]), meant, where)
        yield f"cannot use {Origin(Scope.USER, path, key, _line(text, place))}: {cause}"


def _line(text: str, place: Path) -> int:
    """Where a key begins, or what it stands in, as far as a look at each line tells; 0 = it does not."""
    wanted = [step for step in place if isinstance(step, str)]
    found = (_begin(text, wanted[:length]) for length in range(len(wanted), 0, -1))
    return next(filter(None, found), 0)


def _begin(text: str, wanted: list[str]) -> int:
    table: list[str] = []
    for at, line in enumerate(text.splitlines(), 1):
        found = table
        if header := _HEADER.fullmatch(line):
            found = table = [part.strip() for part in header[2].split(".")]
        elif key := _KEY.match(line):
            found = [*table, *(part.strip() for part in key[1].split("."))]
        if found[: len(wanted)] == wanted:
            return at
    return 0


def _lines(text: str) -> Lines:
    """Where the table and its keys begin, as far as a look at each line tells: only people read it."""
    number = 0
    inside: dict[str | int, Lines] = {}
    table: list[str] = []
    for at, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            table = [part.strip() for part in header[2].split(".")]
            if table[0] == TABLE:
                number = number or at
                if len(table) == 2:
                    known = inside.get(table[1], Lines(at))
                    below = {**known.inside, len(known.inside): Lines(at)} if header[1] == "[[" else known.inside
                    inside[table[1]] = Lines(known.number, below)
        elif found := _KEY.match(line):
            keys = [*table, *(part.strip() for part in found[1].split("."))]
            if keys[0] == TABLE:
                number = number or at
                if len(keys) == 2:
                    inside.setdefault(keys[1], Lines(at))
    return Lines(number, inside)

"""Owns a person's own rules: the table `[policy]` of settings.toml, as one document of policy.

It must not read a file, nor know what a rule means.
"""

from __future__ import annotations

import re

import msgspec

from mcphub.spec import Origin, Scope

from .jsonc import Lines, kind_of
from .policy_document import PolicyDocument

TABLE = "policy"
_HEADER = re.compile(r"\s*(\[{1,2})\s*([A-Za-z0-9_.\s-]+?)\s*\]{1,2}\s*(?:#.*)?")
_KEY = re.compile(r"\s*([A-Za-z0-9_-]+(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*=")


def read_own_policy(data: bytes, path: str) -> PolicyDocument | None:
    """The rules of one file, None where it has none. A file that is no TOML and speaks of policy may hold a rule that
    forbids, so it is a document that closes. Never raises."""
    if TABLE.encode() not in data:
        return None
    import tomllib  # most people have no such table

    origin = Origin(Scope.USER, path, TABLE)
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        cause = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "it is no TOML"
        return PolicyDocument(origin, fault=f"cannot use {path}, which may hold rules of yours: {cause}")
    if TABLE not in table:
        return None
    lines = _lines(text)
    origin = msgspec.structs.replace(origin, line=lines.number)
    raw = table[TABLE]
    if not isinstance(raw, dict):
        cause = f"expected a table, written [{TABLE}], found {kind_of(raw)}"
        return PolicyDocument(origin, fault=f"cannot use {origin}: {cause}")
    return PolicyDocument(origin, raw, lines)


def unreadable(path: str, cause: str) -> PolicyDocument:
    """The rules of a file that is there and cannot be read: nobody knows what they are."""
    return PolicyDocument(Origin(Scope.USER, path, TABLE), fault=cause)


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

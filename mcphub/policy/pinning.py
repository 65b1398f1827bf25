"""Owns what one tool is, as a digest, and what has become of a server's tools since they were pinned.

It must not know how pins are kept, nor who withholds what has changed. The digest covers name, title, description, both
schemas and the annotations, cleaned and whole, since people are shown more than agents; the order of keys and `_meta`
are no difference (case C172).
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mcphub.store.pins import Pin

#: The members of a definition that count, beside its name.
PARTS = ("title", "description", "inputSchema", "outputSchema", "annotations")
#: Bytes of a canonical definition above which only its digest is kept.
MAX_KEPT = 32 * 1024
#: Characters of all definitions of one server together, above which digests alone are kept of the others.
MAX_ALL_KEPT = 8 * 1024 * 1024
#: Lines of one definition above which old and new are shown whole, since finding what they share takes too long.
MAX_COMPARED = 500
#: Names of tools in one sentence.
MAX_NAMED = 5

_QUOTED = {b'"%b"' % part.encode(): part for part in PARTS}


class Grade(enum.StrEnum):
    """What has become of one tool, lightest first. A model reads all of it, so every grade needs a look."""

    HINTS = "hints"
    TEXTS = "texts"
    SCHEMA = "schema"
    RENAMED = "renamed"
    NEW = "new"


class Change(msgspec.Struct, frozen=True):
    """One tool that is not as it was pinned. `parts` are the members that differ, () where that is not known;
    `was` is the name it had."""

    tool: str
    grade: Grade
    parts: tuple[str, ...] = ()
    was: str = ""

    def __str__(self) -> str:
        match self.grade:
            case Grade.NEW:
                return "new"
            case Grade.RENAMED:
                return f"renamed from {self.was}"
            case _:
                return f"changed in {', '.join(self.parts)}" if self.parts else "changed"


def pin(name: str, members: Iterable[tuple[bytes, bytes]]) -> Pin:
    """The pin of a tool with these members, each a JSON string and its JSON value."""
    parts = {part: value for key, value in members if (part := _QUOTED.get(key)) is not None}
    canonical = _canonical(parts)
    digest = hashlib.sha256(b"%b\n%b" % (name.encode("utf-8", "surrogatepass"), canonical)).hexdigest()
    return Pin(digest, canonical.decode() if len(canonical) <= MAX_KEPT else "")


def kept(pins: Mapping[str, Pin]) -> dict[str, Pin]:
    """The pins as they may be written: definitions while there is room for them, digests in any case."""
    room, found = MAX_ALL_KEPT, {}
    for name, one in pins.items():
        room -= len(one.definition)
        found[name] = one if room >= 0 else Pin(one.digest)
    return found


def grade(pinned: Mapping[str, Pin], now: Mapping[str, Pin]) -> dict[str, Change]:
    """The tools of `now` that are not as `pinned` has them, by name. One that is gone is no change of what is there."""
    gone = {one.definition: name for name, one in pinned.items() if name not in now and one.definition}
    changes: dict[str, Change] = {}
    for name, one in now.items():
        old = pinned.get(name)
        if old is None:
            was = gone.get(one.definition, "")
            changes[name] = Change(name, Grade.RENAMED if was else Grade.NEW, (), was)
        elif old.digest != one.digest:
            parts = _differing(old, one)
            changes[name] = Change(name, _grade(parts), parts)
    return changes


def difference(old: Pin | None, new: Pin) -> tuple[str, ...]:
    """The lines that a person looks at: `+ ` is new, `- ` was there, two blanks stayed. Of a tool that was not pinned,
    all of it."""
    if old == new:
        return ()
    if not new.definition:
        return (f"+ (longer than {MAX_KEPT // 1024} KiB; `mcphub tools --schemas` shows what it is once it is listed)",)
    after = _lines(new)
    if old is None:
        return tuple("+ " + line for line in after)
    if not old.definition:
        return ("- (what it was is too long to have been kept)", *("+ " + line for line in after))
    import difflib  # few tools ever change

    before = _lines(old)
    if max(len(before), len(after)) > MAX_COMPARED:
        return (*("- " + line for line in before), *("+ " + line for line in after))
    shown = list(difflib.unified_diff(before, after, n=2, lineterm=""))[2:]
    return tuple("..." if line.startswith("@@") else f"{line[:1]} {line[1:]}" for line in shown[1:])


def set_digest(now: Mapping[str, Pin]) -> str:
    """What stands for all tools of a server at once, so that only what was shown is approved."""
    text = "\n".join(f"{one.digest} {name}" for name, one in sorted(now.items()))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def summary(changes: Iterable[Change]) -> str:
    """The tools that are not as they were, in one phrase: `2 tools changed (a, b), 1 is new (c)`."""
    kinds: dict[str, list[str]] = {"changed": [], "renamed": [], "new": []}
    for one in changes:
        kinds[one.grade if one.grade in kinds else "changed"].append(one.tool)
    said = []
    for kind, names in kinds.items():
        if names:
            named = ", ".join(sorted(names)[:MAX_NAMED]) + (", ..." if len(names) > MAX_NAMED else "")
            said.append(f"{len(names)} {kind} ({named})")
    return ", ".join(said)


def _grade(parts: tuple[str, ...]) -> Grade:
    if parts == ("annotations",):
        return Grade.HINTS
    return Grade.SCHEMA if not parts or {"inputSchema", "outputSchema"} & set(parts) else Grade.TEXTS


def _differing(old: Pin, new: Pin) -> tuple[str, ...]:
    if not old.definition or not new.definition:
        return ()
    before, after = _parts(old), _parts(new)
    return tuple(part for part in PARTS if before.get(part) != after.get(part))


def _parts(one: Pin) -> dict[str, Any]:
    """The members of a pin; {} of a text that no mcphub wrote."""
    try:
        found = msgspec.json.decode(one.definition)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _lines(one: Pin) -> list[str]:
    found = _parts(one)
    lines: list[str] = []
    for part in PARTS:
        if part not in found:
            continue
        value = found[part]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        first, *rest = text.split("\n")
        lines += [f"{part}: {first}", *("  " + line for line in rest)]
    return lines


def _canonical(parts: Mapping[str, bytes]) -> bytes:
    """The members as JSON in which only what they say is left; one that cannot be read so counts as the text it is."""
    try:
        values: dict[str, Any] = {part: msgspec.json.decode(value) for part, value in parts.items()}
        return msgspec.json.encode(values, order="sorted")
    except (msgspec.DecodeError, ValueError, RecursionError):
        texts = {part: value.decode("utf-8", "replace") for part, value in parts.items()}
        return msgspec.json.encode(texts, order="sorted")

"""Owns one tool definition on its way from a server to agents: read, cleaned, rendered for each era.

It must not know names of other servers or connections. Schemas pass untouched, as bytes, but for keywords of a wrong
type, on which a strict agent would lose the whole list, and for characters that nobody should be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from mcphub.catalog.hygiene import DEFAULT_LENGTH, clean, clean_counted, clean_schema, shorten, shorten_schema
from mcphub.protocol import own_word, tasks
from mcphub.protocol.jsonrpc import UNSET, Raw, UnsetType, quote


class _Icon(msgspec.Struct):
    src: str
    mimeType: str | UnsetType = UNSET
    sizes: list[str] | UnsetType = UNSET
    theme: Literal["light", "dark"] | UnsetType = UNSET


def _reader(kind: Any) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(kind).decode


_members: Callable[[bytes], dict[str, Raw]] = _reader(dict[str, Raw])
_string: Callable[[bytes], str] = _reader(str)
_bool: Callable[[bytes], bool] = _reader(bool)
_icons: Callable[[bytes], list[_Icon]] = _reader(list[_Icon])
_strings: Callable[[bytes], list[str]] = _reader(list[str])
_UNREADABLE = (msgspec.DecodeError, RecursionError)

#: Members that are texts, and that hold some.
_PLAIN = frozenset([b'"title"', b'"description"'])
_DEEP = frozenset([b'"annotations"', b'"inputSchema"', b'"outputSchema"'])
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
#: Definitions above this many are not listed; a server that sends more is broken or hostile.
MAX_TOOLS = 10_000
#: Warnings about one list; more of them are only counted.
MAX_WARNINGS = 50


class Definition(msgspec.Struct, frozen=True):
    """One tool. `members` are its JSON members but `name`, cleaned; `cut` those that are too long for agents, as these
    see them. `read_only`: it says so, and not destructive. `structured`: it has an outputSchema. `idempotent`: it says
    that to call it twice does no more than once. `repeatable`: one of both is believed, or its server knows by its
    `idempotency_argument` ("" = none) a call that it was sent before, so that it may be sent again."""

    name: str
    members: tuple[tuple[bytes, bytes], ...]
    title: str
    description: str
    read_only: bool = False
    structured: bool = False
    cut: Mapping[bytes, bytes] = msgspec.field(default_factory=dict)
    idempotent: bool = False
    repeatable: bool = False
    idempotency_argument: str = ""
    #: A legacy server takes calls of it as tasks only.
    task: bool = False

    @property
    def reads(self) -> bool:
        """It only reads, by the word of somebody who is believed; what its server must know again by an argument, does
        not."""
        return self.repeatable and self.read_only and not self.idempotency_argument

    def render(self, exposed: str, modern: bool) -> bytes:
        """The definition under its exposed name, in the shape of the agent's era."""
        out = [b'{"name":' + quote(exposed)]
        for key, value in self.members:
            if key == b'"outputSchema"' and not modern and not _is_object_schema(value):
                continue  # legacy results carry objects only
            out.append(key + b":" + self.cut.get(key, value))
        return b",".join(out) + b"}"


def _is_object_schema(raw: bytes) -> bool:
    return _says(_members(raw).get("type"), "object")


def _says(raw: Raw | None, text: str) -> bool:
    try:
        return raw is not None and _string(raw) == text
    except msgspec.DecodeError:
        return False


def _object(fields: dict[str, Raw]) -> bytes:
    return b"{" + b",".join([quote(k) + b":" + bytes(v) for k, v in fields.items()]) + b"}"


def read_definitions(
    tools: tuple[bytes, ...], limit: int = DEFAULT_LENGTH
) -> tuple[tuple[Definition, ...], tuple[str, ...]]:
    """The usable definitions of one list, in its order, and warnings. `limit`: characters of one text that agents see.

    A missing, null, `true` or typeless inputSchema becomes `{"type":"object"}`; another top-level type drops that
    tool; a duplicate that is identical counts once, a different one is dropped and named; a member of a wrong type is
    left out. The rest is always listed.
    """
    out: dict[str, Definition] = {}
    raws: dict[str, bytes] = {}
    warnings: list[str] = []
    if len(tools) > MAX_TOOLS:
        warnings.append(f"the server lists {len(tools)} tools; the first {MAX_TOOLS} are used")
        tools = tools[:MAX_TOOLS]
    for raw in tools:
        try:
            fields = _members(raw)
            name = _string(fields["name"])
        except (*_UNREADABLE, KeyError):
            warnings.append("a tool without a name, or that is no object, was dropped")
            continue
        shown = clean(name)[:80]
        if not shown:
            warnings.append("a tool with an empty name was dropped")
            continue
        if name in raws:
            if raws[name] != raw:
                warnings.append(f"tool {shown}: listed twice with different definitions; the first is used")
            continue
        raws[name] = raw
        definition = _Reader(name, shown, warnings, limit).read(fields)
        if definition is not None:
            out[name] = definition
    if len(warnings) > MAX_WARNINGS:
        warnings[MAX_WARNINGS:] = [f"{len(warnings) - MAX_WARNINGS} more warnings about the list of tools"]
    return tuple(out.values()), tuple(warnings)


class _Reader:
    """Reads one definition; what it cannot use it leaves out and says so."""

    def __init__(self, name: str, shown: str, warnings: list[str], limit: int) -> None:
        self.limit = limit
        self.name = name
        self.shown = shown
        self.warnings = warnings
        self.removed = 0

    def warn(self, text: str) -> None:
        self.warnings.append(f"tool {self.shown}: {text}")

    def read(self, fields: dict[str, Raw]) -> Definition | None:
        schema = self.input_schema(bytes(fields.get("inputSchema", Raw(b"null"))))
        if schema is None:
            return None
        members: list[tuple[bytes, bytes]] = []
        texts = {"title": "", "description": ""}
        read_only = idempotent = False
        for key, value in fields.items():
            if key in ("name", "execution", "inputSchema") or bytes(memoryview(value)[:4]) == b"null":
                continue  # `execution` speaks of tasks on the server's hop
            encoded = bytes(value)
            try:
                if key in texts:
                    texts[key], encoded = self.text(value)
                elif key == "annotations":
                    encoded, read_only, idempotent = self.annotations(value)
                elif key == "icons":
                    _icons(value)
                elif key == "_meta":
                    _members(value)
                    encoded = own_word.without(encoded)
                elif key == "outputSchema":
                    encoded = self.schema(self.keywords(encoded, _members(value), "outputSchema"))
            except _UNREADABLE:
                self.warn(f"its {key} is of a wrong type and left out")
                continue
            members.append((quote(key), encoded))
        members.append((b'"inputSchema"', self.schema(schema)))
        if self.removed:
            self.warn(f"{self.removed} control characters removed from its texts")
        structured = any(key == b'"outputSchema"' for key, _ in members)
        return Definition(
            self.name,
            tuple(members),
            texts["title"],
            texts["description"],
            read_only,
            structured,
            self.too_long(members),
            idempotent,
            task=self.is_task(fields),
        )

    def is_task(self, fields: dict[str, Raw]) -> bool:
        try:
            return "execution" in fields and tasks.is_required(fields["execution"])
        except _UNREADABLE:
            return False  # nothing of it is for agents

    def too_long(self, members: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
        """What agents see of the members that hold longer texts than they are shown."""
        found: dict[bytes, bytes] = {}
        count = 0
        for key, value in members:
            if len(value) <= self.limit:
                continue
            if key in _PLAIN:
                text = _string(value)
                short, cut = quote(shorten(text, self.limit)), int(len(text) > self.limit)
            elif key in _DEEP:
                short, cut = shorten_schema(value, self.limit)
            else:
                continue
            if cut:
                found[key] = short
                count += cut
        if count:
            texts = "1 of its texts is" if count == 1 else f"{count} of its texts are"
            self.warn(f"{texts} cut for agents to {self.limit} characters; whole: mcphub tools --schemas --json")
        return found

    def input_schema(self, raw: bytes) -> bytes | None:
        if raw in (b"null", b"true"):
            self.warn("inputSchema has no type, taken as an object")
            return b'{"type":"object"}'
        try:
            fields = _members(raw)
        except _UNREADABLE:
            self.warn("dropped, its inputSchema is no object schema")
            return None
        kind = fields.get("type")
        if kind is None:
            self.warn("inputSchema has no type, taken as an object")
            fields = {"type": Raw(b'"object"'), **fields}
            raw = _object(fields)
        elif not _says(kind, "object"):
            shown = clean(bytes(memoryview(kind)[:40]).decode("utf-8", "replace"))
            self.warn(f"dropped, its inputSchema has the top-level type {shown}")
            return None
        return self.keywords(raw, fields, "inputSchema")

    def keywords(self, raw: bytes, fields: dict[str, Raw], where: str) -> bytes:
        """The schema without top-level keywords that are of another type than every dialect says."""
        wrong = []
        for key, reader in (("$schema", _string), ("required", _strings), ("properties", _members)):
            try:
                if key in fields:
                    reader(fields[key])
            except _UNREADABLE:
                wrong.append(key)
        properties = _members(fields["properties"]) if "properties" in fields and "properties" not in wrong else {}
        sound = {k: v for k, v in properties.items() if bytes(memoryview(v)[:1]) in b"{tf"}
        if not wrong and len(sound) == len(properties):
            return raw
        if any(bytes(fields[key]) != b"null" for key in wrong) or len(sound) < len(properties):
            self.warn(f"its {where} has keywords of a wrong type, which are left out")
        if properties:
            fields = {**fields, "properties": Raw(_object(sound))}
        return _object({k: v for k, v in fields.items() if k not in wrong})

    def annotations(self, raw: Raw) -> tuple[bytes, bool, bool]:
        """(JSON, whether it says that it only reads and does not say that it destroys, whether that it is
        idempotent)."""
        kept: dict[str, Raw] = {}
        hints: dict[str, bool] = {}
        changed = False
        for key, value in _members(raw).items():
            try:
                if key in _HINTS:
                    hints[key] = _bool(value)
                elif key == "title":
                    before, (_, encoded) = self.removed, self.text(value)
                    changed = changed or self.removed != before
                    value = Raw(encoded)
            except msgspec.DecodeError:
                changed = True
                continue
            kept[key] = value
        encoded = _object(kept) if changed else bytes(raw)
        reads = hints.get("readOnlyHint", False)
        read_only = reads and not hints.get("destructiveHint", False)
        # Of a tool that says both that it only reads and that it destroys nothing is believed.
        return encoded, read_only, hints.get("idempotentHint", False) and (read_only or not reads)

    def text(self, raw: Raw) -> tuple[str, bytes]:
        """A string without unclean characters, and as JSON. Raises DecodeError."""
        text, n = clean_counted(_string(raw))
        self.removed += n
        return text, quote(text) if n else bytes(raw)

    def schema(self, raw: bytes) -> bytes:
        """A schema whose own titles and descriptions are clean: models read those as well."""
        cleaned, n = clean_schema(raw)
        self.removed += n
        return cleaned

"""Owns one tool definition on its way from a server to agents: read, cleaned, rendered for each era.

It must not know names of other servers or connections. Schemas pass untouched, as bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from mcphub.protocol.jsonrpc import Raw, quote

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str).decode
_flags = msgspec.json.Decoder(dict[str, object]).decode
_type = msgspec.json.Decoder(dict[str, Raw]).decode

# ESC, C0 (but tab and newline), DEL, C1, and Unicode tag characters: nothing a person or model should be shown.
_UNCLEAN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\U000e0000-\U000e007f]")
#: Definitions above this many are not listed; a server that sends more is broken or hostile.
MAX_TOOLS = 10_000


@dataclass(frozen=True, slots=True)
class Definition:
    """One tool. `members` are its JSON members but `name`, cleaned. `read_only`: it says so, and not destructive."""

    name: str
    members: tuple[tuple[bytes, bytes], ...]
    title: str
    description: str
    read_only: bool = False

    def render(self, exposed: str, modern: bool) -> bytes:
        """The definition under its exposed name, in the shape of the agent's era."""
        out = [b'{"name":' + quote(exposed)]
        for key, value in self.members:
            if key == b'"outputSchema"' and not modern and not _is_object_schema(value):
                continue  # legacy results carry objects only
            out.append(key + b":" + value)
        return b",".join(out) + b"}"


def _is_object_schema(raw: bytes) -> bool:
    try:
        kind = _type(raw).get("type")
    except (msgspec.DecodeError, RecursionError):
        return False
    return kind is not None and bytes(kind) == b'"object"'


def _cleaned(raw: Raw) -> tuple[str, bytes, int]:
    """A string member without unclean characters: (text, JSON, how many were removed). Raises DecodeError."""
    text = _string(raw)
    clean, n = _UNCLEAN.subn("", text)
    return clean, quote(clean) if n else bytes(raw), n


def read_definitions(tools: tuple[bytes, ...]) -> tuple[tuple[Definition, ...], tuple[str, ...]]:
    """The usable definitions of one list, in its order, and warnings.

    A missing, null, `true` or typeless inputSchema becomes `{"type":"object"}`; another top-level type drops that
    tool; a duplicate that is identical counts once, a different one is dropped and named. The rest is always listed.
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
        except (msgspec.DecodeError, KeyError, RecursionError):
            warnings.append("a tool without a name, or that is no object, was dropped")
            continue
        shown = _UNCLEAN.sub("", name)[:80]
        if not shown:
            warnings.append("a tool with an empty name was dropped")
            continue
        if name in raws:
            if raws[name] != raw:
                warnings.append(f"tool {shown}: listed twice with different definitions; the first is used")
            continue
        raws[name] = raw
        definition = _read(name, shown, fields, warnings)
        if definition is not None:
            out[name] = definition
    return tuple(out.values()), tuple(warnings)


def _read(name: str, shown: str, fields: dict[str, Raw], warnings: list[str]) -> Definition | None:
    schema = bytes(fields.get("inputSchema", Raw(b"null")))
    if schema in (b"null", b"true"):
        kind: bytes | None = None
    else:
        try:
            found = _type(schema).get("type")
            kind = None if found is None else bytes(found)
        except (msgspec.DecodeError, RecursionError):
            warnings.append(f"tool {shown}: dropped, its inputSchema is no object schema")
            return None
    if kind is None:
        warnings.append(f"tool {shown}: inputSchema has no type, taken as an object")
        body = b"" if schema in (b"null", b"true") else schema.strip()[1:-1].strip()
        schema = b'{"type":"object"' + (b"," + body if body else b"") + b"}"
    elif kind != b'"object"':
        found_type = kind.decode("utf-8", "replace")[:40]
        warnings.append(f"tool {shown}: dropped, its inputSchema has the top-level type {found_type}")
        return None
    members: list[tuple[bytes, bytes]] = []
    texts = {"title": "", "description": ""}
    removed = 0
    read_only = False
    for key, value in fields.items():
        if key in ("name", "execution"):
            continue  # `execution` speaks of tasks on the server's hop
        encoded = bytes(value)
        if key == "inputSchema":
            continue
        if key in texts:
            try:
                texts[key], encoded, n = _cleaned(value)
                removed += n
            except msgspec.DecodeError:
                continue  # null or of another type
        elif key == "annotations":
            try:
                hints = _flags(value)
                read_only = hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True
            except (msgspec.DecodeError, RecursionError):
                continue
        elif encoded == b"null":
            continue
        members.append((quote(key), encoded))
    members.append((b'"inputSchema"', schema))
    if removed:
        warnings.append(f"tool {shown}: {removed} control characters removed from its texts")
    return Definition(name, tuple(members), texts["title"], texts["description"], read_only)

"""Owns what results and lists are to agents of older versions, which lack kinds of content and members.

It must not know agents or servers. Sources: the changelogs of MCP 2025-03-26 (audio, annotations of tools) and
2025-06-18 (structured results, resource links, titles).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

import msgspec

from mcphub.channel import Data
from mcphub.protocol.jsonrpc import Raw, quote

_OLDEST = "2024-11-05"
#: Versions that lack something of what is handled here.
VERSIONS = frozenset({"2025-03-26", _OLDEST})
#: Pages of lists that are remembered in their older form.
MAX_PAGES = 32
#: Characters of a name or media type in a text.
MAX_NAME = 200

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_items = msgspec.json.Decoder(list[Raw]).decode
_string = msgspec.json.Decoder(str).decode
_decode = msgspec.json.Decoder().decode
_UNREADABLE = (msgspec.DecodeError, RecursionError, KeyError)
_concerned = re.compile(rb'"(?:structuredContent|resource_link|audio)"').search


def result_for(version: str, method: str, result: Data) -> Data:
    """A result as an agent of one of VERSIONS gets it; the same object where nothing is concerned. What is not as the
    spec has it stays."""
    if _concerned(result) is None:
        return result
    try:
        fields = _members(result)
        if method == "tools/call":
            _tool_result(version, fields)
        elif method == "prompts/get":
            messages = _items(fields["messages"])
            fields["messages"] = _array([_message(version, one) for one in messages])
    except _UNREADABLE:
        return result
    return _object(fields)


def _tool_result(version: str, fields: dict[str, Raw]) -> None:
    structured = fields.pop("structuredContent", None)
    if structured is not None:
        fields["content"] = with_text(fields.get("content"), structured)
    if "content" in fields:
        fields["content"] = _array([_block(version, one) for one in _items(fields["content"])])


def _message(version: str, raw: Raw) -> Raw:
    try:
        fields = _members(raw)
        fields["content"] = _block(version, fields["content"])
    except _UNREADABLE:
        return raw
    return Raw(_object(fields))


def _block(version: str, raw: Raw) -> Raw:
    try:
        fields = _members(raw)
        kind = _string(fields["type"])
        if kind == "resource_link":
            uri = _string(fields["uri"])
            name = _string(fields["name"])[:MAX_NAME] if "name" in fields else "resource"
            return _text(f"{name}: {uri}")
        if kind == "audio" and version == _OLDEST:
            return _text(f"[audio, {_string(fields['mimeType'])[:MAX_NAME]}: left out, this protocol version has none]")
    except _UNREADABLE:
        pass
    return raw


def _text(text: str) -> Raw:
    return Raw(b'{"type":"text","text":%b}' % quote(text))


def with_text(content: Raw | None, structured: Raw) -> Raw:
    """The content of a tool's result with what was structured as JSON in a text block, where none has it already."""
    try:
        blocks: list[Raw] | None = _items(content) if content is not None else []
    except _UNREADABLE:
        blocks = None
    if content is not None and (blocks is None or any(_says(block, structured) for block in blocks)):
        return content
    return _array([*(blocks or ()), _text(bytes(structured).decode("utf-8", "replace"))])


def _says(block: Raw, structured: Raw) -> bool:
    try:
        fields = _members(block)
        return _string(fields["type"]) == "text" and bool(_decode(_string(fields["text"])) == _decode(structured))
    except _UNREADABLE:
        return False


@functools.lru_cache(maxsize=MAX_PAGES)
def items_for(version: str, member: str, items: bytes) -> bytes:
    """The items of a page of a list, joined by commas, as agents of one of VERSIONS get them."""
    lacks = ["title", "outputSchema"]
    if version == _OLDEST and member == "tools":
        lacks.append("annotations")
    return b",".join([_without(lacks, one) for one in _items(b"[" + items + b"]")])


def _without(lacks: list[str], item: Raw) -> bytes:
    return _object({key: value for key, value in _members(item).items() if key not in lacks})


def _array(items: list[Raw]) -> Raw:
    return Raw(b"[" + b",".join([bytes(one) for one in items]) + b"]")


def _object(fields: Mapping[str, Raw]) -> bytes:
    return b"{" + b",".join([quote(key) + b":" + bytes(value) for key, value in fields.items()]) + b"}"

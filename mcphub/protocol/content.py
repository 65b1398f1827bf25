"""Owns what carries URIs: the exposed form of a server's URI, and every place in a message where one stands.

It must not know which servers exist. The exposed form is a pure prefix, so that it is reversible and works for RFC 6570
templates without touching their expressions; free text is never changed (bridging rules, names and URIs).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from mcphub.channel import Data
from mcphub.protocol.jsonrpc import Raw, quote

SCHEME = "mcphub://"
#: Hosts test the scheme of these (MCP apps extension), so it stays in front.
UI = "ui://"
#: Where the server's own URI stays readable, for a client that can fetch an https:// resource itself.
ORIGINAL_KEY = "dev.mcphub/uri"

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_items = msgspec.json.Decoder(list[Raw]).decode
_string = msgspec.json.Decoder(str).decode
#: Whether some bytes of JSON may hold a member that is a URI.
holds_uri = re.compile(rb'"uri"').search

Rename = Callable[[str], str]


def expose(server: str, uri: str) -> str:
    """The URI, or URI template, that agents see for one of this server's."""
    if uri.startswith(UI):
        return f"{UI}{server}/{uri[len(UI) :]}"
    return f"{SCHEME}{server}/{uri}"


def conceal(exposed: str) -> tuple[str, str] | None:
    """(server, its own URI) of an exposed URI; None for any other URI. Of `ui://` URIs only a table can tell."""
    for prefix, back in ((SCHEME, ""), (UI, UI)):
        if exposed.startswith(prefix):
            server, slash, uri = exposed[len(prefix) :].partition("/")
            return (server, back + uri) if server and slash else None
    return None


def edit_result(method: str, result: Data, rename: Rename) -> Data:
    """A result with the URIs of its content renamed; the same object where it holds none.

    `method` is the request's: tools/call, prompts/get, resources/read. Members that are not as the spec has them stay.
    """
    if holds_uri(result) is None:
        return result
    key, edit = _PLACES.get(method, ("", _edit_uri))
    try:
        fields = _members(result)
        items = _items(fields[key])
    except (msgspec.DecodeError, KeyError, RecursionError):
        return result
    fields[key] = Raw(msgspec.json.encode([_edited(item, edit, rename) for item in items]))
    return msgspec.json.encode(fields)


def _edited(item: Raw, edit: Callable[[Raw, Rename], Raw], rename: Rename) -> Raw:
    """One item that is not as the spec has it costs itself only, not the others."""
    try:
        return edit(item, rename)
    except (msgspec.DecodeError, RecursionError):
        return item


def _edit_uri(item: Raw, rename: Rename) -> Raw:
    fields = _members(item)
    if "uri" not in fields:
        return item
    fields["uri"] = Raw(quote(rename(_string(fields["uri"]))))
    return Raw(msgspec.json.encode(fields))


def _edit_block(item: Raw, rename: Rename) -> Raw:
    """One content block: a resource link, an embedded resource, or anything else, which stays."""
    if holds_uri(item) is None:
        return item
    fields = _members(item)
    kind = _string(fields["type"]) if "type" in fields else ""
    if kind == "resource_link":
        return _edit_uri(item, rename)
    if kind == "resource" and "resource" in fields:
        fields["resource"] = _edit_uri(fields["resource"], rename)
        return Raw(msgspec.json.encode(fields))
    return item


def _edit_message(item: Raw, rename: Rename) -> Raw:
    if holds_uri(item) is None:
        return item
    fields = _members(item)
    content = fields.get("content")
    if content is not None:
        if bytes(content)[:1] == b"[":
            blocks = [_edited(block, _edit_block, rename) for block in _items(content)]
            fields["content"] = Raw(msgspec.json.encode(blocks))
        else:
            fields["content"] = _edit_block(content, rename)
    return Raw(msgspec.json.encode(fields))


#: By method, the member of its result that holds what may carry URIs.
_PLACES: dict[str, tuple[str, Callable[[Raw, Rename], Raw]]] = {
    "tools/call": ("content", _edit_block),
    "resources/read": ("contents", _edit_uri),
    "prompts/get": ("messages", _edit_message),
}


def edit_params(params: Raw, key: str, rename: Rename) -> bytes | None:
    """Params with the URI at `key` renamed; None where it is missing or no string."""
    try:
        fields = _members(params)
        fields[key] = Raw(quote(rename(_string(fields[key]))))
    except (msgspec.DecodeError, KeyError, RecursionError):
        return None
    return msgspec.json.encode(fields)

"""Owns what of a modern message stands in HTTP headers too: the names, the values' encoding, the table of each tool.

It must not send anything or know a connection. Source: MCP spec 2026-07-28, basic/transports/streamable-http (standard
and custom headers), SEP-2243. Schemas keep their annotations on the way to agents: they are bytes that nobody edits.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from mcphub.protocol import jsonrpc
from mcphub.protocol.envelope import VERSION_KEY
from mcphub.protocol.jsonrpc import EMPTY, UNSET, Envelope, Raw, UnsetType

ANNOTATION = "x-mcp-header"
HEADER_MISMATCH = -32020
PREFIX = b"Mcp-Param-"
#: Which member of `params` stands in Mcp-Name.
NAMED: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
#: Steps down from the root of `arguments`.
Path = tuple[str, ...]
#: The header of each annotated argument of one tool, by its path.
Table = Mapping[Path, bytes]
Header = tuple[bytes, bytes]

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PLAIN = re.compile(r"[\x20-\x7e]*")
_SENTINEL = re.compile(r"=\?base64\?.*\?=", re.DOTALL)
_ALLOWED = ("string", "integer", "boolean")
_MENTIONS = b'"' + ANNOTATION.encode() + b'"'
# A key may be written with escapes; only these can make the characters of this one.
_ESCAPED = re.compile(rb"\\u00[267]").search

# Keywords of JSON Schema whose values are schemas, by shape. `properties` is the only one that an annotation may stand
# below; data (`default`, `enum`, `const`, `examples`) is never looked into, and no reference is followed.
_ONE = frozenset(
    [
        "items", "additionalItems", "contains", "unevaluatedItems", "additionalProperties", "propertyNames",
        "unevaluatedProperties", "not", "if", "then", "else", "contentSchema",
    ]
)
_LIST = frozenset(["allOf", "anyOf", "oneOf", "prefixItems", "items"])
_MAP = frozenset(["patternProperties", "dependentSchemas", "$defs", "definitions"])


class _Meta(msgspec.Struct, gc=False):
    version: str | UnsetType = msgspec.field(default=UNSET, name=VERSION_KEY)


class _Params(msgspec.Struct, gc=False):
    name: str | UnsetType = UNSET
    uri: str | UnsetType = UNSET
    task_id: str | UnsetType = msgspec.field(default=UNSET, name="taskId")
    request_id: int | str | UnsetType = msgspec.field(default=UNSET, name="requestId")
    arguments: Raw = EMPTY
    meta: _Meta | UnsetType = msgspec.field(default=UNSET, name="_meta")


class _MetaOnly(msgspec.Struct, gc=False):
    meta: _Meta | UnsetType = msgspec.field(default=UNSET, name="_meta")


class _Agreed(msgspec.Struct, gc=False):
    version: str = msgspec.field(name="protocolVersion")


class _Initialized(msgspec.Struct, gc=False):
    result: _Agreed


_initialized = msgspec.json.Decoder(_Initialized).decode
_params = msgspec.json.Decoder(_Params).decode
_meta_only = msgspec.json.Decoder(_MetaOnly).decode
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_scalar = msgspec.json.Decoder(bool | int | str | None).decode
_object = msgspec.json.Decoder(dict[str, Any]).decode
_NO_PARAMS = _Params()


class Told:
    """What the headers of one message need of it. `version` "" = a message of the legacy era."""

    __slots__ = ("arguments", "cancels", "name", "tool", "version")

    def __init__(self, env: Envelope) -> None:
        params = _read(env.params)
        method = env.method or ""
        self.version = params.meta.version or "" if isinstance(params.meta, _Meta) else ""
        found = {"name": params.name, "uri": params.uri, "taskId": params.task_id}.get(NAMED.get(method, ""))
        #: What stands in Mcp-Name, None = no such header.
        self.name = found if isinstance(found, str) else None
        self.tool = self.name if method == "tools/call" else None
        self.arguments = params.arguments
        #: The request that a `notifications/cancelled` is about.
        self.cancels = params.request_id if method == "notifications/cancelled" else UNSET


def agreed_version(response: bytes) -> bytes:
    """The version that an answer to `initialize` names, for MCP-Protocol-Version; b"" where it names none."""
    try:
        return encode(_initialized(response).result.version)
    except (msgspec.DecodeError, RecursionError):
        return b""


def says_mismatch(response: bytes) -> bool:
    """Whether a response is the error -32020: the headers are not what the server expects."""
    if b"-32020" not in response:
        return False
    try:
        return jsonrpc.read_error(jsonrpc.decode(response).error).code == HEADER_MISMATCH
    except jsonrpc.NotAMessage:
        return False


def _read(raw: Raw) -> _Params:
    if not raw:
        return _NO_PARAMS
    try:
        return _params(raw)
    except (msgspec.DecodeError, RecursionError):
        pass  # whoever checks the params answers for them
    try:
        return _Params(meta=_meta_only(raw).meta)
    except (msgspec.DecodeError, RecursionError):
        return _NO_PARAMS


def encode(value: str) -> bytes:
    """A value as a header can carry it: as it is, or as `=?base64?...?=` of its UTF-8 where it holds what is not
    printable ASCII, has blanks around it, or looks like such a form itself."""
    if _PLAIN.fullmatch(value) and value == value.strip(" ") and not _SENTINEL.fullmatch(value):
        return value.encode("ascii")
    return b"=?base64?" + base64.b64encode(value.encode("utf-8", "replace")) + b"?="


def standard(method: str, told: Told) -> list[Header]:
    """The headers that every modern request of this method carries."""
    out = [(b"MCP-Protocol-Version", encode(told.version)), (b"Mcp-Method", encode(method))]
    if told.name is not None:
        out.append((b"Mcp-Name", encode(told.name)))
    return out


def custom(table: Table, arguments: Raw) -> list[Header]:
    """The Mcp-Param headers of one call. An argument that is absent, null or no scalar has none."""
    out: list[Header] = []
    levels: dict[Path, Mapping[str, Raw]] = {(): _level(arguments)}
    for path, header in table.items():
        parent = path[:-1]
        for depth in range(len(parent)):
            step = parent[: depth + 1]
            if step not in levels:
                levels[step] = _level(levels[step[:-1]].get(step[-1], EMPTY))
        raw = levels[parent].get(path[-1])
        if raw is None:
            continue
        value = _text(raw)
        if value is not None:
            out.append((header, encode(value)))
    return out


def _level(raw: Raw) -> Mapping[str, Raw]:
    try:
        return _members(raw) if raw else {}
    except (msgspec.DecodeError, RecursionError):
        return {}


def _text(raw: Raw) -> str | None:
    try:
        value = _scalar(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        return str(value)
    except ValueError:  # more digits than Python converts
        return None


class BadAnnotation(ValueError):
    """A tool that an HTTP client must not offer, and why."""


def tables(tools: Sequence[bytes]) -> tuple[tuple[bytes, ...], dict[str, Table], tuple[str, ...]]:
    """(the tools that may be offered, the tables of those that have one by tool name, a warning for each dropped)."""
    kept: list[bytes] = []
    found: dict[str, Table] = {}
    warnings: list[str] = []
    for raw in tools:
        if _MENTIONS not in raw and _ESCAPED(raw) is None:
            kept.append(raw)
            continue
        try:
            tool = _object(raw)
        except (msgspec.DecodeError, RecursionError):
            kept.append(raw)  # the catalog says what is wrong with it
            continue
        name = tool.get("name")
        try:
            table = table_of(tool.get("inputSchema"))
        except BadAnnotation as e:
            shown = ascii(name)[1:-1][:80] if isinstance(name, str) else "without a name"
            warnings.append(f"tool {shown}: dropped, its {ANNOTATION} is not valid: {e}")
            continue
        kept.append(raw)
        if table and isinstance(name, str):
            found.setdefault(name, table)
    return tuple(kept), found, tuple(warnings)


def table_of(schema: Any) -> Table:
    """The table of one inputSchema. Raises BadAnnotation.

    An annotation is a token of RFC 9110, unique in the schema whatever its case, on a property of type string, integer
    or boolean that is reached from the root by `properties` alone.
    """
    table: dict[Path, bytes] = {}
    seen: dict[str, str] = {}
    for path, position in _positions(schema):
        if ANNOTATION not in position:
            continue
        if not path:
            raise BadAnnotation("it stands where no argument is")
        where = ascii(".".join(path))[1:-1][:80]
        header = position[ANNOTATION]
        if not isinstance(header, str) or not _TOKEN.fullmatch(header):
            raise BadAnnotation(f"the header name of {where} is no token")
        if position.get("type") not in _ALLOWED:
            raise BadAnnotation(f"{where} is no string, integer or boolean")
        if header.lower() in seen:
            raise BadAnnotation(f"{where} and {seen[header.lower()]} have the same header {header[:80]}")
        seen[header.lower()] = where
        table[path] = PREFIX + header.encode("ascii")
    return table


def _positions(root: Any) -> Iterator[tuple[Path | None, dict[str, Any]]]:
    """Every schema inside a schema, with its path of `properties`; None off that path. Ends on any JSON value."""
    stack: list[tuple[Path | None, Any]] = [((), root)]
    while stack:
        path, node = stack.pop()
        if not isinstance(node, dict):
            continue
        yield path, node
        for key, value in node.items():
            if key == "properties" and isinstance(value, dict):
                stack += [((*path, name) if path is not None else None, below) for name, below in value.items()]
            elif key in _LIST and isinstance(value, list):
                stack += [(None, below) for below in value]
            elif key in _ONE:
                stack.append((None, value))
            elif key in _MAP and isinstance(value, dict):
                stack += [(None, below) for below in value.values()]

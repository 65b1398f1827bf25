"""Owns what can be said of an agent's HTTP request by looking at it: may it come in, where does it go, which era is it.

It must not answer, and must not know sessions. Sources: MCP spec 2026-07-28, basic/transports/streamable-http (headers,
status); 2025-11-25, basic/transports (sessions); RFC 9110 (Accept, Host).
"""

from __future__ import annotations

import base64
import binascii
import functools
import hmac
import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from mcphub.protocol import jsonrpc
from mcphub.protocol.envelope import CAPABILITIES_KEY, VERSION_KEY, InvalidMeta, UnsupportedVersion, read_request_meta
from mcphub.protocol.jsonrpc import EMPTY, UNSET, NotAMessage, Raw
from mcphub.protocol.mirrored import NAMED, BadAnnotation, Table, custom, table_of
from mcphub.protocol.versions import MODERN

VERSION_HEADER = "mcp-protocol-version"
SESSION_HEADER = "mcp-session-id"
EVENT_HEADER = "last-event-id"
METHOD_HEADER = "mcp-method"
NAME_HEADER = "mcp-name"
METHODS = "POST, GET, DELETE"
JSON = "application/json"
EVENTS = "text/event-stream"
#: Characters of a header or name that an error text repeats.
SHOWN = 100

_LOOPBACK = r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?"
_HOST = re.compile(_LOOPBACK, re.IGNORECASE).fullmatch
_ORIGIN = re.compile("https?://" + _LOOPBACK, re.IGNORECASE).fullmatch
_TOKEN = re.compile(r"/t/([^/]*)(.*)", re.DOTALL).fullmatch
_PATH = re.compile(r"/mcp(?:/w/(?P<workspace>[^/]+))?(?:/s/(?P<server>[^/]+))?/?").fullmatch
_VALUE = re.compile(r"[\t\x20-\x7e]*").fullmatch
_SENTINEL = re.compile(r"=\?base64\?(.*)\?=").fullmatch

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str).decode


class Refused(msgspec.Struct, frozen=True):
    """An answer that needs no look at the body."""

    status: int
    message: str
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)


class Head(msgspec.Struct, frozen=True):
    """A request that may come in. `workspace` is an id, `server` a name, "" = none; header names are in lower case,
    and `twice` has those that came more than once."""

    method: str
    workspace: str
    server: str
    headers: Mapping[str, str]
    twice: frozenset[str]

    @property
    def path(self) -> str:
        """The path without a token: what tells one endpoint from another."""
        return endpoint_path(self.workspace, self.server)


def endpoint_path(workspace: str, server: str) -> str:
    """The path of the endpoint of a workspace (its id) and server (its name), "" = none."""
    return "/mcp" + (f"/w/{workspace}" if workspace else "") + (f"/s/{server}" if server else "")


def read_head(
    method: str, path: str, raw_headers: Iterable[tuple[bytes, bytes]], token: str | None
) -> Head | Refused:
    """What the head of a request asks for. `token` is what it must bring, in a header or the path; None = the kernel
    has said who it is, and neither token nor Host matters."""
    headers: dict[str, str] = {}
    twice = set()
    for raw_name, raw_value in raw_headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1").strip(" \t")
        if name in headers:
            twice.add(name)
            value = f"{headers[name]}, {value}"
        headers[name] = value
    if "origin" in headers and not _ORIGIN(headers["origin"]):
        text = "cannot answer a page of another origin: only localhost, 127.0.0.1 and [::1] may ask"
        return Refused(403, text, {"connection": "close"})
    if token is not None and not _HOST(headers.get("host", "")):
        text = "cannot answer for this Host: only localhost, 127.0.0.1 and [::1] are served here"
        return Refused(403, text, {"connection": "close"})
    prefixed = _TOKEN(path)
    where = _PATH(prefixed[2] if prefixed else path)
    if token is not None and not _brings(token, prefixed[1] if prefixed else None, headers.get("authorization", "")):
        text = "cannot answer without the token: use the URL that `mcphub connect --print-url` prints"
        # Whoever is not let in keeps no connection either.
        return Refused(401, text, {"www-authenticate": 'Bearer realm="mcphub"', "connection": "close"})
    if where is None:
        text = "there is no such path: agents are served at /mcp, /mcp/w/WORKSPACE, and /s/SERVER below either"
        return Refused(404, text)
    if method not in ("POST", "GET", "DELETE"):
        return Refused(405, f"cannot answer {method[:SHOWN]}: the endpoint takes {METHODS}", {"allow": METHODS})
    if method != "POST" and SESSION_HEADER not in headers:
        text = f"cannot answer {method} without a session: it begins with a POST of `initialize` (up to 2025-11-25)"
        return Refused(405, text, {"allow": "POST"})
    wanted = {"POST": (JSON, EVENTS), "GET": (EVENTS,), "DELETE": ()}[method]
    if not all(accepts(headers.get("accept"), one) for one in wanted):
        return Refused(406, f"cannot answer in another form: the Accept header must allow {' and '.join(wanted)}")
    kind = headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if method == "POST" and kind != JSON:
        return Refused(415, f"cannot read a body of type {kind[:SHOWN]}: Content-Type must be {JSON}")
    return Head(method, where["workspace"] or "", where["server"] or "", headers, frozenset(twice))


def _brings(token: str, in_path: str | None, authorization: str) -> bool:
    scheme, _, credentials = authorization.partition(" ")
    offered = [in_path] if in_path is not None else []
    if scheme.lower() == "bearer":
        offered.append(credentials.strip())
    expected = token.encode()
    return any(hmac.compare_digest(one.encode("utf-8", "replace"), expected) for one in offered)


def accepts(header: str | None, wanted: str) -> bool:
    """Whether an Accept header allows this media type; one that is missing allows all."""
    if header is None:
        return True
    family = wanted.partition("/")[0]
    for one in header.split(","):
        kind, *parameters = [part.strip().lower() for part in one.split(";")]
        refused = any(re.fullmatch(r"q=0(\.0*)?", parameter) for parameter in parameters)
        if kind in (wanted, f"{family}/*", "*/*") and not refused:
            return True
    return False


Kind = Literal["request", "notification", "response", "batch", "unreadable"]


class Message(msgspec.Struct, frozen=True):
    """A body. `mid` is its id as JSON, b"null" = none; `modern`: it says that it is of that era.

    `refusal` is an error (code, text) that comes before anything else is looked at, None = nothing is wrong. Of a
    modern tool call `tool` is its name and `arguments` a view into the body.
    """

    kind: Kind
    mid: bytes = b"null"
    method: str = ""
    modern: bool = False
    refusal: tuple[int, str] | None = None
    tool: str = ""
    arguments: Raw | None = None


HEADER_MISMATCH = -32020


def read_message(body: bytes, head: Head) -> Message:
    """What a POST's body is, with the checks of its era that need no session."""
    says_modern = head.headers.get(VERSION_HEADER) in MODERN
    try:
        env = jsonrpc.decode(body)
    except NotAMessage as e:
        if e.kind == "batch":
            return Message("batch", modern=says_modern)
        if e.kind == "envelope":
            return Message("unreadable", refusal=(jsonrpc.INVALID_REQUEST, f"not a JSON-RPC message: {e}"))
        return Message("unreadable", refusal=(jsonrpc.PARSE_ERROR, f"cannot parse the message: {e}"))
    if env.method is None:
        return Message("response", modern=says_modern)
    try:
        params = _members(env.params) if env.params else {}
        raw_meta = params.get("_meta", EMPTY)
        meta = _members(raw_meta) if raw_meta else {}
    except (msgspec.DecodeError, RecursionError):
        params, raw_meta, meta = {}, EMPTY, {}
    stateless = VERSION_KEY in meta or CAPABILITIES_KEY in meta
    if env.method == "initialize" and not stateless:
        says_modern = False  # the handshake decides the version, whatever a header says before it
    modern = stateless or says_modern
    if env.id is UNSET:
        return Message("notification", method=env.method, modern=modern)
    mid = jsonrpc.encode_id(env.id)
    if not modern:
        return Message("request", mid, env.method)
    refusal = _modern_refusal(env.method, params, raw_meta, head)
    tool = _text(params.get("name", EMPTY)) if env.method == "tools/call" else ""
    return Message("request", mid, env.method, True, refusal, tool, params.get("arguments", EMPTY))


def _modern_refusal(method: str, params: Mapping[str, Raw], raw_meta: Raw, head: Head) -> tuple[int, str] | None:
    """What is wrong with a modern request: its required `_meta`, then headers that differ from the body."""
    try:
        version = read_request_meta(bytes(raw_meta) or b"{}").version
    except InvalidMeta as e:
        return jsonrpc.INVALID_PARAMS, str(e)
    except UnsupportedVersion as e:
        version = e.requested  # refused later, once it is sure that the headers ask for the same
    if not version:
        return jsonrpc.INVALID_PARAMS, f"`_meta` lacks the required keys {VERSION_KEY} and {CAPABILITIES_KEY}"
    found = (
        _differs(head, VERSION_HEADER, "MCP-Protocol-Version", version)
        or _differs(head, METHOD_HEADER, "Mcp-Method", method)
        or _name_differs(head, params.get(NAMED.get(method, ""), EMPTY))
    )
    if found:
        return HEADER_MISMATCH, f"Header mismatch: {found}"
    if method == "initialize":
        return jsonrpc.METHOD_NOT_FOUND, "Method not found: initialize (2026-07-28 has no handshake)"
    return None


def _differs(head: Head, name: str, shown: str, value: str) -> str:
    if name in head.twice:
        return f"the {shown} header came more than once"
    found = head.headers.get(name)
    if found is None:
        return f"the {shown} header is missing"
    if found != value:
        return f"the {shown} header value {found[:SHOWN]!r} does not match the body's {value[:SHOWN]!r}"
    return ""


def _text(raw: Raw) -> str:
    """A string of the body; "" where there is none: what is wrong with it is said by who reads it."""
    try:
        return _string(raw)
    except msgspec.DecodeError:
        return ""


def _name_differs(head: Head, raw: Raw) -> str:
    value = _text(raw)
    return _wrapped_differs(head, NAME_HEADER, "Mcp-Name", value) if value else ""


def _wrapped_differs(head: Head, name: str, shown: str, value: str) -> str:
    """As `_differs`, of a header whose value may be wrapped."""
    found = head.headers.get(name)
    if found is None or name in head.twice:
        return _differs(head, name, shown, value)
    decoded = unwrapped(found)
    if decoded is None:
        return f"the {shown} header holds characters that it must not, or broken base64"
    if decoded != value:
        return f"the {shown} header value {decoded[:SHOWN]!r} does not match the body's {value[:SHOWN]!r}"
    return ""


def arguments_differ(head: Head, schema: bytes, arguments: Raw | None) -> tuple[int, str] | None:
    """What is wrong with the Mcp-Param headers of a call of a tool with this inputSchema; None = nothing."""
    table = _table(schema)
    if not table:
        return None
    expected = {name.decode().lower(): unwrapped(value.decode()) for name, value in custom(table, arguments or EMPTY)}
    for header in table.values():
        shown = header.decode()
        name = shown.lower()
        value = expected.get(name)
        if value is not None:
            found = _wrapped_differs(head, name, shown, value)
        else:
            found = f"the {shown} header came without such an argument" if name in head.headers else ""
        if found:
            return HEADER_MISMATCH, f"Header mismatch: {found}"
    return None


@functools.lru_cache(maxsize=1000)
def _table(schema: bytes) -> Table:
    """Which arguments stand in headers too; none where an annotation is not valid, since nobody mirrors then."""
    if b"mcp-header" not in schema and b"\\u00" not in schema:
        return {}
    try:
        return table_of(msgspec.json.decode(schema))
    except (BadAnnotation, msgspec.DecodeError, RecursionError):
        return {}


def unwrapped(value: str) -> str | None:
    """A mirrored header's value without its base64 wrapping (`=?base64?...?=`); None where it is malformed."""
    if not _VALUE(value):
        return None
    wrapped = _SENTINEL(value)
    if wrapped is None:
        return value
    try:
        data = base64.b64decode(wrapped[1], validate=True)
        return data.decode("utf-8") if base64.b64encode(data).decode() == wrapped[1] else None
    except (binascii.Error, UnicodeDecodeError):
        return None

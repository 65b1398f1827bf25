"""Owns `_meta` and `resultType`: what of them crosses a hop, in which shape, for which era.

It must not know who is called. Hop keys never cross; trace context and vendor keys do (bridging rules; MCP spec
2026-07-28, basic/index, RequestMetaObject). Everything is bytes in, bytes out.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from typing import Any, Literal

import msgspec

from mcphub import __version__
from mcphub.channel import Data
from mcphub.kinds import KINDS
from mcphub.protocol import own_word, task_budget, trace_context
from mcphub.protocol.jsonrpc import Raw, quote
from mcphub.protocol.older import with_text
from mcphub.protocol.task_budget import Task
from mcphub.protocol.versions import LATEST_MODERN, MODERN

PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = PREFIX + "protocolVersion"
CAPABILITIES_KEY = PREFIX + "clientCapabilities"
CLIENT_INFO_KEY = PREFIX + "clientInfo"
LOG_LEVEL_KEY = PREFIX + "logLevel"
SUBSCRIPTION_KEY = PREFIX + "subscriptionId"
SERVER_INFO_KEY = PREFIX + "serverInfo"
#: The extension of tasks, among the capabilities of both sides (SEP-2663).
TASKS_KEY = PREFIX + "tasks"
ERROR_KEY = "dev.mcphub/error"
WARNING_KEY = "dev.mcphub/warning"

#: How mcphub names itself on both hops; self-reported, for display only.
IMPLEMENTATION = b'{"name":"mcphub","title":"mcphub","version":%b}' % quote(__version__)
#: The members every modern request of ours carries. The hub declares no client capability that it cannot carry yet.
HUB_META_OPEN = b'"%b":"%b","%b":%b,"%b":' % (
    VERSION_KEY.encode(),
    LATEST_MODERN.encode(),
    CLIENT_INFO_KEY.encode(),
    IMPLEMENTATION,
    CAPABILITIES_KEY.encode(),
)
HUB_META = HUB_META_OPEN + b"{}"
#: The client capabilities that the hub carries between modern peers.
CARRIED = ("elicitation", "roots", "sampling")
#: The same as the `_meta` member of a request that carries nothing else.
HUB_META_MEMBER = b',"_meta":{%b}' % HUB_META
#: The members every result to a modern agent carries.
RESULT_META = b'"%b":%b' % (SERVER_INFO_KEY.encode(), IMPLEMENTATION)
MODERN_HEAD = b'{"resultType":"complete","_meta":{%b}' % RESULT_META

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str).decode
_TOKEN = msgspec.json.Decoder(int | str).decode
_NULL = Raw(b"null")
_EMPTY_STRING = Raw(b'""')
#: Characters of an agent's name that are kept.
MAX_CLIENT = 100


class InvalidMeta(ValueError):
    """A modern request whose `_meta` lacks a required key or has one of the wrong type: -32602."""


class UnsupportedVersion(ValueError):
    """A modern request in a version the hub does not speak statelessly: -32022."""

    def __init__(self, requested: str) -> None:
        super().__init__(requested)
        self.requested = requested


class RequestMeta(msgspec.Struct, frozen=True):
    """What a request's `_meta` says. `carried` are members that cross the hop, as JSON without braces.

    `progress_token` is raw JSON, b"" = none. `log_level` "" = none.
    """

    modern: bool = False
    version: str = ""
    progress_token: bytes = b""
    log_level: str = ""
    carried: bytes = b""
    client: str = ""
    #: What a modern agent declared that the hub can carry, as a JSON object, b"" = nothing.
    capabilities: bytes = b""
    #: The trace id that it belongs to, "" = it says none.
    trace: str = ""
    #: A modern agent that can have a handle of a task instead of a result.
    tasks: bool = False
    #: The task of the agent's own that it is part of, and what that may use; it goes no further than here.
    budget: Task | None = None


NO_META = RequestMeta()
#: Members that begin so are of one hop: the protocol's, and what is said to mcphub or by it.
_OWN = (PREFIX, own_word.DOMAIN)
_TRACED = frozenset([trace_context.PARENT, trace_context.STATE, trace_context.BAGGAGE])


def read_request_meta(raw: bytes) -> RequestMeta:
    """A request's `_meta` object; null counts as none. Raises InvalidMeta, UnsupportedVersion (only for modern
    requests)."""
    if raw == b"null":
        return NO_META
    if len(raw) <= _REMEMBERED and _VARIES(raw) is None:
        return _remembered(raw)
    return _read_request_meta(raw)


def trace_of(params: Raw) -> str:
    """The trace id of a request with these params, which may be of no use, "" = it says none that can be read."""
    try:
        meta = _members(params).get("_meta") if params else None
        return read_request_meta(bytes(meta)).trace if meta else ""
    except (msgspec.DecodeError, RecursionError, InvalidMeta, UnsupportedVersion):
        return ""


#: Bytes up to which a `_meta` is read once, and what makes it another one with each request.
_REMEMBERED = 1024
_VARIES = re.compile(rb"progressToken|traceparent").search


@functools.lru_cache(maxsize=256)
def _remembered(raw: bytes) -> RequestMeta:
    """A modern agent sends the same `_meta` with every request."""
    return _read_request_meta(raw)


def _read_request_meta(raw: bytes) -> RequestMeta:
    try:
        fields = _members(raw)
    except (msgspec.DecodeError, RecursionError):
        raise InvalidMeta("`_meta` is not an object") from None
    modern = VERSION_KEY in fields or CAPABILITIES_KEY in fields
    token = b""
    if bytes(fields.get("progressToken", _NULL)) != b"null":
        token = bytes(fields["progressToken"])
        try:
            _TOKEN(token)
        except (msgspec.DecodeError, RecursionError):
            raise InvalidMeta("`progressToken` is neither a string nor an integer") from None
    trace = "" if _TRACED.isdisjoint(fields) else trace_context.kept(fields)
    budget = None
    if (task := fields.pop(task_budget.KEY, None)) is not None:
        try:
            budget = task_budget.read_task(task)
        except ValueError as e:
            raise InvalidMeta(str(e)) from None
    carried = b",".join(
        [quote(k) + b":" + bytes(v) for k, v in fields.items() if k != "progressToken" and not k.startswith(_OWN)]
    )
    if not modern:
        if not (token or carried or budget):
            return NO_META
        return RequestMeta(progress_token=token, carried=carried, trace=trace, budget=budget)
    for key in (VERSION_KEY, CAPABILITIES_KEY):
        if key not in fields:
            raise InvalidMeta(f"`_meta` lacks the required key {key}")
    try:
        version = _string(fields[VERSION_KEY])
    except msgspec.DecodeError:
        raise InvalidMeta(f"{VERSION_KEY} is not a string") from None
    if bytes(fields[CAPABILITIES_KEY])[:1] != b"{":
        raise InvalidMeta(f"{CAPABILITIES_KEY} is not an object")
    capabilities = _carried(fields[CAPABILITIES_KEY])
    if version not in MODERN:
        raise UnsupportedVersion(version)
    level = ""
    if LOG_LEVEL_KEY in fields:
        try:
            level = _string(fields[LOG_LEVEL_KEY])
        except msgspec.DecodeError:
            level = "?"
        if level not in LOG_LEVELS:
            raise InvalidMeta(f"{LOG_LEVEL_KEY} must be one of {', '.join(LOG_LEVELS)}")
    client = ""
    if CLIENT_INFO_KEY in fields:
        try:
            client = _string(_members(fields[CLIENT_INFO_KEY]).get("name", _EMPTY_STRING))[:MAX_CLIENT]
        except (msgspec.DecodeError, RecursionError):
            raise InvalidMeta(f"{CLIENT_INFO_KEY} is not an object with a name") from None
    tasks = _declares_tasks(fields[CAPABILITIES_KEY])
    return RequestMeta(True, version, token, level, carried, client, capabilities, trace, tasks, budget)


def _carried(raw: Raw) -> bytes:
    """Of the capabilities an agent declared, those that the hub carries; b"" = none."""
    try:
        declared = _members(raw)
    except (msgspec.DecodeError, RecursionError):
        raise InvalidMeta(f"{CAPABILITIES_KEY} is not an object") from None
    kept = [quote(k) + b":" + bytes(declared[k]) for k in CARRIED if bytes(declared.get(k, _NULL))[:1] == b"{"]
    return b"{" + b",".join(kept) + b"}" if kept else b""


def _declares_tasks(raw: Raw) -> bool:
    """Whether this ClientCapabilities object has the extension of tasks."""
    try:
        fields = _members(raw)
        return "extensions" in fields and bytes(_members(fields["extensions"]).get(TASKS_KEY, _NULL))[:1] == b"{"
    except (msgspec.DecodeError, RecursionError):
        return False


def request_meta(modern: bool, meta: RequestMeta, token: int, offers: bytes = b"") -> bytes:
    """The `_meta` member for an upstream request, as `,"_meta":{...}`, b"" where none is needed. `offers` is
    what a legacy agent can do, as ClientCapabilities of the modern era."""
    members = b""
    if modern:
        members = HUB_META_OPEN + (meta.capabilities or offers or b"{}")
    if meta.log_level and modern:
        members += b',"%b":"%b"' % (LOG_LEVEL_KEY.encode(), meta.log_level.encode())
    if meta.progress_token:
        members += (b"," if members else b"") + b'"progressToken":%d' % token
    if meta.carried:
        members += (b"," if members else b"") + meta.carried
    return b',"_meta":{%b}' % members if members else b""


@functools.lru_cache(maxsize=32)
def hub_meta_member(offers: bytes) -> bytes:
    """HUB_META_MEMBER for a legacy agent that can do this."""
    return b',"_meta":{%b%b}' % (HUB_META_OPEN, offers or b"{}")


class UnsupportedResult(ValueError):
    """A result whose `resultType` was not negotiated, or that is no object. `result_type` names it."""

    def __init__(self, result_type: str) -> None:
        super().__init__(result_type)
        self.result_type = result_type


#: How most results of modern servers end.
COMPLETE_TAIL = b',"resultType":"complete"}'
# A key may be written with escapes; only those of ASCII letters and `_` can make one of these.
_NEEDS_WORK = re.compile(rb'"(?:resultType|_meta)"').search
_ESCAPED_LETTER = re.compile(rb"\\u00[567]").search
# The same between legacy peers, in one pass: what may follow a `"` where the key is `_meta`, with escapes or without.
_META = rb"_meta|_m?e?t?\\u00|\\u00"
_LEGACY_WORK = re.compile(rb'"(?:resultType"|%b)' % _META).search
_LEGACY_ENDS = re.compile(rb'"resultType"').search
#: Results above this size are scanned at both ends only where nothing depends on the middle; parts from it on are not
#: copied.
WINDOW = 4096
#: Bytes of a result that are read for whether it says that it is an error.
_LOOKED_AT = 64 << 10


# resultType, uri, structuredContent, audio and `_meta`, the last as above; ttlMs, cacheScope. Their first letters stand
# by themselves, since that takes less time; what else fits does no harm.
_PLAIN_MODERN = re.compile(
    rb'"[rtcsua_\\](?:esultType"|tlMs"|acheScope"|tructuredContent"|ri"|udio"|meta|m?e?t?\\u00|u00)'
).search
_PLAIN_LEGACY = re.compile(rb'"[rsua_\\](?:esultType"|tructuredContent"|ri"|udio"|meta|m?e?t?\\u00|u00)').search


def plain_result(result: Raw, from_modern: bool) -> bytes | None:
    """The whole result for a legacy agent where it is small and holds nothing that must change: the usual case, and the
    cheap one. None = see `result_parts`, and look for URIs; an empty one is none."""
    if len(result) > WINDOW:
        return None
    body = bytes(result)
    if not from_modern:
        return body if body[:1] == b"{" and _PLAIN_LEGACY(body) is None else None
    if body.endswith(COMPLETE_TAIL):
        body = body[: -len(COMPLETE_TAIL)]
        if _PLAIN_MODERN(body) is None:
            return body + b"}"
    return None


class _Text(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    type: Literal["text"]
    text: str


class _TextResult(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """Of a call: texts alone, and no error."""

    content: list[_Text]
    isError: Literal[False] = False


#: Takes a result of a legacy server that may go to a legacy agent as it is, and certainly says no error: one of texts
#: alone, as most are. Raises msgspec.DecodeError for all else. It takes half the time of plain_result and is_fine.
is_text_result = msgspec.json.Decoder(_TextResult).decode


def result_parts(
    result: memoryview, from_modern: bool, to_modern: bool, counters: Counter[str] | None = None
) -> tuple[Data, ...]:
    """A server's result in the shape of the agent's era, in parts to be joined. Raises UnsupportedResult.

    What it says in mcphub's name (protocol/own_word.py) is gone, and counted.

    To a modern agent: `resultType` and the hub's own serverInfo are there. From a modern server to a legacy agent:
    `resultType`, `ttlMs` and `cacheScope` are gone, `structuredContent` that is no object is text of the content. All
    other values keep their bytes; from a legacy server to a legacy agent all do, unless there is a `resultType`.
    """
    size = len(result)
    if not size or result[0] != 0x7B:
        raise UnsupportedResult("not an object")
    if not from_modern and not to_modern:
        if size <= 2 * WINDOW:
            if _LEGACY_WORK(result) is None:
                return (result,)
            body = bytes(result)
            if b'"resultType"' not in body and not own_word.may_claim(body):
                return (result,)
        elif _LEGACY_ENDS(result[:WINDOW]) is None and _LEGACY_ENDS(result[-WINDOW:]) is None:
            body = bytes(result)
            if b"_" not in body and b"\\" not in body:
                return (result,)  # no `_meta` at all; single letters are found ten times as fast as members are read
    elif from_modern and to_modern and size <= WINDOW:
        body = bytes(result)
        if body.endswith(COMPLETE_TAIL):
            body = body[1 : -len(COMPLETE_TAIL)]
            # Not empty, and nothing in it that is another's.
            if body[:1] == b'"' and _NEEDS_WORK(body) is None and _ESCAPED_LETTER(body) is None:
                return (MODERN_HEAD + b"," + body + b"}",)
    elif (
        to_modern
        and size <= WINDOW  # larger ones are rebuilt faster than searched
        and not from_modern
        and _NEEDS_WORK(result) is None
        and _ESCAPED_LETTER(result) is None
        and bytes(result[1:8]).lstrip(b" \t\r\n")[:1] == b'"'  # not empty
    ):
        return (MODERN_HEAD + b",", result[1:])
    return _rebuild(result, from_modern, to_modern, counters)


def _rebuild(
    result: memoryview, from_modern: bool, to_modern: bool, counters: Counter[str] | None
) -> tuple[Data, ...]:
    try:
        fields = _members(result)
    except (msgspec.DecodeError, RecursionError):
        raise UnsupportedResult("unreadable") from None
    kind = fields.pop("resultType", None)
    if not from_modern:
        # A member without meaning, which some servers have for purposes of their own.
        if kind is None and not to_modern:
            if not _claims(result, fields):
                return (result,)
            fields["_meta"] = Raw(own_word.without(bytes(fields["_meta"]), counters))
            return _joined(b"{", fields)
    elif kind is not None and bytes(kind) != b'"complete"' and not _says_complete(kind):
        raise UnsupportedResult(bytes(memoryview(kind)[:64]).decode("utf-8", "replace").strip('"'))
    meta = fields.pop("_meta", None)
    kept = b""
    if meta is not None:
        try:
            said = _members(meta)
            own_word.drop_from(said, counters)
            kept = b",".join([quote(k) + b":" + bytes(v) for k, v in said.items() if not k.startswith(PREFIX)])
        except (msgspec.DecodeError, RecursionError):
            kept = b""
    if to_modern:
        head = b'{"resultType":"complete","_meta":{' + RESULT_META + (b"," + kept if kept else b"") + b"}"
    else:
        fields.pop("ttlMs", None)
        fields.pop("cacheScope", None)
        structured = fields.get("structuredContent")
        if structured is not None and bytes(memoryview(structured)[:1]) != b"{":
            del fields["structuredContent"]
            fields["content"] = with_text(fields.get("content"), structured)
        head = b"{" + (b'"_meta":{' + kept + b"}" if kept else b"")
    return _joined(head, fields)


def _joined(head: bytes, fields: dict[str, Raw]) -> tuple[Data, ...]:
    """An object that begins so, with these members; large ones are views."""
    parts: list[Data] = []
    small: list[Data] = [head]
    comma = b"" if head == b"{" else b","
    for key, value in fields.items():
        view = memoryview(value)
        small += [comma, quote(key), b":"]
        comma = b","
        if len(view) < WINDOW:
            small.append(view)
        else:
            parts += [b"".join(small), view]
            small = []
    small.append(b"}")
    parts.append(b"".join(small))
    return tuple(parts)


def _claims(result: memoryview, fields: dict[str, Raw]) -> bool:
    """Whether this result has a `_meta` by which it may speak in mcphub's name; one of two may, of which a reader takes
    the first."""
    if "_meta" not in fields:
        return False
    return len(result) > 2 * WINDOW or own_word.may_claim(bytes(result))


def _says_complete(kind: Raw) -> bool:
    try:
        return _string(kind) == "complete"
    except msgspec.DecodeError:
        return False


def error_data(kind: str, server: str = "", **more: object) -> bytes:
    """The `data` of an error of the hub's own, or what stands in the `_meta` of a tool result that it made: what
    failed, where, whether to call again, and where that is written about. `more` are `tool`, `retryAfterMs` and
    whatever else is known; of these `layer` and `retryable` come before what the kind says."""
    return msgspec.json.encode({ERROR_KEY: error_facts(kind, server, **more)})


def traced(data: bytes, trace: str) -> bytes:
    """Such data, alone or behind an error's own members, with the trace id that its request belongs to, "" = none."""
    return b'%b,"traceId":"%b"}}' % (data[:-2], trace.encode()) if trace else data


def error_facts(kind: str, server: str = "", **more: object) -> dict[str, object]:
    """The members of `error_data` without the key that they stand under."""
    facts: dict[str, object] = {"kind": kind}
    if (known := KINDS.get(kind)) is not None:
        facts |= {"root": known.root, "layer": known.layer, "retryable": known.retryable}
    facts["server"] = server
    facts |= more
    if known is not None:
        facts["help"] = known.help
    return facts


def add_to_data(data: bytes, facts: bytes) -> bytes:
    """An error's data (an object as JSON, b"" or null = none), in which nothing is said in mcphub's name yet, with the
    member of this `error_data` beside its own."""
    if not data or data == b"null":
        return facts
    return data[:-1] + (b"," if data[1:].lstrip(b" \t\r\n")[:1] != b"}" else b"") + facts[1:]


class _SaysError(msgspec.Struct, gc=False):
    isError: Any = False


_says_error = msgspec.json.Decoder(_SaysError).decode
#: How nearly every result ends that says it is an error, and hardly another one.
ERROR_TAIL = b"true}"


def says_error(result: bytes) -> bool:
    """Whether a tool's result says that it is an error. Those that are large and do not end so are not looked at."""
    if result.endswith(b'"isError":true}'):
        return True
    if len(result) > _LOOKED_AT or b'"isError"' not in result:
        return False
    try:
        return _says_error(result).isError is True
    except (msgspec.DecodeError, RecursionError):
        return False


def with_warning(result: bytes, kind: str, message: str) -> bytes:
    """A result with one more member of its `_meta`; all others keep their bytes. As it is where it has a `_meta` that
    is no object, or cannot be read."""
    try:
        fields = _members(result)
        meta = _members(fields["_meta"]) if "_meta" in fields else {}
    except (msgspec.DecodeError, RecursionError):
        return result
    facts = {"kind": kind, "message": message}
    if (known := KINDS.get(kind)) is not None:
        facts |= {"layer": known.layer, "help": known.help}
    meta[WARNING_KEY] = Raw(msgspec.json.encode(facts))
    fields["_meta"] = Raw(_object(meta))
    return _object(fields)


def _object(fields: dict[str, Raw]) -> bytes:
    return b"{" + b",".join([quote(k) + b":" + bytes(v) for k, v in fields.items()]) + b"}"

"""Owns the JSON-RPC envelope: one line of bytes to id, method and raw payload, and the frames that go out.

It must not know methods, eras or who sent a line. Payloads stay raw: `params`, `result` and `error` are views into the
line and valid only as long as it is (MCP spec, base protocol; JSON-RPC 2.0).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Literal

import msgspec

from mcphub.channel import Data
from mcphub.errors import RemoteProtocolError

Raw = msgspec.Raw
UNSET = msgspec.UNSET
UnsetType = msgspec.UnsetType
EMPTY = Raw(b"")

Id = int | str
#: One message without its newline.
Line = bytes | memoryview

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_PROTOCOL_VERSION = -32022


class Envelope(msgspec.Struct, gc=False):
    """One message. `id` is UNSET where the member is missing, None where it is null. Empty payload = member missing."""

    jsonrpc: str = ""
    id: int | str | UnsetType | None = UNSET
    method: str | None = None
    params: Raw = EMPTY
    result: Raw = EMPTY
    error: Raw = EMPTY


class Mended(Envelope, gc=False):
    """One in which half a surrogate pair was replaced: another text than its sender wrote."""


class _Result(msgspec.Struct, gc=False):
    """A message that is a result under an integer id."""

    jsonrpc: Literal["2.0"]
    id: int
    result: Raw


class ErrorObject(msgspec.Struct):
    """The `error` member."""

    code: int = INTERNAL_ERROR
    message: str = ""
    data: Raw = EMPTY


class _StrictError(msgspec.Struct):
    code: int
    message: str


class NotAMessage(RemoteProtocolError):
    """A line that is no JSON-RPC message. `kind`: noise, encoding, json, batch, content-length, envelope."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


#: What a canonical decimal of an id of ours is at most; longer ones need not be read, and Python refuses to.
MAX_ID_DIGITS = 20
#: Elements of a batch: they are handled in one turn of the loop.
MAX_BATCH = 1000
#: Commas of a line that is read in full, which bounds its values, what they cost in memory, and the time it takes.
MAX_COMMAS = 1_000_000


_decode = msgspec.json.Decoder(Envelope).decode
_decode_result = msgspec.json.Decoder(_Result).decode
_decode_error = msgspec.json.Decoder(ErrorObject).decode
_decode_strictly = msgspec.json.Decoder(_StrictError).decode
_raw_members = msgspec.json.Decoder(dict[str, Raw]).decode
_elements = msgspec.json.Decoder(list[Raw]).decode
_encode = msgspec.json.Encoder().encode

# What a compact envelope costs besides its id, method and payload; the second number is with a blank after each colon
# and comma (Python's json), the first of which is the twelfth byte. Any other length may hide a duplicate member, which
# the fast decoder would not see.
_RESPONSE = _RESULT, _SPACED_RESULT = 33, 38  # {"jsonrpc":"2.0","id":,"result":}
_ERROR = 32, 37  # {"jsonrpc":"2.0","id":,"error":}
_REQUEST = 45, 52  # {"jsonrpc":"2.0","id":,"method":"","params":}
_BARE_REQUEST = 35, 40  # {"jsonrpc":"2.0","id":,"method":""}
_NOTIFICATION = 39, 44  # {"jsonrpc":"2.0","method":"","params":}
_BARE_NOTIFICATION = 29, 32  # {"jsonrpc":"2.0","method":""}


def decode(line: Line) -> Envelope:
    """One line to its envelope. Payloads are views into `line`.

    What the fast decoder refuses or would misread (lone surrogates, duplicate members, floats as ids, odd white space)
    takes the slow path of `repair`. Raises NotAMessage.
    """
    try:
        env = _decode(line)
    except (msgspec.DecodeError, RecursionError):
        return repair(line)
    mid, method = env.id, env.method
    if method is None and type(mid) is int and (n := len(env.result)):
        # A result, which most messages are, in as few steps as can be.
        over = len(line) - len(str(mid)) - n
        if (over == _RESULT or (over == _SPACED_RESULT and line[11] == 0x20)) and env.jsonrpc == "2.0":
            if type(line) is not bytes or not line.isascii():
                check_utf8(line)
            return env
        return repair(line)
    if type(mid) is int:
        over = len(line) - len(str(mid))
    elif type(mid) is str:
        over = len(line) - len(mid) - 2
    elif mid is UNSET and method is not None:
        over = len(line)
    else:
        return repair(line)
    if method is None:
        if n := len(env.result):
            usual, spaced = _RESPONSE
        elif n := len(env.error):
            usual, spaced = _ERROR
        else:
            return repair(line)
    else:
        over -= len(method)
        if n := len(env.params):
            usual, spaced = _NOTIFICATION if mid is UNSET else _REQUEST
        else:
            usual, spaced = _BARE_NOTIFICATION if mid is UNSET else _BARE_REQUEST
    over -= n
    if over != usual and (over != spaced or line[11] != 0x20) or env.jsonrpc != "2.0":
        return repair(line)
    check_utf8(line)
    return env


def several_results(lines: Sequence[bytes]) -> tuple[list[int], list[Raw]]:
    """The ids and the results of lines that are results under integer ids, each another one, written compactly, and of
    ASCII letters alone; none where one of them is anything else."""
    try:
        found = list(map(_decode_result, lines))
    except (msgspec.DecodeError, RecursionError):
        return [], []
    ids, results = [one.id for one in found], [one.result for one in found]
    # None can have less around its payload, so that the sum says that none has more.
    over = sum(map(len, lines)) - sum(map(len, map(str, ids))) - sum(map(len, results))
    if over != _RESULT * len(ids) or len(set(ids)) < len(ids) or not b"".join(lines).isascii():
        return [], []
    return ids, results


def check_utf8(line: Line) -> None:
    """Raw passes what is not UTF-8; a peer must never get it as if it were data. Raises NotAMessage."""
    if type(line) is bytes and line.isascii():
        return
    try:
        str(line, "utf-8")
    except UnicodeDecodeError as e:
        raise NotAMessage(f"invalid UTF-8 at byte {e.start}", "encoding") from None


_SURROGATES = re.compile(
    r"(\\\\|\\u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_slow = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=str, parse_float=str)


def _members(text: str) -> list[tuple[str, str]]:
    """The members of a JSON object in order, each value as its own text. Raises ValueError."""
    blank = re.compile(r"[ \t\r\n]*").match
    pos = blank(text, 0).end()  # type: ignore[union-attr]
    if text[pos : pos + 1] != "{":
        raise ValueError("not an object")
    out: list[tuple[str, str]] = []
    pos = blank(text, pos + 1).end()  # type: ignore[union-attr]
    if text[pos : pos + 1] == "}":
        return out
    while True:
        if text[pos : pos + 1] != '"':
            raise ValueError("a member name is missing")
        key, pos = scanstring(text, pos + 1, True)
        pos = blank(text, pos).end()  # type: ignore[union-attr]
        if text[pos : pos + 1] != ":":
            raise ValueError("a colon is missing")
        start = blank(text, pos + 1).end()  # type: ignore[union-attr]
        _, end = _slow.raw_decode(text, start)
        out.append((key, text[start:end]))
        pos = blank(text, end).end()  # type: ignore[union-attr]
        sep = text[pos : pos + 1]
        if sep == "}":
            if blank(text, pos + 1).end() != len(text):  # type: ignore[union-attr]
                raise ValueError("data after the message")
            return out
        if sep != ",":
            raise ValueError("a comma is missing")
        pos = blank(text, pos + 1).end()  # type: ignore[union-attr]


def repair(line: Line) -> Envelope:
    """The slow path of `decode`: accepts what can be understood without guessing. Raises NotAMessage for the rest.

    Accepted: BOM, white space, a whole float as id (7.0), lone surrogates inside payloads and the method (become
    U+FFFD, which the type Mended tells), null for a member that is missing (`"error":null` beside a result,
    `"result":null` beside an error).
    Refused: duplicate members of the envelope, both a result and an error, NaN and Infinity, a missing `jsonrpc`, ids
    of another type.
    """
    data = bytes(line)
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    data = data.strip(b" \t\r\n")
    if not data:
        raise NotAMessage("a blank line", "noise")
    first = data[:1]
    if first == b"[":
        raise NotAMessage("a JSON array, not one message", "batch")
    if first != b"{":
        if data[:15].lower() == b"content-length:":
            raise NotAMessage("the peer speaks Content-Length framing, not MCP stdio", "content-length")
        raise NotAMessage("a line that is not JSON-RPC", "noise")
    if data.count(b",") > MAX_COMMAS:
        raise NotAMessage("too many values for a line that must be looked at twice", "json")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        raise NotAMessage(f"invalid UTF-8 at byte {e.start}", "encoding") from None
    try:
        pairs = _members(text)
    except (ValueError, RecursionError) as e:
        cause = "nested too deeply" if isinstance(e, RecursionError) else str(e)
        raise NotAMessage(f"not strict JSON: {cause}", "json") from None
    fields = dict(pairs)
    if fields.get("jsonrpc") != '"2.0"':
        kind = "envelope" if fields.keys() & {"id", "method", "result", "error"} else "noise"
        raise NotAMessage('JSON without "jsonrpc":"2.0"', kind)
    known = [k for k, _ in pairs if k in ("jsonrpc", "id", "method", "params", "result", "error")]
    if len(known) != len(set(known)):
        raise NotAMessage("duplicate members in the envelope", "envelope")
    env = Envelope(jsonrpc="2.0")
    mended = False
    if "id" in fields:
        env.id = _read_id(fields["id"])
    if fields.get("method", "null") != "null":
        if fields["method"][0] != '"':
            raise NotAMessage("`method` is not a string", "envelope")
        method = _SURROGATES.sub(_replace_lone, fields["method"])
        mended = method != fields["method"]
        env.method = json.loads(method)
    if fields.get("error") == "null" and "result" in fields:
        del fields["error"]
    elif fields.get("result") == "null" and "error" in fields:
        del fields["result"]
    for name in ("params", "result", "error"):
        if name in fields:
            payload = _SURROGATES.sub(_replace_lone, fields[name])
            mended = mended or payload != fields[name]
            setattr(env, name, Raw(payload.encode("utf-8")))
    if env.method is not None and (env.result or env.error):
        raise NotAMessage("both a method and an answer", "envelope")
    if env.method is None and not env.result and not env.error:
        raise NotAMessage("neither a method nor a result nor an error", "envelope")
    if env.result and env.error:
        raise NotAMessage("both a result and an error", "envelope")
    return Mended(env.jsonrpc, env.id, env.method, env.params, env.result, env.error) if mended else env


def _replace_lone(m: re.Match[str]) -> str:
    return m.group(1) or "\\ufffd"


def _read_id(text: str) -> Id | None:
    if text == "null":
        return None
    if text[0] == '"':
        if _SURROGATES.sub(_replace_lone, text) != text:
            raise NotAMessage("`id` holds half a surrogate pair, which no answer could repeat", "envelope")
        return str(json.loads(text))
    if text[0] in "-0123456789":
        try:
            value: int | float = json.loads(text)
        except ValueError:  # thousands of digits
            value = 0.5
        # Above 2**53 a float may stand for another integer than the peer meant.
        if isinstance(value, int) or (value.is_integer() and abs(value) <= 2**53):
            return int(value)
    raise NotAMessage("`id` is neither a string nor an integer", "envelope")


#: An id, and how much of a line is searched for it.
_ANY_ID = re.compile(rb'"id"\s*:\s*([1-9][0-9]{0,17})\b')
MAX_SEARCHED = 1 << 20
_REPLY_HEAD = re.compile(
    rb'[ \t\r]*\{[ \t]*"jsonrpc"[ \t]*:[ \t]*"2\.0"[ \t]*,[ \t]*"id"[ \t]*:[ \t]*"?([1-9][0-9]{0,18})"?[ \t]*,'
    rb'[ \t]*"(?:result|error)"[ \t]*:'
)


def unreadable_reply(line: Line) -> tuple[Id, ...]:
    """The ids that a line which `decode` refused may be an answer to; empty where nothing says so.

    For whoever waits for that answer: something came that cannot be used (NaN, invalid UTF-8, two ids, a batch where
    there are none, both a result and an error or neither), and nothing better will. Of a line that is cut short, or too
    deep or too much to be read, the beginning is looked at, or the only id that stands in it.
    """
    data = bytes(line)
    try:
        if data.count(b",") > MAX_COMMAS:
            raise ValueError
        text = data.decode("utf-8", "replace").strip("\ufeff \t\r\n")
        found = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        head = _REPLY_HEAD.match(data)
        if head is not None:
            return (int(head[1]),)
        ids = _ANY_ID.findall(data, 0, MAX_SEARCHED) if data.lstrip()[:1] == b"{" else []
        return (int(ids[0]),) if len(ids) == 1 and b'"method"' not in data[:MAX_SEARCHED] else ()
    if isinstance(found, _Pairs):
        return _claimed(found)
    if isinstance(found, list):
        return tuple(mid for one in found if isinstance(one, _Pairs) for mid in _claimed(one))
    return ()


_METHOD = re.compile(rb'"method"[ \t]*:')
_REQUEST_ID = re.compile(rb'"id"[ \t]*:[ \t]*(-?[0-9]{1,18}\b|"[^"\\\x00-\x1f]{0,200}")')


def is_request(head: bytes) -> bool:
    """Whether a message that begins so is a request or a notification, as far as can be told."""
    return _METHOD.search(head[:200]) is not None


def id_in(head: bytes) -> bytes:
    """The id, as JSON, of a message that begins so, where just one can be found before its payload; else `null`."""
    before = head.partition(b'"params"')[0]
    ids = _REQUEST_ID.findall(before)
    return bytes(ids[0]) if len(ids) == 1 else b"null"


def _claimed(pairs: _Pairs) -> tuple[Id, ...]:
    """The ids of one object that is no request."""
    keys = {key for key, _ in pairs}
    if "method" in keys and not keys & {"result", "error"}:
        return ()
    return tuple(value for key, value in pairs if key == "id" and type(value) in (int, str))


class _Pairs(list[tuple[str, Any]]):
    """The members of an object, which may come twice."""


def split_batch(line: Line) -> list[bytes]:
    """The elements of a JSON-RPC batch (2025-03-26 only), each as its own bytes. Raises NotAMessage.

    An array inside the array comes as `null`, which is no message either: batches do not nest.
    """
    data = bytes(line)
    if data.count(b",") > MAX_COMMAS // 10:
        raise NotAMessage("the batch is too long", "envelope")
    try:
        parts = _elements(data)
    except (msgspec.DecodeError, RecursionError) as e:
        raise NotAMessage(f"not a JSON array: {e}", "json") from None
    if len(parts) > MAX_BATCH:
        raise NotAMessage(f"the batch has {len(parts)} messages, more than {MAX_BATCH}", "envelope")
    return [b"null" if found[:1] == b"[" else found for found in map(bytes, parts)]


def read_error(raw: Raw) -> ErrorObject:
    """The `error` member, read leniently: what can be told of it is kept, so that the outcome is always an object with
    an integer code and a text."""
    try:
        return _decode_error(raw)
    except (msgspec.DecodeError, RecursionError):
        pass
    found = ErrorObject(INTERNAL_ERROR, "the peer sent an error that is no JSON-RPC error object")
    try:
        fields = _raw_members(raw)
    except (msgspec.DecodeError, RecursionError):
        fields = {"message": raw}  # some peers send the text alone
    for name, kind in (("code", int), ("message", str)):
        try:
            setattr(found, name, msgspec.json.decode(fields[name], type=kind))
        except (msgspec.DecodeError, KeyError, RecursionError):
            pass
    found.data = fields.get("data", EMPTY)
    return found


def is_error_object(raw: Raw) -> bool:
    """Whether the `error` member is what JSON-RPC 2.0 says (section 5.1): an integer code and a text at least."""
    try:
        _decode_strictly(raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def quote(value: str) -> bytes:
    """A string as JSON."""
    return _encode(value)


def encode_id(mid: Id | None) -> bytes:
    """An id as JSON, of the type it came in."""
    if type(mid) is int:
        return b"%d" % mid
    return _encode(mid)


def result_frame(mid: bytes, result: Data) -> bytes:
    """A response frame; `mid` is the id as JSON."""
    return b"".join((b'{"jsonrpc":"2.0","id":', mid, b',"result":', result, b"}\n"))


def error_object(code: int, message: str, data: bytes = b"") -> bytes:
    """An `error` member; `data` is raw JSON or empty."""
    return b'{"code":%d,"message":%b%b}' % (code, _encode(message), b',"data":' + data if data else b"")


def error_frame(mid: bytes, code: int, message: str, data: bytes = b"") -> bytes:
    """An error response frame; `mid` is the id as JSON, `data` raw JSON or empty."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (mid, error_object(code, message, data))


def notification_frame(method: str, params: bytes = b"") -> bytes:
    """A notification frame."""
    if params:
        return b'{"jsonrpc":"2.0","method":%b,"params":%b}\n' % (_encode(method), params)
    return b'{"jsonrpc":"2.0","method":%b}\n' % _encode(method)


def request_frame(mid: int, method: str, params: bytes = b"{}") -> bytes:
    """A request frame of the hub's own; its ids are integers that never repeat on a connection."""
    return b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}\n' % (mid, _encode(method), params)

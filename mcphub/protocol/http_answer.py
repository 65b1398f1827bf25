"""Owns what an HTTP answer to one MCP message means: a message to hand on, a stream to read, or why neither came.

It must not read sockets or keep state. Source: MCP spec 2026-07-28 and 2025-11-25, basic/transports; a JSON-RPC body
counts whatever the status, since no status is fixed for most errors, and since who has a result was answered.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from http import HTTPStatus

import msgspec

from mcphub.protocol import jsonrpc
from mcphub.protocol.era import MODERN_ERRORS
from mcphub.protocol.jsonrpc import NotAMessage
from mcphub.protocol.one_line import on_one_line

EVENT_STREAM = "text/event-stream"
#: Bytes of a body that are shown.
SHOWN = 200
#: Bytes of a body that are looked through for secrets before they are shown; an error that is longer is not shown.
LOOKED_THROUGH = 16 << 10
LONGEST_ERROR = 1 << 20
#: Seconds of a Retry-After that are honoured; more is taken for this.
RETRY_AFTER_MOST = 86_400.0

#: Statuses of gateways and guards: a JSON-RPC error in them is theirs, not the server's. A result is nobody else's.
_NOT_THE_SERVER = frozenset([401, 403, 429, 502, 503, 504])
_LATER = frozenset([408, 425, 429])
_NO_POST = frozenset([400, 404, 405])
#: Of 5xx, those that say what the server cannot do, not how it is now.
_NEVER = frozenset([501, 505])
# What servers say in a 400 when they do not know the session any more.
_SESSION_TEXT = re.compile(
    r"session\b.{0,40}(?:not found|expired|invalid|unknown|terminated|closed)"
    r"|(?:no valid|invalid|unknown|expired) session|server not initialized",
    re.IGNORECASE | re.DOTALL,
)
#: With 404 it says that the session is unknown, whatever id it names; in a 400 the words count with these codes.
_NO_SESSION = -32001
_OF_SESSIONS = frozenset([-32000, _NO_SESSION, jsonrpc.INVALID_REQUEST])
#: What a connection that ended with its session says; the worker knows it by this.
SESSION_GONE = "the server does not know the session any more"
#: Of a text that is shown: it repeats a message, plainly, as a string in another, or in a page.
_OF_JSONRPC = re.compile(r"""jsonrpc(?:\\*["']|&)""")
_NEWLINES = bytes.maketrans(b"\r\n", b"  ")

#: Takes out of a text what is secret. A server may repeat what it was sent.
Clean = Callable[[str], str]


def as_it_is(text: str) -> str:
    return text


class Head(msgspec.Struct, frozen=True):
    """What is looked at of an answer. `retry_after` is the header as it came, `location` and `challenge`
    (WWW-Authenticate) too; "" = not there."""

    status: int
    content_type: str = ""
    retry_after: str = ""
    location: str = ""
    challenge: str = ""
    #: Redirects that were followed before it, where they were too many.
    followed: int = 0

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def kind(self) -> str:
        """The media type without parameters, in lower case."""
        return self.content_type.partition(";")[0].strip().lower()

    @property
    def streams(self) -> bool:
        return self.ok and self.kind == EVENT_STREAM


class Refusal(msgspec.Struct, frozen=True):
    """Why a request has no answer. `kind`: `needs_auth`, `refused` and `rate_limited` (the server did not act on it),
    `session` (it does not know the session), `status` (an error of the server: it may have acted), `unreadable`,
    `older` (see the function).
    `later`: the same may work later. `retry_after` is seconds, 0 = not said.
    """

    kind: str
    message: str
    later: bool = False
    retry_after: float = 0.0
    #: WWW-Authenticate of a `needs_auth`, as it came.
    challenge: str = ""
    #: The message says all that is to be said.
    whole: bool = False
    #: It was a 403: what that means depends on the challenge, and on who signs.
    forbidden: bool = False

    @property
    def of_credentials(self) -> bool:
        """Other credentials are wanted, or any, as whoever signs has it: the message says what is to be done."""
        return self.kind == "needs_auth" or self.whole


def reply(
    mid: int, head: Head, body: bytes, *, session: bool, probing: bool, now: float, clean: Clean = as_it_is
) -> bytes | Refusal:
    """The message that answers request `mid` (0 = it was none), without its newline, or why there is none.

    The result of this very request is its answer whatever the status, but for a challenge to sign in.
    `session`: the request named one. `probing`: it was `server/discover`; then an answer that has nothing to do with
    MCP becomes a JSON-RPC error, from which the probe concludes that the server is a legacy one. `now` is wall clock
    seconds, for a Retry-After that is a date. `clean` goes over whatever is shown of the answer, and over errors beside
    a status that says error; a result is the server's own.
    """
    body = one_line(body)
    if not head.ok:
        if not (head.status in (401, 403) and head.challenge) and has_result(mid, body):
            return body
        body = _without_secrets(body, clean)
    said = body[:1] in (b"{", b"[")
    refusal = _status(mid, head, body if said else b"", session, now)
    if refusal is not None and (head.status in _NOT_THE_SERVER or refusal.kind == "session"):
        return refusal
    if said:
        message = _message(mid, body, head.ok)
        if isinstance(message, bytes) or (head.ok and not probing):
            return message
    if refusal is None:
        refusal = Refusal("unreadable", _not_mcp(mid, head, body, clean))
    elif text := said_in(mid, body, clean):
        refusal = Refusal(refusal.kind, f"{refusal.message}: {text}", refusal.later, refusal.retry_after)
    if probing and not refusal.later:
        return jsonrpc.error_frame(b"%d" % mid, jsonrpc.INVALID_REQUEST, refusal.message)[:-1]
    return refusal


def older(head: Head, reply: bytes | Refusal) -> bytes | Refusal:
    """What `initialize` was answered with; a Refusal of the kind `older` where the HTTP+SSE transport of 2024-11-05 is
    to be tried (MCP spec 2025-11-25, basic/transports, backwards compatibility): the server has nothing to POST to at
    this URL. Who says so in a JSON-RPC error beside a 400, or with a modern error, speaks Streamable HTTP.
    """
    if head.status not in _NO_POST:
        return reply
    if isinstance(reply, Refusal):
        return Refusal("older", reply.message) if reply.kind in ("refused", "unreadable") else reply
    try:
        raw = jsonrpc.decode(reply).error
    except NotAMessage:
        return reply
    if not raw:
        return reply
    error = jsonrpc.read_error(raw)
    if head.status == 400 or error.code in MODERN_ERRORS:
        return reply
    return Refusal("older", f"HTTP {head.status} {_phrase(head.status)}: {error.message[:SHOWN]} ({error.code})")


def one_line(body: bytes) -> bytes:
    """The body as one frame: without byte order mark and blanks around it, and no line break inside."""
    body = body.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n")
    return on_one_line(body) if body[:1] in (b"{", b"[") else body.translate(_NEWLINES)


def addressed(mid: int, data: bytes) -> tuple[bytes, bool]:
    """(a message that came on the answer to request `mid`, whether it is the response to it).

    An error without an id was refused before its id was read; on this stream it can be no other's, and gets it.
    """
    if data.startswith(b'{"jsonrpc":"2.0","id":%d,"result":' % mid):
        return data, True
    try:
        env = jsonrpc.decode(data)
    except NotAMessage:
        return data, False
    if env.method is not None:
        return data, False
    if isinstance(env.id, int | str):
        return data, str(env.id) == str(mid)
    if not env.error:
        return data, False
    error = jsonrpc.read_error(env.error)
    return jsonrpc.error_frame(b"%d" % mid, error.code, error.message, bytes(error.data))[:-1], True


def has_result(mid: int, body: bytes) -> bool:
    """Whether a body is the result of request `mid`, or a batch with it; nothing is the result of 0."""
    try:
        if body[:1] == b"[":
            return any(has_result(mid, part) for part in jsonrpc.split_batch(body))
        env = jsonrpc.decode(body)
    except NotAMessage:
        return False
    return bool(mid and env.result) and isinstance(env.id, int | str) and str(env.id) == str(mid)


def _message(mid: int, body: bytes, ok: bool) -> bytes | Refusal:
    """The message in a body that looks like JSON."""
    if body[:1] == b"[":
        return body
    message, answers = addressed(mid, body)
    if answers and ok:
        return message
    try:
        env = jsonrpc.decode(message)
    except NotAMessage as e:
        return Refusal("unreadable", str(e))
    if env.method is None and not ok and not env.error:
        return Refusal("unreadable", "another request's result beside a status that says error")
    return message


def _status(mid: int, head: Head, body: bytes, session: bool, now: float) -> Refusal | None:
    """What the status says; None where it says nothing against the body."""
    status = head.status
    if head.ok:
        return None
    named = f"HTTP {status} {_phrase(status)}".rstrip()
    if 300 <= status < 400:
        if head.followed:
            text = f"{named}: redirected again after {head.followed} redirects in a row, which are too many"
            return Refusal("refused", text)
        where = f" to {head.location}" if head.location else ""
        return Refusal("refused", f"{named}: redirected{where}, which is not followed (a sign-in page?)")
    if status == 401:
        return Refusal("needs_auth", named, challenge=head.challenge)
    if status == 403:
        # A policy's or a firewall's word, as often as not: it alone sends nobody to a sign-in.
        return Refusal("refused", named, challenge=head.challenge, forbidden=True)
    if session and _session_is_gone(mid, status, body):
        return Refusal("session", SESSION_GONE)
    after = seconds(head.retry_after, now)
    if status in _LATER:
        wait = f", retry after {after:g} s" if after else ""
        return Refusal("rate_limited", named + wait, True, after)
    if status >= 500 and status not in _NEVER:
        wait = f", retry after {after:g} s" if after else ""
        return Refusal("status", named + wait, True, after)
    return Refusal("refused", named)


def _session_is_gone(mid: int, status: int, body: bytes) -> bool:
    """Whether this says that the session is unknown. A message that names the request is an answer to it, unless it is
    an error that says so itself."""
    if status not in (400, 404):
        return False
    code, text, own = 0, "", False
    if body[:1] == b"{":
        try:
            env = jsonrpc.decode(body)
        except NotAMessage:
            pass
        else:
            own = env.method is None and isinstance(env.id, int | str) and str(env.id) == str(mid)
            if env.error:
                error = jsonrpc.read_error(env.error)
                code, text = error.code, error.message
    if status == 404:
        return code == _NO_SESSION or not (own or code == jsonrpc.METHOD_NOT_FOUND)
    return (not own or code in _OF_SESSIONS) and _SESSION_TEXT.search(text) is not None


def _not_mcp(mid: int, head: Head, body: bytes, clean: Clean) -> str:
    named = f"HTTP {head.status} {_phrase(head.status)}".rstrip()
    if not body:
        return f"answered with {named} and nothing else"
    what = clean(head.kind) or "no content type"
    hint = " (a sign-in page, or a proxy's?)" if "html" in what or body[:1] == b"<" else ""
    text = said_in(mid, body, clean)
    return f"answered with {named} and {ascii(what)[1:-1][:80]}{hint}{text and f': {text}'}"


def _without_secrets(body: bytes, clean: Clean) -> bytes:
    """An error without what is secret, still the JSON that it was; nothing of it where that cannot be had."""
    if len(body) > LONGEST_ERROR:
        return b""
    text = body.decode("utf-8", "replace")
    cleaned = clean(text)
    if cleaned == text:
        return body
    found = cleaned.encode("utf-8")
    if body[:1] in (b"{", b"["):
        try:
            msgspec.json.decode(found, type=msgspec.Raw)
        except msgspec.DecodeError:
            return b""
    return found


def said_in(mid: int, body: bytes, clean: Clean = as_it_is) -> str:
    """What the body of an answer to request `mid` says, fit to be shown to whoever asked; "" = nothing. Of a JSON-RPC
    error it is the message alone, and nothing of what else repeats a message or the id: those of the connection to the
    server mean another request, or none, to an agent."""
    try:
        error = jsonrpc.decode(body).error
    except NotAMessage:
        text = clean(body[:LOOKED_THROUGH].decode("utf-8", "replace"))[: SHOWN + len("jsonrpc")]
        own_id = rf"""id(?:\\*["']|&\w+;)\s*:\s*(?:\\*["']|&\w+;)?{mid}\b"""
        if _OF_JSONRPC.search(text) or (mid and re.search(own_id, text, re.IGNORECASE)):
            return ""
        return shown(body, clean) if body else ""
    message = jsonrpc.read_error(error).message if error else ""
    return shown(message.encode("utf-8", "replace"), clean) if message else ""


def shown(body: bytes, clean: Clean = as_it_is) -> str:
    """The beginning of a body, fit to be shown: what is secret is taken out before anything is cut in two."""
    text = clean(body[:LOOKED_THROUGH].decode("utf-8", "replace"))
    return ascii(text[:SHOWN] + ("..." if len(text) > SHOWN else ""))


def seconds(retry_after: str, now: float) -> float:
    """A Retry-After header as seconds from now (RFC 9110, 10.2.3), bounded; 0 where it says nothing."""
    text = retry_after.strip()
    if text.isascii() and text.isdecimal():
        return min(float(text[:12]), RETRY_AFTER_MOST)
    if not text:
        return 0.0
    import email.utils  # late: hardly any server sends a date

    try:
        at = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
    if at.tzinfo is None:
        at = at.replace(tzinfo=datetime.UTC)
    return min(max(at.timestamp() - now, 0.0), RETRY_AFTER_MOST)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""

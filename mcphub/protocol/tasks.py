"""Owns the shapes of tasks in both eras, how often one is asked for, and the seal that makes a server's id an agent's.

It must not send, wait or look at a clock. Sources: SEP-2663, extension io.modelcontextprotocol/tasks, for the modern
era; MCP spec 2025-11-25, basic/utilities/tasks, for the legacy one. They are not compatible on the wire. An id is
sealed by AES-256-GCM (NIST SP 800-38D) with its agent as what is authenticated beside it: nothing has to be kept, so an
id works in the next daemon, and another agent's is one that does not exist.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from mcphub.protocol import own_word
from mcphub.protocol.envelope import PREFIX, RESULT_META, TASKS_KEY
from mcphub.protocol.jsonrpc import EMPTY, Raw, quote

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

#: The extension as a member of `capabilities.extensions`, and as what an agent without it lacks.
OFFER = b'"%b":{}' % TASKS_KEY.encode()
LACKING = b'"requiredCapabilities":{"extensions":{%b}}' % OFFER
#: What an agent asks about a task that it has a handle of.
METHODS = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
NOTIFICATION = "notifications/tasks"
#: Those after which nothing changes any more.
ENDS = frozenset({"completed", "failed", "cancelled"})

#: Seconds between two requests for one task where its server says nothing; it doubles up to the second.
PAUSE, PAUSE_SLOW = 0.5, 5.0
#: Less than this is no interval, more is no plan: seconds.
PAUSE_LEAST, PAUSE_MOST = 0.1, 3600.0
#: Characters of an id of a server's, and of a handle that is looked at.
MAX_ID = 4096
MAX_HANDLE = 8 * MAX_ID
#: Characters of a message that become progress.
MAX_MESSAGE = 2000
NONCE_BYTES = 12
_FORMAT = 1
_RELATED = PREFIX + "related-task"



class _Kind(msgspec.Struct, gc=False):
    resultType: str = "complete"


_read_kind = msgspec.json.Decoder(_Kind).decode
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str).decode
_number = msgspec.json.Decoder(float).decode
_UNREADABLE = (msgspec.DecodeError, RecursionError)


class NotATask(ValueError):
    """What a server gave is no task; the message says why."""


class UnknownTask(ValueError):
    """An id that was not given to this agent: -32602."""


class Task(msgspec.Struct, frozen=True):
    """What a server says of a task. `interval`: seconds, None = it says nothing that can be used. `inputs`: what it
    asks, by its keys; `result` and `error` are JSON, empty = there is none."""

    id: str
    status: str
    message: str = ""
    interval: float | None = None
    inputs: Mapping[str, Raw] = {}
    result: Raw = EMPTY
    error: Raw = EMPTY

    @property
    def ended(self) -> bool:
        return self.status in ENDS


def read(result: bytes | memoryview) -> Task:
    """A modern task, as it is made, answered or told of. Raises NotATask."""
    try:
        return _task(_members(result), "pollIntervalMs")
    except _UNREADABLE as e:
        raise NotATask(str(e)) from None


def read_old(result: bytes | memoryview) -> Task:
    """A legacy task, as `tasks/get` has it. Raises NotATask."""
    try:
        return _task(_members(result), "pollInterval")
    except _UNREADABLE as e:
        raise NotATask(str(e)) from None


def read_old_made(result: bytes | memoryview) -> Task | None:
    """The task that a legacy `tools/call` became, None where it was simply answered. Raises NotATask."""
    try:
        fields = _members(result)
        if "task" not in fields or "content" in fields:
            return None
        return _task(_members(fields["task"]), "pollInterval")
    except _UNREADABLE as e:
        raise NotATask(str(e)) from None


def _task(fields: Mapping[str, Raw], interval: str) -> Task:
    if "taskId" not in fields or "status" not in fields:
        raise NotATask("it has no taskId, or no status")
    own, status = _string(fields["taskId"]), _string(fields["status"])
    if not own or len(own) > MAX_ID:
        raise NotATask("its taskId is empty, or too long")
    inputs = _members(fields["inputRequests"]) if status == "input_required" and "inputRequests" in fields else {}
    message = ""
    if "statusMessage" in fields:
        try:
            message = _string(fields["statusMessage"])[:MAX_MESSAGE]
        except msgspec.DecodeError:
            pass  # it is for people only
    result, error = fields.get("result", EMPTY), fields.get("error", EMPTY)
    return Task(own, status, message, _seconds(fields.get(interval, EMPTY)), inputs, result, error)


def _seconds(raw: Raw) -> float | None:
    try:
        found = _number(raw) / 1000 if raw else 0.0
    except (*_UNREADABLE, OverflowError):
        return None
    return found if math.isfinite(found) and found > 0 else None


def pause(interval: float | None, asked: int) -> float:
    """Seconds until a task is asked for again, which was so often by now. What its server says counts, within
    bounds."""
    if interval is None:
        return float(min(PAUSE * 2 ** min(asked, 10), PAUSE_SLOW))
    return min(max(interval, PAUSE_LEAST), PAUSE_MOST)


def offers(capabilities: Mapping[str, Any]) -> bool:
    """Whether a modern server that says this makes tasks for clients that can have them."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and isinstance(extensions.get(TASKS_KEY), dict)


def offers_old(capabilities: Mapping[str, Any]) -> bool:
    """Whether a legacy server that says this makes tasks of calls to tools."""
    found: Any = capabilities
    for step in ("tasks", "requests", "tools", "call"):
        found = found.get(step) if isinstance(found, dict) else None
    return isinstance(found, dict)


def is_required(execution: Raw) -> bool:
    """Whether this `execution` member of a legacy tool says that it must be called as a task. Raises DecodeError."""
    found = _members(execution).get("taskSupport")
    return found is not None and bytes(found) == b'"required"'


# --- what agents see -------------------------------------------------------------------------------------------------


def shown(result: bytes | memoryview, handle: str, kind: str, counters: Counter[str] | None = None) -> bytes:
    """A modern task as a result of this `resultType`, under the id that the agent has; nothing in it, nor in what it
    led to, is said in mcphub's name (`counters` as in own_word). Raises NotATask."""
    try:
        fields = _members(result)
        meta = _members(fields.pop("_meta")) if "_meta" in fields else {}
    except _UNREADABLE as e:
        raise NotATask(str(e)) from None
    fields.pop("resultType", None)
    fields.pop("requestState", None)  # of rounds, which are over
    if kind == "task":
        for member in ("result", "error", "inputRequests"):
            fields.pop(member, None)  # they are had by tasks/get
    own_word.drop_from(meta, counters)
    if "result" in fields:
        fields["result"] = Raw(own_word.without_in_meta(bytes(fields["result"]), counters))
    if "error" in fields:
        fields["error"] = Raw(own_word.without_in_data(bytes(fields["error"]), counters))
    fields["taskId"] = Raw(quote(handle))
    kept = b"".join([b"," + quote(k) + b":" + bytes(v) for k, v in meta.items() if not k.startswith(PREFIX)])
    head = b'{"resultType":%b,"_meta":{%b%b}' % (quote(kind), RESULT_META, kept)
    return head + b"".join([b"," + quote(k) + b":" + bytes(v) for k, v in fields.items()]) + b"}"


def plain(result: bytes | memoryview) -> bytes:
    """The result that a legacy task led to, without what says so."""
    try:
        fields = _members(result)
        meta = _members(fields["_meta"]) if "_meta" in fields else {}
    except _UNREADABLE:
        return bytes(result)
    if meta.pop(_RELATED, None) is None:
        return bytes(result)
    if meta:
        fields["_meta"] = Raw(_object(meta))
    else:
        del fields["_meta"]
    return _object(fields)


def is_made(result: bytes | memoryview) -> bool:
    """Whether this result of a modern server says that its request became a task."""
    return _kind(result) == "task"


def is_final(result: bytes | memoryview) -> bool:
    """Whether a task may have led to this result: it is an object, and nothing that comes before one."""
    return _kind(result) == "complete"


def _kind(result: bytes | memoryview) -> str:
    try:
        return _read_kind(result).resultType
    except _UNREADABLE:
        return ""


def told(step: int, message: str) -> bytes:
    """What a task says of itself as the params of a progress notification; `step` must rise."""
    return b'{"progress":%d,"message":%b}' % (step, quote(message))


def asking(inputs: Mapping[str, Raw]) -> bytes:
    """What a task asks as an `input_required` result."""
    return b'{"resultType":"input_required","inputRequests":%b}' % _object(inputs)


def _object(fields: Mapping[str, Raw]) -> bytes:
    return b"{" + b",".join([quote(k) + b":" + bytes(v) for k, v in fields.items()]) + b"}"


# --- handles ---------------------------------------------------------------------------------------------------------


class _Sealed(msgspec.Struct, array_like=True):
    format: int
    server: str
    task: str


@functools.lru_cache(maxsize=2)
def _cipher(key: bytes) -> AESGCM:
    # Imported by the first handle: most daemons see none.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(hmac.digest(key, b"mcphub taskId", hashlib.sha256))


def seal(key: bytes, principal: str, server: str, task: str, nonce: bytes) -> str:
    """The id under which this agent has a server's task. `nonce` must never be used twice."""
    body = msgspec.json.encode(_Sealed(_FORMAT, server, task))
    sealed = nonce + _cipher(key).encrypt(nonce, body, principal.encode("utf-8", "surrogatepass"))
    return base64.urlsafe_b64encode(sealed).decode("ascii").rstrip("=")


def unseal(key: bytes, principal: str, handle: str) -> tuple[str, str]:
    """The server, and its own id. Raises UnknownTask."""
    from cryptography.exceptions import InvalidTag

    try:
        if len(handle) > MAX_HANDLE:
            raise ValueError
        data = base64.urlsafe_b64decode(handle.encode("ascii") + b"=" * (-len(handle) % 4))
        if base64.urlsafe_b64encode(data).rstrip(b"=") != handle.encode("ascii"):
            raise ValueError  # the decoder skips what is no base64
        aad = principal.encode("utf-8", "surrogatepass")
        found = msgspec.json.decode(_cipher(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], aad), type=_Sealed)
    except (InvalidTag, ValueError):
        raise UnknownTask("Failed to find the task: it does not exist, or is another agent's") from None
    if found.format != _FORMAT:
        raise UnknownTask("Failed to find the task: its id is of another version of mcphub")
    return found.server, found.task

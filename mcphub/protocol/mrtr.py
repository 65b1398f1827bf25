"""Owns the rounds of modern requests that need input first: which results ask, and the seal on state between them.

It must not ask anybody. Both agents of a hub look like one principal to a server, so its `requestState` is wrapped:
only the agent it was given to may bring it back, for the same request, for a limited time (MCP spec 2026-07-28,
basic/patterns/mrtr). The seal is AES-256-GCM (NIST SP 800-38D): what the hub itself puts in is nobody's business, and
the request that it belongs to is authenticated with it, not written down.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
from typing import TYPE_CHECKING

import msgspec

from mcphub.protocol.jsonrpc import Raw

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

#: Methods that may answer `input_required`.
METHODS = frozenset({"tools/call", "prompts/get", "resources/read"})
#: How long a round may take where nothing else is said, seconds.
LIFETIME = 900.0
#: How often a server may ask because of one request.
MAX_ROUNDS = 10
#: Seals of another form are refused.
FORMAT = 2
#: Bytes that the caller makes anew for each seal.
NONCE_BYTES = 12
#: The largest state of a server that is carried.
MAX_STATE = 256 << 10
#: The largest seal that is looked at: a character of a state may take six bytes in JSON, and base64 adds a third.
MAX_SEALED = 9 * MAX_STATE


class BadState(ValueError):
    """A `requestState` that was not given to this agent for this request, was changed, or is too old: -32602."""


class Expired(BadState):
    """It is one that was given to this agent for this request, and is too old; `state` is what was sealed."""

    def __init__(self, state: State) -> None:
        super().__init__("requestState is too old")
        self.state = state


class State(msgspec.Struct, frozen=True, array_like=True):
    """What a seal keeps between two rounds."""

    #: The server's own; None where it gave none: then none goes back to it.
    server: str | None = None
    #: The call that waits at a legacy server, and which of its rounds this is.
    parked: str = ""
    round: int = 0
    #: The pages that a legacy server wants opened before it is called anew, and how often it was by now.
    pages: tuple[str, ...] = ()
    tries: int = 0
    #: What was answered without the agent, by the server's key.
    answers: dict[str, Raw] = {}
    #: The server's id of the task that asks, "" = it is no task; and what that one asked before, by its keys.
    task: str = ""
    asked: tuple[str, ...] = ()
    #: What mcphub filled in for the tool's idempotency argument, which stays the same in all rounds.
    filled: str = ""
    #: The id of the call that waits in the journal of calls, "" = it is not in there: it is known by that when the call
    #: itself is gone.
    operation: str = ""


class _Sealed(msgspec.Struct, array_like=True):
    expires: float
    state: State


class Round(msgspec.Struct, frozen=True):
    """What a seal is bound to: the agent, the server, and the request; and the seconds for which it holds."""

    principal: str
    server: str
    method: str
    target: str
    arguments: bytes
    lifetime: float = LIFETIME

    def digest(self) -> bytes:
        # As JSON, since each of them may hold any character: no two rows of names give the same bytes.
        parts = msgspec.json.encode([FORMAT, self.principal, self.server, self.method, self.target])
        return hashlib.sha256(parts + _canonical(self.arguments)).digest()


def _canonical(arguments: bytes) -> bytes:
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments or b"{}"), order="deterministic")
    except (msgspec.DecodeError, RecursionError):
        return arguments


@functools.lru_cache(maxsize=2)
def _cipher(key: bytes) -> AESGCM:
    # Imported by the first round: most daemons see none.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(hmac.digest(key, b"mcphub requestState", hashlib.sha256))


def seal(key: bytes, of: Round, state: State, now: float, nonce: bytes) -> str:
    """The state that the agent gets; `now` is wall-clock seconds, so that a seal outlives a restart. `nonce` must never
    be used twice."""
    body = msgspec.json.encode(_Sealed(now + of.lifetime, state))
    return base64.urlsafe_b64encode(nonce + _cipher(key).encrypt(nonce, body, of.digest())).decode("ascii")


def unseal(key: bytes, of: Round, sealed: str, now: float) -> State:
    """What was sealed. Raises BadState, which says no more than that; Expired, where that is all that is wrong."""
    if len(sealed) > MAX_SEALED:
        raise BadState("requestState cannot be read")
    try:
        data = base64.urlsafe_b64decode(sealed.encode("ascii"))
    except ValueError:
        raise BadState("requestState cannot be read") from None
    if base64.urlsafe_b64encode(data) != sealed.encode("ascii"):
        raise BadState("requestState cannot be read")  # the decoder skips what is no base64
    from cryptography.exceptions import InvalidTag

    try:
        body = _cipher(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], of.digest())
        found = msgspec.json.decode(body, type=_Sealed)
    except (InvalidTag, ValueError):
        raise BadState("requestState was not given to this agent for this request") from None
    if found.expires < now:
        raise Expired(found.state)
    return found.state


_responses = msgspec.json.Decoder(dict[str, dict[str, Raw]]).decode


def check_responses(raw: Raw) -> None:
    """Raises ValueError, whose message says what is wrong, where `inputResponses` that an agent brings, b"" = it brings
    none, are not what a server must get: an object of results, which are objects."""
    try:
        if raw:
            _responses(raw)
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("`inputResponses` must be an object, with an object for each answer") from None


class InputRequired(msgspec.Struct):
    """The members of an `input_required` result that the hub looks at."""

    inputRequests: dict[str, Raw] | msgspec.UnsetType = msgspec.UNSET
    requestState: str | msgspec.UnsetType = msgspec.UNSET


def read_input_required(result: memoryview | bytes) -> InputRequired:
    """Raises ValueError where the result is not as the spec has it."""
    try:
        found = msgspec.json.decode(result, type=InputRequired)
    except (msgspec.DecodeError, RecursionError) as e:
        raise ValueError(str(e)) from None
    if found.inputRequests is msgspec.UNSET and found.requestState is msgspec.UNSET:
        raise ValueError("neither inputRequests nor requestState")
    if isinstance(found.requestState, str) and len(found.requestState) > MAX_STATE:
        raise ValueError("requestState is too large to be carried")
    return found

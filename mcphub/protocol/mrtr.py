"""Owns the rounds of modern requests that need input first: which results ask, and the seal on state between them.

It must not ask anybody. Both agents of a hub look like one principal to a server, so its `requestState` is wrapped:
only the agent it was given to may bring it back, for the same request, for a limited time (MCP spec 2026-07-28,
basic/patterns/mrtr). The seal is an HMAC: the state is the server's own and opaque to everybody already.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

import msgspec

from mcphub.protocol.jsonrpc import Raw

#: Methods that may answer `input_required`.
METHODS = frozenset({"tools/call", "prompts/get", "resources/read"})
#: How long a round may take, seconds.
LIFETIME = 900.0
#: Seals of another form are refused.
FORMAT = 1
#: The largest state of a server that is carried.
MAX_STATE = 256 << 10
#: The largest seal that is looked at: a character of a state may take six bytes in JSON, and base64 adds a third.
MAX_SEALED = 9 * MAX_STATE


class BadState(ValueError):
    """A `requestState` that was not given to this agent for this request, was changed, or is too old: -32602."""


class _Sealed(msgspec.Struct, array_like=True):
    format: int
    digest: str
    expires: float
    #: None where the server gave no state of its own: then none goes back to it.
    state: str | None


class Round(msgspec.Struct, frozen=True):
    """What a seal is bound to: the agent, the server, and the request."""

    principal: str
    server: str
    method: str
    target: str
    arguments: bytes

    def digest(self) -> str:
        # As JSON, since each of them may hold any character: no two rows of names give the same bytes.
        parts = msgspec.json.encode([self.principal, self.server, self.method, self.target])
        return hashlib.sha256(parts + _canonical(self.arguments)).hexdigest()


def _canonical(arguments: bytes) -> bytes:
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments or b"{}"), order="deterministic")
    except (msgspec.DecodeError, RecursionError):
        return arguments


def seal(key: bytes, of: Round, state: str | None, now: float) -> str:
    """The state that the agent gets; `now` is wall-clock seconds, so that a seal outlives a restart."""
    body = msgspec.json.encode(_Sealed(FORMAT, of.digest(), now + LIFETIME, state))
    mac = hmac.new(key, body, hashlib.sha256).digest()
    return base64.urlsafe_b64encode(mac + body).decode("ascii")


def unseal(key: bytes, of: Round, sealed: str, now: float) -> str | None:
    """The server's own state, None where it gave none. Raises BadState, which says no more than that."""
    if len(sealed) > MAX_SEALED:
        raise BadState("requestState cannot be read")
    try:
        data = base64.urlsafe_b64decode(sealed.encode("ascii"))
    except ValueError:
        raise BadState("requestState cannot be read") from None
    if base64.urlsafe_b64encode(data) != sealed.encode("ascii"):
        raise BadState("requestState cannot be read")  # the decoder skips what is no base64
    mac, body = data[:32], data[32:]
    if not hmac.compare_digest(mac, hmac.new(key, body, hashlib.sha256).digest()):
        raise BadState("requestState was not given by this hub")
    try:
        found = msgspec.json.decode(body, type=_Sealed)
    except msgspec.DecodeError:
        raise BadState("requestState cannot be read") from None
    if found.format != FORMAT or found.expires < now or not hmac.compare_digest(found.digest, of.digest()):
        raise BadState("requestState does not belong to this request")
    return found.state


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

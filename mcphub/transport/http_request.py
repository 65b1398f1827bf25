"""Owns one request on its way over HTTP: what was sent, what its stream said of itself, what is still owed for it.

It must not send anything: the channel does, and the session takes up again what broke off. What the transports over
HTTP have in common stands here: the headers of every request, the rest before another try, how a refusal is told.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio
import msgspec

from mcphub import __version__
from mcphub.auth import challenge
from mcphub.protocol.http_answer import Head, Refusal
from mcphub.protocol.mirrored import Told
from mcphub.spec import ServerSpec

if TYPE_CHECKING:
    from mcphub.net import Answer, Header, Signer

#: Methods whose stream is meant to stay open.
ENDLESS = frozenset(["subscriptions/listen"])
#: Methods that mcphub asks for itself, beside every list: no work of an agent is done for them, so that none may take
#: minutes to begin to be answered. The first two ask for nothing but an answer.
_BRIEF = frozenset(["ping", "server/discover"])
_OWN = _BRIEF | {"initialize", "logging/setLevel"}
#: A request refused as one too many is sent so often, where the server wants at most so many seconds of rest; so many
#: where it does not say.
RATE_TRIES = 3
RATE_REST = 1.0
RATE_MOST = 30.0

SIGN_IN = "needs a sign-in"
#: Kinds of refusal that the server itself has spoken.
_SPOKEN = frozenset(["refused", "rate_limited", "status", "unreadable", "older"])


class HttpRequest:
    """`answered`: nothing more is owed for it. `sent`: the server may know of it. `counted`: it takes a place among
    those that travel at once. `retry` and `last_id` are what its stream said, for taking it up again."""

    __slots__ = (
        "answered", "body", "cancelled", "counted", "last_id", "method", "mid", "relisted", "retry", "scope", "sent",
        "told",
    )

    def __init__(self, mid: int, method: str, body: bytes, told: Told) -> None:
        self.mid = mid
        self.method = method
        self.body = body
        self.told = told
        self.scope = anyio.CancelScope()
        self.answered = self.cancelled = self.sent = self.relisted = False
        self.counted = method not in ENDLESS
        self.last_id = ""
        self.retry: float | None = None

    @property
    def modern(self) -> bool:
        return bool(self.told.version)

    @property
    def endless(self) -> bool:
        return self.method in ENDLESS

    @property
    def own(self) -> bool:
        """It is mcphub's own, and no agent's."""
        return self.method in _OWN or self.method.endswith("/list")

    @property
    def brief(self) -> bool:
        """It is no more than a question whether somebody answers."""
        return self.method in _BRIEF

    @property
    def probes(self) -> bool:
        return self.method == "server/discover"


def head_of(answer: Answer) -> Head:
    """What is looked at of an answer before its body."""
    if 200 <= answer.status < 300:
        return Head(answer.status, answer.header(b"content-type"))
    return Head(
        answer.status,
        answer.header(b"content-type"),
        answer.header(b"retry-after"),
        answer.location,
        ", ".join(answer.lines(b"www-authenticate")),
        answer.followed,
    )


def common_headers(headers: Mapping[str, str], credentials: bytes) -> tuple[list[Header], bool]:
    """(what every request carries, whether it has credentials). What the entry says comes before ours."""
    own = [(name.encode("ascii"), str(value).strip(" \t").encode("latin-1")) for name, value in headers.items()]
    names = {name.lower() for name, _ in own}
    if credentials and b"authorization" not in names:
        own.append((b"Authorization", credentials))
        names.add(b"authorization")
    ours = [(b"Accept-Encoding", b"gzip, deflate"), (b"User-Agent", b"mcphub/" + __version__.encode())]
    return [*(one for one in ours if one[0].lower() not in names), *own], b"authorization" in names


def rest_of(refusal: Refusal, left: float) -> float | None:
    """Seconds after which the same may be sent again though it was refused, None where it may not: one too many was
    not acted on, so that even a write can be. What does not end within `left` seconds, when nobody waits any more, is
    not begun (case C075)."""
    rest = refusal.retry_after or RATE_REST
    if refusal.kind != "rate_limited" or rest > RATE_MOST or rest >= left:
        return None
    return rest * (1.0 + 0.2 * random.random())


def time_for(method: str, spec: ServerSpec) -> float:
    """Seconds after which nobody waits for the answer to such a request, but for progress."""
    return spec.startup_timeout if method.endswith("/list") else spec.call_timeout


def after_signer(refusal: Refusal, signer: Signer | None) -> Refusal:
    """A refusal as whoever signs has it: of what a `headersHelper` gave it is no matter of signing in (case C116). A
    403 is one only where it says that more must be allowed (RFC 6750, 3.1)."""
    if refusal.forbidden and challenge.parse([refusal.challenge]).error == "insufficient_scope":
        refusal = msgspec.structs.replace(refusal, kind="needs_auth")
    asked = refusal.kind == "needs_auth" or (refusal.forbidden and signer is not None and not signer.login)
    told = signer.told(refusal.message) if asked and signer is not None else None
    return Refusal(*told, whole=True) if told is not None else refusal


def sign_in_at(signer: Signer | None) -> str:
    """The beginning of what a person is told where a server wants a sign-in."""
    if signer is None or not signer.login:
        return "wants credentials, and its entry has none; set a header that it accepts in `headers`"
    return f"{SIGN_IN}: {signer.login}"


def worded(method: str, refusal: Refusal, signed: bool, signer: Signer | None = None, between: str = "") -> str:
    """A refusal as the one who asked reads it. `signed`: the entry has credentials; `between`: a proxy that may have
    spoken in the server's place."""
    if refusal.whole:
        return refusal.message
    if refusal.kind != "needs_auth":
        via = f" (by way of the proxy {between})" if between else ""
        return f"{method}: {refusal.message}{via}" if refusal.kind in _SPOKEN else refusal.message
    if signed:
        return f"refuses the credentials of its entry ({refusal.message}); correct them in `headers`"
    return f"{sign_in_at(signer)} ({refusal.message})"

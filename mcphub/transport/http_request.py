"""Owns one request on its way over HTTP: what was sent, what its stream said of itself, what is still owed for it.

It must not send anything: the channel does, and the session takes up again what broke off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from mcphub.protocol.http_answer import Head
from mcphub.protocol.mirrored import Told

if TYPE_CHECKING:
    from mcphub.net import Answer

#: Methods whose stream is meant to stay open.
ENDLESS = frozenset(["subscriptions/listen"])


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
    def probes(self) -> bool:
        return self.method == "server/discover"


def head_of(answer: Answer) -> Head:
    """What is looked at of an answer before its body."""
    if 200 <= answer.status < 300:
        return Head(answer.status, answer.header(b"content-type"))
    return Head(answer.status, answer.header(b"content-type"), answer.header(b"retry-after"), answer.location)

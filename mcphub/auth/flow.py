"""Owns what a step of signing in asks of the network, and what comes back: a flow yields requests, receives answers.

It must not send anything. Flows are generators, so that every rule of theirs is a transcript in a test.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Literal, TypeVar
from urllib.parse import urlencode

import msgspec

Purpose = Literal[
    "resource metadata", "server metadata", "registration", "token", "revocation", "keys", "assertion", "identity"
]
Trouble = Literal["unsafe", "unreachable", "tls", "timeout", "lost", "too_large", "redirect"]


class Ask(msgspec.Struct, frozen=True):
    """One request. Its body and headers may hold secrets and are never printed."""

    purpose: Purpose
    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def __repr__(self) -> str:
        return f"Ask({self.purpose}, {self.method})"


class Answered(msgspec.Struct, frozen=True):
    """What was answered. Names of `headers` are in lower case; `body` is no longer than the limit for all answers."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    #: Secrets of the request that it answers, which it may repeat; see `echo`.
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Answered({self.status})"

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def transient(self) -> bool:
        """The same may be answered otherwise a little later."""
        return self.status >= 500 or self.status in (408, 429)


class Unanswered(msgspec.Struct, frozen=True):
    """Why nothing was answered that can be used. `kind`: `unsafe` (the address may not be asked), `unreachable`, `tls`,
    `timeout`, `lost` (the answer broke off), `too_large`, `redirect`. `sent`: the server may have acted on it. `detail`
    is the end of a sentence, without secrets."""

    kind: Trouble
    detail: str
    sent: bool = False


Reply = Answered | Unanswered
T = TypeVar("T")
Flow = Generator[Ask, Reply, T]


def get(purpose: Purpose, url: str, *headers: tuple[str, str]) -> Ask:
    """A document that is asked for, as JSON."""
    return Ask(purpose, url, "GET", (("Accept", "application/json"), *headers))


def post_form(purpose: Purpose, url: str, fields: Mapping[str, str], *headers: tuple[str, str]) -> Ask:
    """A form that is sent; fields without a value are left out."""
    body = urlencode({name: value for name, value in fields.items() if value}).encode("ascii")
    form = ("Content-Type", "application/x-www-form-urlencoded")
    return Ask(purpose, url, "POST", (("Accept", "application/json"), form, *headers), body)


def post_json(purpose: Purpose, url: str, document: object, *headers: tuple[str, str]) -> Ask:
    """A document that is sent."""
    kinds = (("Accept", "application/json"), ("Content-Type", "application/json"))
    return Ask(purpose, url, "POST", (*kinds, *headers), msgspec.json.encode(document))

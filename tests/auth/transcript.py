"""Owns how flows of signing in are played in tests: what each asks is compared, what was written down is answered.

It must not know any flow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl

import pytest

from mcphub.auth.discovery import AuthorizationServer
from mcphub.auth.failures import Failure, SignInFailed
from mcphub.auth.flow import Answered, Ask, Flow, Reply
from mcphub.auth.records import Account, account_of
from mcphub.spec import HttpSpec, OAuthSpec, Origin, Scope, Secret, ServerSpec

T = TypeVar("T")
NOW = 1_800_000_000.0
SERVER = AuthorizationServer("https://as.example", "https://as.example/authorize", "https://as.example/token")


class Played(Generic[T]):
    """The end of a flow; `asks` is all that it asked."""

    def __init__(self, asks: Sequence[Ask], result: T | None, failure: Failure | None) -> None:
        self.asks = list(asks)
        self.failure = failure
        self._result = result

    @property
    def result(self) -> T:
        assert self.failure is None, self.failure
        return self._result  # type: ignore[return-value]

    @property
    def urls(self) -> list[str]:
        return [ask.url for ask in self.asks]

    @property
    def reason(self) -> str:
        assert self.failure is not None, "it did not fail"
        return str(self.failure.reason)


def play(flow: Flow[T], *replies: Reply) -> Played[T]:
    """Answer one after the other; what is left over, or is missing, is an error of the test."""
    asks: list[Ask] = []
    left = list(replies)
    try:
        ask = next(flow)
        while True:
            asks.append(ask)
            if not left:
                pytest.fail(f"unexpected: {ask.method} {ask.url}")
            ask = flow.send(left.pop(0))
    except StopIteration as end:
        found: Played[T] = Played(asks, end.value, None)
    except SignInFailed as e:
        found = Played(asks, None, e.failure)
    assert not left, f"{len(left)} answers were not asked for"
    return found


def play_by_url(flow: Flow[T], answers: Mapping[str, Reply]) -> Played[T]:
    """Answer by URL, 404 where nothing is written down."""
    asks: list[Ask] = []
    try:
        ask = next(flow)
        while True:
            asks.append(ask)
            ask = flow.send(answers.get(ask.url, Answered(404)))
    except StopIteration as end:
        return Played(asks, end.value, None)
    except SignInFailed as e:
        return Played(asks, None, e.failure)


def answered(document: Any, status: int = 200, **headers: str) -> Answered:
    """A JSON document; `_` in names of headers stands for `-`."""
    found = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answered(status, json.dumps(document).encode(), {"content-type": "application/json", **found})


def form_of(ask: Ask) -> dict[str, str]:
    """What a form holds; each field stands there once."""
    pairs = parse_qsl(ask.body.decode("ascii"), keep_blank_values=True, strict_parsing=True)
    found = dict(pairs)
    assert len(found) == len(pairs)
    return found


def header_of(ask: Ask, name: str) -> str:
    """The only one of this name, "" = none."""
    found = [value for key, value in ask.headers if key.lower() == name.lower()]
    assert len(found) <= 1
    return found[0] if found else ""


def spec_of(url: str = "https://m.example/mcp", oauth: OAuthSpec | None = None, name: str = "s") -> ServerSpec:
    return ServerSpec(name, Origin(Scope.USER, "/mcp.json", name), HttpSpec(Secret(url), oauth=oauth or OAuthSpec()))


def account(url: str = "https://m.example/mcp", oauth: OAuthSpec | None = None, name: str = "s") -> Account:
    found = account_of(spec_of(url, oauth, name))
    assert found is not None
    return found

"""What becomes of a modern request that brings back a state."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from mcphub.gateway.parking import Parking
from mcphub.gateway.patience import Patience
from mcphub.gateway.retries import Retries
from mcphub.gateway.roots_allowed import RootsAllowed
from mcphub.gateway.rounds import Rounds, principal_of
from mcphub.protocol.envelope import RequestMeta
from mcphub.protocol.jsonrpc import EMPTY, Raw, quote
from mcphub.protocol.mrtr import Round, State

OF = Round("\0me", "s", "tools/call", "t", b"{}")
META = RequestMeta(True, "2026-07-28")


class Caller:
    """An agent that keeps what it gets."""

    def __init__(self) -> None:
        self.got = b""

    def send(self, *parts: Any) -> None:
        self.got += b"".join(parts)


def made() -> tuple[Rounds, Retries]:
    allowed, counters, patience = RootsAllowed(), Counter[str](), Patience({})
    rounds = Rounds(b"key", allowed, counters, patience)
    return rounds, Retries(rounds, Parking(b"key", principal_of, counters, allowed, patience))


def brought(sealed: Raw) -> tuple[State | None, bytes]:
    agent = Caller()
    state = made()[1].goes_on(agent, b"1", META, OF, EMPTY, sealed)  # type: ignore[arg-type]
    return state, agent.got


@pytest.mark.anyio
async def test_each_kind() -> None:
    """A server's own state, and pages, go on; a call that nobody knows is lost; what was not sealed is refused."""
    rounds, _ = made()
    for state in (State("own"), State(None), State(pages=("a",), tries=2)):
        assert brought(Raw(quote(rounds.sealed(OF, state)))) == (state, b"")
    found, got = brought(Raw(quote(rounds.sealed(OF, State(parked="x", round=1)))))
    assert found is None and b"request_state_lost" in got and b"-32602" in got
    old, parked = State("own"), State(parked="x", round=1, operation="op_1")
    found, got = brought(Raw(quote(rounds.sealed(replace(OF, lifetime=-1.0), parked))))
    assert found is None and b"request_state_lost" in got and b'"operationId":"op_1"' in got
    found, got = brought(Raw(quote(rounds.sealed(replace(OF, lifetime=-1.0), old))))
    assert found is None and b"bad_state" in got and b"requestState is too old" in got
    for odd in (b"5", b'"x"', b'""', b"null"):
        found, got = brought(Raw(odd))
        assert found is None and b"-32602" in got and b"lost" not in got

"""The first words to an agent that another daemon had: to a real gateway, over a wire that has no descriptors yet."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from mcphub.gateway.standing import Owed, Standing
from mcphub.sessions.resuming import resume
from mcphub.sessions.resumption import Resumption
from mcphub.sessions.session import Session
from mcphub.transport.wire import Wire
from tests.sessions.house import House, house
from tests.transport.peers import clean

pytestmark = pytest.mark.anyio

INIT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a"}}
CHANGED = [f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")]


@pytest.fixture
async def home() -> AsyncIterator[House]:
    async with clean():
        with anyio.fail_after(20):
            async with house() as home:
                await home.up("mcphub")
                yield home


def resumed(home: House, before: Resumption, rest: bytes = b"") -> tuple[Session, list[bytes]]:
    """The session, and the lines that its agent gets, after it has sent the rest of what was cut."""
    session = Session(1, home.gateway, client="", workspace="", pid=None, since=0.0)
    wire = Wire(home.batch, session)
    session.use(wire)
    home.gateway.join(session)
    resume(home.gateway, session, wire, before)
    wire.feed(rest)
    lines = b"".join(map(bytes, wire.unwritten())).split(b"\n")
    wire.abort()
    return session, lines[:-1]


def read(lines: list[bytes]) -> list[Any]:
    return [json.loads(line) for line in lines]


async def test_it_is_what_it_was(home: House) -> None:
    """No second handshake: only that lists may have changed, what was lost, and answers to what may be asked again."""
    standing = Standing(INIT, "error", listens={'"l"': {"toolsListChanged": True}}, owed=[Owed("3", "tools/call t")])
    before = Resumption(standing, [b'{"jsonrpc":"2.0","id":4,"method":"ping"}'], b'{"jsonrpc":"2.0","id":5,')
    session, lines = resumed(home, before, b'"method":"ping"}\n')
    assert (session.version, session.era, session.log_level, session.client) == ("2025-06-18", "legacy", "error", "a")
    said = read(lines)
    assert [m["method"] for m in said if "method" in m] == [CHANGED[0], *CHANGED]
    assert said[1]["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "l"}
    assert [m["id"] for m in said if "id" in m] == [3, 4, 5]


@pytest.mark.parametrize(
    ("head", "rest", "answers"),
    [
        (b'{"jsonrpc":"2.0","id":6,', b'cut"}}\n', [6]),
        (b'{"method":', b'cut"},"jsonrpc":"2.0","id":"x"}\n', ["x"]),
        (b'{"method":', b"cut}\n", [None]),
        (b"", b'{"jsonrpc":"2.0","id":7,"method":"ping"}\n', [7]),
    ],
)
async def test_a_line_with_a_gap(home: House, head: bytes, rest: bytes, answers: list[Any]) -> None:
    """It is answered as far as its id is known; the agent that had half an answer gets the end of that line first."""
    before = Resumption(Standing(INIT), [], head, torn=True, cut=True)
    _, lines = resumed(home, before, rest + b'{"jsonrpc":"2.0","id":8,"method":"ping"}\n')
    assert lines[0] == b""
    assert [m["id"] for m in read(lines[1:]) if "id" in m] == [*answers, 8]

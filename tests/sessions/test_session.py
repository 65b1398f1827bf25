"""One attached agent, between its wire and the gateway."""

from __future__ import annotations

import pytest

from mcphub.sessions.session import Session
from tests.fakes.channel import KeptChannel
from tests.gateway.bench import gateway

pytestmark = pytest.mark.anyio


async def test_from_the_wire_to_the_gateway_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent before there is a channel is nothing; each line is dispatched; the end is leaving."""
    async with gateway(monkeypatch) as bench:
        session = Session(7, bench.gateway, client="c", workspace="/w", pid=1, since=5.0)
        session.send(b"nowhere\n")
        channel = KeptChannel()
        session.use(channel)
        bench.gateway.join(session)
        session.frame(memoryview(b'{"jsonrpc":"2.0","id":"1","method":"ping"}'))
        assert channel.sent == [{"jsonrpc": "2.0", "id": "1", "result": {}}]
        assert bench.gateway.agents == {session}
        session.lost("why")
        assert bench.gateway.agents == set()
        assert session.left == "why"


@pytest.mark.parametrize(
    ("head", "mid"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"id":8,"x":"', 7),
        (b'{"jsonrpc": "2.0", "id": "a-7", "method": "tools/call", "params": {"x', "a-7"),
        (b'{"method":"tools/call","params":{"id":8,"x":"', None),
        (b'{"id":1,"id":2,"method":"x","params":{"', None),
        (b"x" * 4096, None),
    ],
)
async def test_a_message_that_was_thrown_away(
    monkeypatch: pytest.MonkeyPatch, head: bytes, mid: int | str | None
) -> None:
    """C049: the agent is told which request it was, as far as its beginning says."""
    async with gateway(monkeypatch) as bench:
        session = Session(7, bench.gateway, client="c", workspace="", pid=1, since=5.0)
        session.use(channel := KeptChannel())
        session.too_long(head, "a line is longer than 64 MiB")
        [answer] = channel.sent
        assert answer["id"] == mid
        assert answer["error"]["code"] == -32600
        assert "longer than 64 MiB" in answer["error"]["message"]

"""Who holds a server up."""

from __future__ import annotations

import anyio
import pytest

from mcphub.gateway.call import whose
from mcphub.gateway.holding import Holder, holders, named
from tests.gateway.bench import META, Bench
from tests.gateway.shelves import CAPABLE, FORM, Shelves, legacy

pytestmark = pytest.mark.anyio


def test_how_it_is_said() -> None:
    """Each agent by name, a few of them."""
    assert named([], 50.0) == ""
    one = Holder("claude", "/w", 10.0)
    assert named([one], 50.4) == "the agent claude has not answered a question of it for 40 s"
    text = named([one, Holder("", "", 49.0)], 50.0)
    assert text.endswith("; an agent without a name has not answered a question of it for 1 s")
    assert named([one] * 5, 50.0).endswith("; and 2 more")


async def test_who_was_asked(shelves: Bench) -> None:
    """An agent of either era counts from when it was asked until it has answered."""
    await shelves.up(server := Shelves("s"))
    client = shelves.worker(server).client
    assert client is not None
    agent, modern = legacy(shelves), shelves.agent()
    agent.session.client, agent.session.workspace = "one\x07" + "x" * 200, "/w\0more"
    agent.ask("tools/call", {"name": "mcp__s__t"}, id=1)
    request = await server.call()
    key = server.spec.key()
    assert shelves.gateway.unanswered(key) == []
    server.ask("elicitation/create", FORM)
    [held] = shelves.gateway.unanswered(key)
    assert (held.client, held.workspace) == ("one" + "x" * 77, "/w")
    [call] = agent.session.calls.values()
    assert holders(client, whose(call)) == []
    agent.write({"jsonrpc": "2.0", "id": agent.of("elicitation/create")[0]["id"], "result": {"action": "accept"}})
    assert shelves.gateway.unanswered(key) == []
    server.text(request, "done")
    modern.modern("tools/call", {"name": "mcp__s__t"}, id=2, meta={**CAPABLE, META + "clientInfo": {"name": "two"}})
    request = await server.call(2)
    server.ask("elicitation/create", FORM, id="m")
    with anyio.fail_after(5):
        while not modern.answers(2):  # noqa: ASYNC110
            await anyio.sleep(0.002)
    assert [one.client for one in shelves.gateway.unanswered(key)] == ["two"]
    server.text(request, "done")
    assert shelves.gateway.unanswered(key) == []
    server.lose("gone")
    shelves.gateway.unanswered(key)

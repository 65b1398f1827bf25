"""Circuit breakers in front of real workers whose channels the test speaks for."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcphub.gateway import breaker, circuits, retry
from mcphub.gateway.breaker import FAILURES, State
from mcphub.gateway.call import Trouble
from tests.gateway.bench import Agent, Bench, Message, call
from tests.gateway.shelves import Shelves
from tests.gateway.test_again import Hinting, kind_of, quick

__all__ = ["quick"]
pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is open for moments only."""
    monkeypatch.setattr(breaker, "FIRST", 0.1)


async def fails(
    bench: Bench, agent: Agent, server: Hinting, count: int, tool: str = "post", kind: str = "status"
) -> None:
    """So many calls of this agent's fail by themselves, which its connection survives."""
    client = bench.worker(server).client
    assert client is not None
    for number in range(count):
        before = len(server.of("tools/call"))
        agent.ask("tools/call", call(f"mcp__s__{tool}"), id=f"f{number}")
        client.unanswered((await server.call(before + 1))["id"], kind, "HTTP 503")
        client._strikes = type(client._strikes)()


def held_back(agent: Agent, tool: str = "post", mid: Any = 1) -> Message | None:
    """What a call is told that is held back, None = it was sent."""
    agent.got.clear()
    agent.ask("tools/call", call(f"mcp__s__{tool}"), id=mid)
    if not agent.answers(mid):
        return None
    [answer] = agent.answers(mid)
    result: Message = answer["result"]
    assert result["isError"]
    error: Message = result["_meta"]["dev.mcphub/error"]
    assert error["kind"] == "circuit_open" and error["tool"] == tool and error["server"] == "s"
    return {**error, "text": result["content"][0]["text"]}


async def test_all_is_well(bench: Bench) -> None:
    """Where nothing fails there is nothing, whatever the server says: a tool's isError and a JSON-RPC error are
    answers."""
    await bench.up(server := Hinting())
    agent = bench.agent().initialize()
    for number in range(1, 3 * FAILURES, 2):
        agent.ask("tools/call", call("mcp__s__post"), id=1)
        server.result((await server.call(number))["id"], {"content": [], "isError": True})
        agent.ask("tools/call", call("mcp__s__post"), id=1)
        error = {"code": -32603, "message": "no"}
        server.say({"jsonrpc": "2.0", "id": (await server.call(number + 1))["id"], "error": error})
    assert bench.gateway.circuits.known == {}


@pytest.mark.parametrize("kind", ["refused", "needs_auth", "rate_limited", "unreadable", "session"])
async def test_what_does_not_count(bench: Bench, kind: str) -> None:
    """A refusal, of one user's credentials or of one request, is no failure of the way to the server."""
    await bench.up(server := Hinting())
    await fails(bench, bench.agent().initialize(), server, 2 * FAILURES, kind=kind)
    assert bench.gateway.circuits.known == {}


async def test_one_kind_of_calls_of_one_agent(bench: Bench) -> None:
    """K5.1: after failures in a row that agent's calls of that kind are answered at once, with why and for how long;
    its other calls go, and so do those of others. The row of the server says so."""
    await bench.up(server := Hinting())
    agent, other = bench.agent().initialize(), bench.agent("/elsewhere").initialize()
    await fails(bench, agent, server, FAILURES)
    told = held_back(agent)
    assert told is not None and 0 < told["retryAfterMs"] <= 130 and told["retryable"]
    assert "5 of your calls that may change something in a row got no answer (HTTP 503)" in told["text"]
    assert held_back(agent, "get") is None and held_back(other, mid=5) is None
    [one] = bench.gateway.circuits.shown(bench.worker(server).key)
    assert (one.client, one.workspace, one.calls) == ("test", "", "write")
    assert (one.state, one.failures) == (State.OPEN, FAILURES)
    assert one.since < one.until and one.cause == "HTTP 503"


async def test_closing_again(bench: Bench) -> None:
    """After its time one call goes; while that one is under way no other does, and its answer lets all go."""
    await bench.up(server := Hinting())
    agent = bench.agent().initialize()
    await fails(bench, agent, server, FAILURES)
    sent = len(server.of("tools/call"))
    await anyio.sleep(0.13)
    assert held_back(agent, mid=1) is None
    told = held_back(agent, mid=2)
    assert told is not None and "finding out" in told["text"]
    assert bench.gateway.circuits.shown(bench.worker(server).key)[0].state is State.HALF_OPEN
    server.text(await server.call(sent + 1), "here")
    assert bench.gateway.circuits.known == {}
    assert held_back(agent, mid=3) is None


@pytest.mark.parametrize("how", ["fails", "cancelled", "left"])
async def test_a_probe_that_is_not_answered(bench: Bench, how: str) -> None:
    """One that fails keeps it open for longer; one that its agent does not want any more gives its place back."""
    await bench.up(server := Hinting())
    agent, same = bench.agent().initialize(), bench.agent().initialize()
    await fails(bench, agent, server, FAILURES)
    sent = len(server.of("tools/call"))
    await anyio.sleep(0.13)
    assert held_back(agent, mid=1) is None
    client = bench.worker(server).client
    assert client is not None
    if how == "fails":
        client.unanswered((await server.call(sent + 1))["id"], "timeout", "no answer in time")
        told = held_back(same, mid=2)
        assert told is not None and told["retryAfterMs"] > 130 and "no answer in time" in told["text"]
    else:
        if how == "left":
            agent.leave()
        else:
            agent.notify("notifications/cancelled", {"requestId": 1})
        assert held_back(same, mid=2) is None


async def test_a_probe_that_is_given_up(bench: Bench) -> None:
    """A call that was let through to be sent again, and is given up before it is, gives its place back."""
    await bench.up(server := Hinting())
    agent, same = bench.agent().initialize(), bench.agent().initialize()
    await fails(bench, agent, server, FAILURES)
    await anyio.sleep(0.13)
    assert held_back(agent, mid=1) is None
    assert held_back(same, mid=2) is not None
    probe = agent.session.calls[b"1"]
    probe.trouble = Trouble(kind="status", message="HTTP 503")
    probe.gives_up("its turn did not come in time")
    assert kind_of(agent.answers(1)[0]) == "outcome_unknown"
    assert held_back(same, mid=3) is None


async def test_one_loss_is_one_failure(quick: Bench) -> None:
    """However many calls were in flight on a connection that is lost, it failed once; a server that dies each time is
    held back in the end."""
    await quick.up(server := Hinting(tools=("post",)))
    agent = quick.agent().initialize()
    for number in range(1, FAILURES + 1):
        await quick.until(lambda: (client := quick.worker(server).client) is not None and not client.over)
        quick.gateway.refresh()
        assert not quick.gateway.circuits.shown(quick.worker(server).key)
        before = len(server.of("tools/call"))
        for mid in range(10):
            agent.ask("tools/call", call("mcp__s__post"), id=mid)
        await server.call(before + 10)
        quick.worker(server).state = type(quick.worker(server).state)(since=-1000.0)  # type: ignore[call-arg]
        server.lose(f"killed {number}")
    assert quick.gateway.circuits.shown(quick.worker(server).key)


async def test_a_read_is_held_back_too(quick: Bench) -> None:
    """Reads count by the attempt; what is held back is not sent again."""
    await quick.up(server := Hinting(tools=("get",)))
    agent = quick.agent().initialize()
    client = quick.worker(server).client
    assert client is not None
    for attempt in range(1, FAILURES + 1):
        if attempt in (1, 4):
            agent.ask("tools/call", call("mcp__s__get"), id=attempt)
        client.unanswered((await server.call(attempt))["id"], "status", "HTTP 503")
        client._strikes = type(client._strikes)()
    while not agent.answers(4):
        await anyio.lowlevel.checkpoint()
    answer = agent.answers(4)[0]
    assert kind_of(answer) == "lost" and "too many calls before this one got no answer" in answer["error"]["message"]
    assert len(server.of("tools/call")) == FAILURES


async def test_what_is_long_ago(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures that nothing followed are forgotten, so that later calls cost nothing again."""
    monkeypatch.setattr(circuits, "FORGET", 0.05)
    await bench.up(server := Hinting())
    await fails(bench, bench.agent().initialize(), server, 1)
    assert bench.gateway.circuits.known
    with anyio.fail_after(5):
        while bench.gateway.circuits.known:
            await anyio.lowlevel.checkpoint()


async def test_there_are_never_too_many(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of agents are anybody's choice: the breaker whose last failure is longest ago goes."""
    monkeypatch.setattr(circuits, "MOST", 3)
    await bench.up(server := Hinting())
    for name in range(6):
        await fails(bench, bench.agent(f"/{name}").initialize(), server, 1)
    [known] = bench.gateway.circuits.known.values()
    assert sorted(principal for principal, _ in known) == ["/3\0test", "/4\0test", "/5\0test"]


async def test_a_machine_without_a_way(bench: Bench) -> None:
    """What fails since this machine is offline says nothing of the server."""
    await bench.up(server := Hinting())
    client = bench.worker(server).client
    assert client is not None
    client.severed = True
    await fails(bench, bench.agent().initialize(), server, 2 * FAILURES)
    assert bench.gateway.circuits.known == {}


async def test_what_only_reads_by_its_method(shelves: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for a resource that is held back ends by a JSON-RPC error, and its server hears nothing of it."""
    monkeypatch.setattr(retry, "ATTEMPTS", 1)
    await shelves.up(server := Shelves("s"))
    agent = shelves.agent().initialize()
    client = shelves.worker(server).client
    assert client is not None
    for number in range(1, FAILURES + 1):
        agent.ask("resources/read", {"uri": "x:1"}, id=number)
        client.unanswered((await server.got("resources/read", number))["id"], "status", "HTTP 503")
        client._strikes = type(client._strikes)()
    answer = agent.one("resources/read", {"uri": "x:1"}, id=99)
    assert kind_of(answer) == "circuit_open" and answer["error"]["code"] == -32603
    assert answer["error"]["data"]["dev.mcphub/error"]["retryAfterMs"] > 0
    assert "5 of your calls that only read in a row" in answer["error"]["message"]
    assert len(server.of("resources/read")) == FAILURES


async def test_a_server_that_was_connected_anew(quick: Bench) -> None:
    """It is worth a look at once, by one call."""
    await quick.up(server := Hinting())
    agent = quick.agent().initialize()
    await fails(quick, agent, server, FAILURES)
    assert held_back(agent) is not None
    server.lose("killed")
    await quick.until(lambda: (client := quick.worker(server).client) is not None and not client.over)
    assert held_back(agent, mid=1) is None and held_back(agent, mid=2) is not None
    server.text(await server.call(FAILURES + 1), "here")
    assert held_back(agent, mid=3) is None

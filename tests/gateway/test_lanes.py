"""Calls of several agents that meet, and limits, with real workers and sessions whose channels the test speaks for."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from mcphub.channel import Data
from mcphub.config.settings import LimitsSettings
from mcphub.gateway.call import AgentCall
from mcphub.gateway.kept import Kept
from mcphub.gateway.lane import ALONE, AMPLE, FEW
from mcphub.gateway.lanes import MANY, STROKE
from mcphub.spec import Allowance, Allowances, HttpSpec, Secret, ServerSpec
from mcphub.transport.kinds import TRANSPORTS
from tests.gateway.bench import Agent, Bench, Server, call, gateway
from tests.gateway.shelves import Shelves

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


class Waiting(Agent):
    """An agent whose test can wait for an answer."""

    news = anyio.Event()

    def send(self, *parts: Data) -> None:
        super().send(*parts)
        news, self.news = self.news, anyio.Event()
        news.set()

    async def answered(self, id: int) -> None:
        while not self.answers(id):
            await self.news.wait()


class Limited(Server):
    """A server whose entry limits its calls."""

    def __init__(self, name: str, allowance: Allowances | None = None, timeout: float = 600.0, **more: Any) -> None:
        super().__init__(name, **more)
        self._allowance = allowance
        self._timeout = timeout

    @property
    def spec(self) -> ServerSpec:
        return replace(super().spec, allowance=self._allowance, call_timeout=self._timeout)

    def ids(self) -> list[int]:
        return [int(message["params"]["arguments"].get("id", 0)) for message in self.of("tools/call")]

    def answer_all(self) -> int:
        """Answer what is in flight, and what comes meanwhile; how many that were."""
        count = 0
        while len(calls := self.of("tools/call")) > count:
            self.text(calls[count], "ok")
            count += 1
        return count


def ask(agent: Agent, id: int, tool: str = "t", server: str = "s", task: dict[str, Any] | None = None) -> None:
    params: dict[str, Any] = {"name": f"mcp__{server}__{tool}", "arguments": {"id": id}}
    agent.ask("tools/call", params | ({"_meta": {"dev.mcphub/task": task}} if task else {}), id=id)


def flood(agent: Agent, number: int, first: int = 1000) -> None:
    for id in range(first, first + number):
        ask(agent, id)


def data(answer: dict[str, Any]) -> dict[str, Any]:
    """What programs are told of a refusal."""
    found = answer["error"]["data"] if "error" in answer else answer["result"]["_meta"]
    return dict(found["dev.mcphub/error"])


# --- agents meet ------------------------------------------------------------------------------------------------------


async def test_one_agent_alone_is_not_held(bench: Bench) -> None:
    """Sixty-four calls of it go at once and are not even counted, though others are attached."""
    await bench.up(server := Limited("s"))
    greedy = bench.agent().initialize()
    bench.agent().initialize()
    flood(greedy, ALONE)
    assert len(server.ids()) == ALONE and bench.gateway.lanes.only is greedy.session
    server.answer_all()


async def test_a_thousand_calls_of_one_agent_alone(bench: Bench) -> None:
    """Where nothing is answered they are at the server within a moment, since they may run side by side."""
    await bench.up(server := Limited("s"))
    greedy = bench.agent().initialize()
    flood(greedy, 1000)
    assert ALONE <= len(server.ids()) < 2 * ALONE
    with anyio.fail_after(10):
        await server.call(1000)
    assert server.ids() == [*range(1000, 2000)]
    server.answer_all()
    assert not bench.gateway.lanes.waiting()


async def test_a_flood_beside_a_polite_agent(bench: Bench) -> None:
    """From when they meet, the flood goes in small portions, in order, and the other's calls are never behind it."""
    await bench.up(server := Limited("s"))
    greedy, polite = bench.agent().initialize(), bench.agent().initialize()
    flood(greedy, 50)
    ask(polite, 1)
    flood(greedy, 950, first=2000)
    assert len(server.ids()) == 51, "what was sent before stays where it is, and counts"
    for number in range(51):
        server.text(server.of("tools/call")[number], "ok")
    for turn in range(20):
        ask(polite, 10 + turn)
        sent = server.ids()
        assert sent[-1] == 10 + turn and sum(bench.gateway.lanes.waiting().values()) > 500
        for number in (51 + turn * 2, 52 + turn * 2):
            server.text(server.of("tools/call")[number], "ok")
    server.answer_all()
    assert [id for id in server.ids() if id >= 1000] == [*range(1000, 1050), *range(2000, 2950)]
    assert len([m for m in greedy.got if "result" in m and m["id"] != "init"]) == 1000
    assert not greedy.session.calls and not polite.session.calls
    assert bench.worker(server).counters()["queued"] > 900


async def test_a_flood_to_another_server_goes_in_strokes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its calls and their answers come together, with a pause in between that the other agent finds free; that one's
    calls wait for no stroke, and their ends are no reason for one."""
    monkeypatch.setattr("mcphub.gateway.lanes.PATIENCE", 3600)
    for name in ("SLOW", "AT_ONCE", "GUESSED"):  # so that it does not matter how long anything takes here
        monkeypatch.setattr(f"mcphub.gateway.lane.{name}", 3600)
    await bench.up(server := Limited("s"), other := Limited("r"))
    greedy, polite = bench.agent().initialize(), bench.agent().initialize()
    for id in range(1000, 1200):
        ask(greedy, id, server="r")
    ask(polite, 0)
    done = 0
    for _ in range(5):
        sent = len(other.ids())
        assert sent - done == (STROKE if done else ALONE + FEW)
        for number in range(done, sent):
            other.text(other.of("tools/call")[number], "ok")
            server.text(server.of("tools/call")[number], "ok")
            ask(polite, 1 + number)
            assert server.ids()[-1] == 1 + number
        done = sent
        assert len(other.ids()) == sent, "the next stroke has its time"
        await other.call(sent + STROKE)
    assert other.ids() == [*range(1000, 1000 + ALONE + FEW + 5 * STROKE)]


async def test_two_equal_agents_are_not_held(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty-four calls of each go as they come."""
    monkeypatch.setattr("mcphub.gateway.lanes.CHECK", 0)
    await bench.up(server := Limited("s"))
    one, two = bench.agent().initialize(), bench.agent().initialize()
    for id in range(64):
        ask(one, id)
        ask(two, id)
    await server.call(128)
    server.answer_all()
    for id in range(100, 164):
        ask(one, id)
        ask(two, id)
    await server.call(256)
    lanes = bench.gateway.lanes
    assert lanes.only is two.session, "and after a moment nothing is counted"
    server.answer_all()


async def test_slow_calls_side_by_side(bench: Bench) -> None:
    """Where a server answers nothing for a moment, what is held goes on: it may do them all at once."""
    await bench.up(server := Limited("s"))
    greedy, polite = bench.agent().initialize(), bench.agent().initialize()
    flood(greedy, MANY + 1)
    ask(polite, 1)
    flood(greedy, 191, first=2000)
    assert len(server.ids()) < 20
    await server.call(201)
    server.answer_all()


async def test_alone_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the other has left, nothing is counted any more."""
    monkeypatch.setattr("mcphub.gateway.lanes.CHECK", 0)
    await bench.up(server := Limited("s"))
    greedy, polite = bench.agent().initialize(), bench.agent().initialize()
    flood(greedy, 20)
    ask(polite, 1)
    assert not bench.gateway.lanes.only
    server.answer_all()
    polite.leave()
    flood(greedy, 2, first=3000)
    lanes = bench.gateway.lanes
    assert lanes.only is greedy.session
    flood(greedy, ALONE - 2, first=4000)
    assert len(server.ids()) == 21 + ALONE and lanes.only is greedy.session
    server.answer_all()


async def test_cancelled_and_left_while_waiting(bench: Bench) -> None:
    """What is not wanted any more is never sent, and nobody is told to forget it."""
    await bench.up(server := Limited("s"))
    greedy, other, polite = (bench.agent().initialize() for _ in range(3))
    flood(greedy, 20)
    ask(polite, 1)
    flood(greedy, 10, first=2000)
    flood(other, 30, first=3000)
    greedy.notify("notifications/cancelled", {"requestId": 2000})
    sent = len(server.ids())
    other.leave()
    server.answer_all()
    assert 2000 not in server.ids()
    assert len([id for id in server.ids() if id >= 3000]) <= 2 * AMPLE
    cancelled = {m["params"]["requestId"] for m in server.of("notifications/cancelled")}
    assert cancelled <= {m["id"] for m in server.of("tools/call")[:sent]}
    assert greedy.answers(2001) and not greedy.answers(2000)


async def test_lost_while_waiting(bench: Bench) -> None:
    """Calls that a lost server has not seen say so; those that it has do not."""
    await bench.up(server := Limited("s"))
    greedy, polite = bench.agent().initialize(), bench.agent().initialize()
    flood(greedy, 20)
    ask(polite, 1)
    flood(greedy, 100, first=2000)
    held = [id for id in range(2000, 2100) if id not in server.ids()]
    server.refuses = True
    server.lose("gone")
    for id in held:
        [answer] = greedy.answers(id)
        assert data(answer)["kind"] == "lost" and "was not sent" in answer["result"]["content"][0]["text"]
    assert not greedy.session.calls
    [answer] = polite.answers(1)
    assert data(answer)["kind"] in ("outcome_unknown", "lost")


async def test_an_agent_that_comes_by_single_requests(bench: Bench) -> None:
    """Over HTTP, where each request is a session of its own, one agent's requests are one flood."""
    await bench.up(server := Limited("s"))
    polite = bench.agent().initialize()
    for id in range(100):
        one = bench.agent()
        one.session.passing, one.session.client = True, "flood"
        one.modern("tools/call", {"name": "mcp__s__t", "arguments": {"id": 1000 + id}}, id=id)
        if id == 50:
            ask(polite, 1)
    assert 1 in server.ids() and sum(bench.gateway.lanes.waiting().values()) > 40
    server.answer_all()
    assert len(server.ids()) == 101 and not bench.gateway.lanes.waiting()


async def test_reads_wait_as_calls_do(bench: Bench) -> None:
    """Prompts and resources of a flood wait behind it."""
    server = Shelves("s")
    await bench.up(server)
    greedy, polite = bench.agent().initialize(), bench.agent().initialize()
    for id in range(20):
        ask(greedy, id)
    ask(polite, 99)
    for id in range(30, 60):
        greedy.ask("resources/read", {"uri": "x:1"}, id=id)
    assert len(server.of("resources/read")) == 0
    for number in range(20):
        server.text(server.of("tools/call")[number], "ok")
    assert 0 < len(server.of("resources/read")) <= AMPLE
    answered = 0
    while len(server.of("resources/read")) > answered:
        server.answer(server.of("resources/read")[answered], contents=[])
        answered += 1
    assert answered == 30


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.fixture
async def tight(nothing_is_left: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """A hub with limits that are reached."""
    limits = LimitsSettings(hub=4, server=3, agent=2, waiting=2)
    async with gateway(monkeypatch, limits=limits) as bench:
        yield bench


async def test_limits_of_agent_server_and_hub(tight: Bench) -> None:
    """K5.1: each holds back what is beyond it, and what waits goes in turns when there is room."""
    await tight.up(one := Limited("s"), two := Limited("r"))
    agents = [tight.agent().initialize() for _ in range(6)]
    for number, agent in enumerate(agents[:4]):
        for id in range(3):
            ask(agent, 10 * number + id)
    assert one.ids() == [0, 1, 10], "two of one agent, three at one server"
    ask(agents[4], 90, server="r")
    assert two.ids() == [90], "and four in all"
    ask(agents[5], 91, server="r")
    assert two.ids() == [90]
    two.answer_all()
    assert two.ids() == [90, 91]
    one.answer_all()
    two.answer_all()
    assert sorted(one.ids()) == [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32]
    assert all(not agent.session.calls for agent in agents)


async def test_more_than_may_wait(tight: Bench) -> None:
    """It is refused, and told what there is too much of, where that is set, and when to try again."""
    await tight.up(server := Limited("s"))
    agent = tight.agent().initialize()
    flood(agent, 5, first=0)
    [answer] = agent.answers(4)
    told, text = data(answer), answer["result"]["content"][0]["text"]
    assert answer["result"]["isError"] and told["kind"] == "overloaded" and told["retryAfterMs"] > 0
    assert "was not sent" in text and "[limits]" in text and "2 calls of this agent wait already" in text
    assert len(agent.session.calls) == 4 and tight.gateway.lanes.waiting() == {server.spec.key(): 2}
    assert tight.worker(server).counters()["overloaded"] == 1
    agent.ask("tools/call", call(), id="again")
    server.answer_all()
    flood(agent, 1, first=7)
    assert server.answer_all() == 5


async def test_limits_of_an_entry(bench: Bench) -> None:
    """They hold for an agent alone; a tool's own holds none of the others back."""
    own = Allowances(Allowance(3), {"one": Allowance(1)})
    await bench.up(server := Limited("s", own, tools=("one", "t")))
    agent = bench.agent().initialize()
    for id, tool in enumerate(["one", "one", "one", "t", "t", "t"]):
        ask(agent, id, tool)
    assert server.ids() == [0, 3, 4]
    server.text(server.of("tools/call")[1], "ok")
    assert server.ids() == [0, 3, 4, 5]
    server.answer_all()
    assert server.ids() == [0, 3, 4, 5, 1, 2]
    assert not agent.session.calls


async def test_the_time_in_the_queue_counts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that waits until its time is over is told so, and never sent."""
    monkeypatch.setattr("mcphub.gateway.lanes.SWEEP", 0.01)
    await bench.up(server := Limited("s", Allowances(Allowance(1)), timeout=0.2))
    agent = Waiting(bench, 1)
    agent.initialize()
    ask(agent, 1)
    ask(agent, 2)
    await agent.answered(2)
    assert data(agent.answers(2)[0])["kind"] == "overloaded"
    assert "it waited for 0.2 s" in agent.answers(2)[0]["result"]["content"][0]["text"]
    server.answer_all()
    assert server.ids() == [1]


async def test_mcphub_stops_while_calls_wait(bench: Bench) -> None:
    """They are told at once that they were not sent."""
    await bench.up(server := Limited("s", Allowances(Allowance(1))))
    agent = bench.agent().initialize()
    ask(agent, 1)
    ask(agent, 2)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.gateway.drain, 5)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        assert data(agent.answers(2)[0])["kind"] == "stopping"
        server.answer_all()
    assert server.ids() == [1] and agent.answers(1)


async def test_mcphub_stops_while_calls_wait_for_each_other(tight: Bench) -> None:
    """The end of one that held another back does not send that one."""
    await tight.up(one := Limited("s"), two := Limited("r"))
    first, second, third = [tight.agent().initialize() for _ in range(3)]
    for id, agent in ((1, first), (2, first), (3, second)):
        ask(agent, id)
    for id, server in ((4, "s"), (5, "s"), (6, "r")):
        ask(third, id, server=server)
    assert (one.ids(), two.ids()) == ([1, 2, 3], [])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tight.gateway.drain, 5)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        for id in (4, 5, 6):
            [answer] = third.answers(id)
            assert data(answer)["kind"] == "stopping"
        one.answer_all()
    assert (one.ids(), two.ids()) == ([1, 2, 3], [])


async def test_servers_are_gone_while_calls_wait_for_each_other(
    tight: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of one that held another back may be the end of that one, which is told once."""
    monkeypatch.setattr("mcphub.gateway.lanes.SWEEP", 0.01)
    await tight.up(one := Limited("s"), two := Limited("r"))
    first, second, third = tight.agent().initialize(), tight.agent().initialize(), Waiting(tight, 9)
    third.initialize()
    for id, agent in ((1, first), (2, first), (3, second)):
        ask(agent, id)
    for id, server in ((4, "s"), (5, "s"), (6, "r")):
        ask(third, id, server=server)
    clients = [client for server in (one, two) if (client := tight.worker(server).client) is not None]
    for client in clients:
        client.over = True
    for id in (4, 5, 6):
        await third.answered(id)
    for client in clients:
        client.over = False
    assert [len(third.answers(id)) for id in (4, 5, 6)] == [1, 1, 1]
    one.answer_all()


async def test_rates(bench: Bench) -> None:
    """What comes faster waits for its time; what cannot be reached in time is refused with the time to wait."""
    own = Allowances(Allowance(0, 20, 2), {"slow": Allowance(0, 0.001)})
    await bench.up(server := Limited("s", own, tools=("t", "slow")))
    agent = bench.agent().initialize()
    begun = asyncio.get_running_loop().time()
    for id in range(5):
        ask(agent, id)
    assert server.ids() == [0, 1]
    agent.notify("notifications/cancelled", {"requestId": 3})
    await server.call(4)
    assert server.ids() == [0, 1, 2, 4]
    assert asyncio.get_running_loop().time() - begun > 0.09, "two after the first two; the cancelled one took nothing"
    ask(agent, 7, "slow")
    ask(agent, 8, "slow")
    [answer] = agent.answers(8)
    told = data(answer)
    assert told["kind"] == "overloaded" and told["retryAfterMs"] > 900_000
    assert "`tools.slow.limits.rate` of its entry" in answer["result"]["content"][0]["text"]
    server.answer_all()


async def test_a_rate_for_each_agent(nothing_is_left: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One agent's calls are none of another's; whoever leaves and comes again under its name has used what it had."""
    limits = LimitsSettings(agent_rate=0.01, agent_burst=2)
    async with gateway(monkeypatch, limits=limits) as bench:
        await bench.up(server := Limited("s"))
        one, two = bench.agent().initialize(), bench.agent().initialize()
        two.session.client = "another"
        for id in range(3):
            ask(one, id)
        ask(two, 9)
        assert server.ids() == [0, 1, 9]
        one.leave()
        server.answer_all()
        for id in range(20, 30):
            again = bench.agent().initialize()
            ask(again, id)
            again.leave()
        assert server.ids() == [0, 1, 9]
        assert not bench.gateway.lanes.waiting()


# --- shared limits and rates ------------------------------------------------------------------------------------------


async def test_a_rate_is_given_out_in_turns(bench: Bench) -> None:
    """K5.1: a flood of one agent is before one call of another's once at most, and each that waits is told in order."""
    await bench.up(server := Limited("s", Allowances(Allowance(0, 50, 1))))
    greedy, polite = bench.agent().initialize(), bench.agent().initialize()
    flood(greedy, 400)
    ask(polite, 1)
    await server.call(3)
    assert 1 in server.ids()[:3]
    greedy.leave()
    ask(polite, 2)
    await server.call(server.ids().index(1) + 2)
    assert server.ids()[-1] == 2, "what left has taken nothing"
    server.answer_all()


async def test_who_cancels_has_taken_nothing_of_a_rate(bench: Bench) -> None:
    """K5.1: nor does it wait for any more: a tool's rate of one in a thousand seconds is whole for the next."""
    own = Allowances(Allowance(), {"slow": Allowance(0, 0.002, 1)})
    await bench.up(server := Limited("s", own, tools=("t", "slow"), timeout=2000.0))
    one, two = bench.agent().initialize(), bench.agent().initialize()
    for id in range(3):
        ask(one, id, "slow")
    assert server.ids() == [0] and sum(bench.gateway.held().values()) == 2
    for id in (1, 2):
        one.notify("notifications/cancelled", {"requestId": id})
    assert not bench.gateway.held()
    ask(two, 9, "slow")
    assert not two.answers(9), "its turn is the next, in 500 s"
    ask(one, 5)
    assert server.ids() == [0, 5], "other tools are none of that rate's business"
    two.leave()
    server.answer_all()


async def test_a_rate_and_a_limit(bench: Bench) -> None:
    """What waits for room has taken nothing of the rate either, and goes no faster than it may when there is room."""
    await bench.up(server := Limited("s", Allowances(Allowance(2, 20, 1))))
    agent = bench.agent().initialize()
    for id in range(5):
        ask(agent, id)
    await server.call(2)
    assert server.ids() == [0, 1] and agent.session.calls
    await anyio.wait_all_tasks_blocked()
    begun = asyncio.get_running_loop().time()
    for number in range(5):
        server.text(await server.call(number + 1), "ok")
    assert server.ids() == [0, 1, 2, 3, 4] and asyncio.get_running_loop().time() - begun > 0.1
    assert not agent.session.calls


async def test_how_many_wait_for_a_rate_is_one_agents_own(
    nothing_is_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood is refused beyond what may wait; another's first call waits all the same."""
    async with gateway(monkeypatch, limits=LimitsSettings(waiting=5)) as bench:
        await bench.up(server := Limited("s", Allowances(Allowance(0, 100, 1))))
        greedy, polite = bench.agent().initialize(), bench.agent().initialize()
        flood(greedy, 20)
        assert data(greedy.answers(1006)[0])["kind"] == "overloaded" and not greedy.answers(1005)
        ask(polite, 1)
        assert not polite.answers(1)
        await server.call(7)
        assert 1 in server.ids()
        server.answer_all()


@pytest.mark.parametrize("calls", [2, 3, 8])
async def test_something_is_kept_free(bench: Bench, calls: int) -> None:
    """K5.1: a server's limit is not all one agent's where there are others; the first call of another goes at once."""
    await bench.up(server := Limited("s", Allowances(Allowance(calls))))
    greedy, polite, third = (bench.agent().initialize() for _ in range(3))
    flood(greedy, 20)
    assert len(server.ids()) == calls - 1
    ask(polite, 1)
    assert server.ids()[-1] == 1
    ask(third, 2)
    assert server.ids()[-1] == 1
    server.text(server.of("tools/call")[calls - 1], "ok")
    assert server.ids()[-1] == 2, "what is free is for whoever has nothing yet"
    server.answer_all()


async def test_something_of_the_hub_is_kept_free(nothing_is_left: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """K5.1: one agent's hanging calls at one server do not shut the others to everybody."""
    async with gateway(monkeypatch, limits=LimitsSettings(hub=50)) as bench:
        await bench.up(one := Limited("s"), two := Limited("r"))
        greedy, polite = bench.agent().initialize(), bench.agent().initialize()
        flood(greedy, 60)
        assert len(one.ids()) == 50 - 6
        ask(polite, 1, server="r")
        assert two.ids() == [1]
        one.answer_all()
        two.answer_all()


async def test_something_of_a_server_is_kept_free(
    nothing_is_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K5.1: nor one server, of which one agent may have as many as the server may: an eighth is for the others."""
    async with gateway(monkeypatch, limits=LimitsSettings(server=200)) as bench:
        await bench.up(server := Limited("s"))
        greedy, polite = bench.agent().initialize(), bench.agent().initialize()
        flood(greedy, 300)
        with anyio.fail_after(10):
            await server.call(175)
        ask(polite, 1)
        assert server.ids()[-1] == 1
        ask(polite, 2)
        greedy.leave()
        server.answer_all()
        assert server.ids()[-2:] == [1, 2] and len(server.ids()) == 177


class Remote(Limited):
    """A server that is spoken to over HTTP."""

    @property
    def spec(self) -> ServerSpec:
        return replace(super().spec, transport=HttpSpec(Secret("http://127.0.0.1:9/mcp")))


@pytest.mark.parametrize(("calls", "most"), [(0, 88), (40, 35)])
async def test_a_server_over_http(bench: Bench, monkeypatch: pytest.MonkeyPatch, calls: int, most: int) -> None:
    """K5.1: it has a hundred calls at once where its entry does not say, and an eighth of them is for those who have
    nothing there: hanging calls of one agent do not keep out the first of another."""
    monkeypatch.setitem(TRANSPORTS, "http", TRANSPORTS["in-process"])
    await bench.up(server := Remote("s", Allowances(Allowance(calls)) if calls else None, era="modern"))
    bench.worker(server).sessions = None  # this server has one connection
    greedy, polite = bench.agent().initialize(), bench.agent().initialize()
    flood(greedy, 300)
    with anyio.fail_after(10):
        await server.call(most)
        ask(polite, 1)
        await server.call(most + 1)
    assert server.ids()[-1] == 1
    greedy.leave()
    server.answer_all()


async def test_what_counts_for_a_server_over_http(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """K5.1: its entry may allow more than a hundred; other servers have what the settings say."""
    monkeypatch.setitem(TRANSPORTS, "http", TRANSPORTS["in-process"])
    servers = [Remote("s", Allowances(Allowance(200)), era="modern"), Remote("r", era="modern"), Limited("q")]
    await bench.up(*servers)
    lanes = bench.gateway.lanes
    limits = [lanes._server(bench.worker(server).key).lane.limit for server in servers]
    assert limits == [200, 100, LimitsSettings().server]


# --- what waits is in sight -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", ["call", "leave", "nothing"])
async def test_a_call_that_waits_is_never_forgotten(bench: Bench, monkeypatch: pytest.MonkeyPatch, others: str) -> None:
    """K5.2: whatever else happens, a call of a task is refused by the task's deadline, and never sent after it."""
    monkeypatch.setattr("mcphub.gateway.lanes.SWEEP", 0.01)
    monkeypatch.setattr("mcphub.gateway.lanes.CHECK", 0)
    await bench.up(server := Limited("s", Allowances(Allowance(1))), other := Limited("r"))
    greedy, third = bench.agent().initialize(), bench.agent().initialize()
    polite = Waiting(bench, 7)
    polite.initialize()
    flood(greedy, 3)
    ask(third, 2)
    ask(polite, 1, task={"id": "t", "deadline": time.time_ns() / 1e6 + 150})
    if others == "call":
        for id in range(5):
            ask(third, 10 + id, server="r")
            other.answer_all()
    elif others == "leave":
        third.leave()
    with anyio.fail_after(10):
        await polite.answered(1)
    assert data(polite.answers(1)[0])["kind"] == "task_budget"
    server.answer_all()
    assert 1 not in server.ids() and 1002 in server.ids()
    assert not bench.gateway.held()


async def test_a_call_past_its_deadline_is_not_sent(bench: Bench) -> None:
    """K5.2: though nobody has looked since it passed, and there is room in this very moment."""
    await bench.up(server := Limited("s", Allowances(Allowance(1))))
    agent = bench.agent().initialize()
    ask(agent, 1)
    ask(agent, 2, task={"id": "t", "deadline": time.time_ns() / 1e6 + 30})
    time.sleep(0.05)  # noqa: ASYNC251  the loop must not run meanwhile
    server.text(server.of("tools/call")[0], "ok")
    assert data(agent.answers(2)[0])["kind"] == "task_budget" and server.ids() == [1]
    ask(agent, 3)
    server.answer_all()
    assert server.ids() == [1, 3]


async def test_bytes_that_wait(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are bounded for each agent, and free when their calls are cancelled, or sent, or their agent leaves."""
    monkeypatch.setattr(bench.gateway.lanes, "_kept", kept := Kept(10_000, 15_000))
    await bench.up(server := Limited("s", Allowances(Allowance(1))))
    greedy, polite, third = (bench.agent().initialize() for _ in range(3))

    def large(agent: Agent, id: int) -> None:
        agent.ask("tools/call", {"name": "mcp__s__t", "arguments": {"id": id, "pad": "x" * 4000}}, id=id)

    for id in range(4):
        large(greedy, id)
    told, text = data(greedy.answers(3)[0]), greedy.answers(3)[0]["result"]["content"][0]["text"]
    assert told["kind"] == "overloaded" and "of this agent's calls wait already" in text
    large(polite, 10)
    large(third, 20)
    assert data(third.answers(20)[0])["kind"] == "overloaded" and kept.total > 12_000
    greedy.notify("notifications/cancelled", {"requestId": 1})
    assert 8_000 < kept.total < 9_000
    polite.leave()
    assert 4_000 < kept.total < 5_000
    server.answer_all()
    assert kept.total == 0 and server.ids() == [0, 2]


# --- budgets ----------------------------------------------------------------------------------------------------------


async def test_a_task_with_so_many_calls(bench: Bench) -> None:
    """K5.2: more of them are refused, and nothing is sent; other tasks and agents are none of its business."""
    await bench.up(server := Limited("s"))
    agent, other = bench.agent().initialize(), bench.agent().initialize()
    task = {"id": "t", "calls": 2}
    for id in (1, 2, 3):
        ask(agent, id, task=task)
    told = data(agent.answers(3)[0])
    assert told["kind"] == "task_budget" and server.ids() == [1, 2]
    ask(other, 4, task=task)
    ask(agent, 5)
    assert server.ids() == [1, 2, 4, 5]
    assert all("_meta" not in message["params"] for message in server.of("tools/call"))
    server.answer_all()


async def test_a_task_with_a_deadline(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """K5.2: it bounds each of its calls, and when it has passed nothing is sent any more."""
    monkeypatch.setattr("mcphub.connection.client.SWEEP", 0.01)
    await bench.up(server := Limited("s"))
    agent = Waiting(bench, 1)
    agent.initialize()
    deadline = time.time_ns() / 1e6 + 200
    task = {"id": "t", "deadline": deadline}
    ask(agent, 1, task=task)
    await agent.answered(1)
    assert "by the deadline of the agent's task" in agent.answers(1)[0]["error"]["message"]
    assert server.of("notifications/cancelled")
    ask(agent, 2, task=task)
    assert data(agent.answers(2)[0])["kind"] == "task_budget" and server.ids() == [1]


async def test_reads_of_a_task(bench: Bench) -> None:
    """They end at its deadline, and are none of its calls."""
    await bench.up(server := Shelves("s"))
    agent = bench.agent().initialize()

    def read(id: int, task: dict[str, Any]) -> None:
        agent.ask("resources/read", {"uri": "x:1", "_meta": {"dev.mcphub/task": task}}, id=id)

    read(1, {"id": "t", "deadline": 1.0})
    assert data(agent.answers(1)[0])["kind"] == "task_budget" and not server.of("resources/read")
    for id in (2, 3):
        read(id, {"id": "t", "calls": 1})
        server.answer(await server.got("resources/read", id - 1), contents=[])
        assert "result" in agent.answers(id)[0]


async def test_a_task_that_is_none(bench: Bench) -> None:
    """It is an error of the request."""
    await bench.up(Limited("s"))
    agent = bench.agent().initialize()
    ask(agent, 1, task={"calls": 5})
    [answer] = agent.answers(1)
    assert answer["error"]["code"] == -32602 and "dev.mcphub/task" in answer["error"]["message"]


# --- whatever happens -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
async def test_each_call_ends_once(
    nothing_is_left: None, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """K5.1: whatever agents, servers and clocks do, no limit is passed, no call is sent after its time or twice, each
    that is wanted is answered once, and in the end nothing waits, and nothing is kept."""
    monkeypatch.setattr("mcphub.gateway.lanes.SWEEP", 0.005)
    monkeypatch.setattr("mcphub.gateway.lanes.CHECK", 0.005)
    chance = random.Random(seed)
    limits = LimitsSettings(hub=chance.choice([6, 20_000]), server=chance.choice([5, 10_000]), waiting=30)
    async with gateway(monkeypatch, limits=limits) as bench:
        whole = Allowance(chance.choice([0, 3]), chance.choice([0, 400.0]), 3)
        own = Allowances(whole, {"one": Allowance(1, 300.0, 2)})
        servers = [Limited("s", own, tools=("t", "one"), timeout=0.5), Limited("r", timeout=0.5)]
        await bench.up(*servers)
        agents = [bench.agent().initialize() for _ in range(3)]
        gone: list[Agent] = []
        wanted: dict[int, Agent] = {}
        until: dict[int, float] = {}
        sent: dict[int, float] = {}
        open_: list[tuple[Limited, dict[str, Any]]] = []
        seen = dict.fromkeys(("s", "r"), 0)
        loop = asyncio.get_running_loop()
        looked = loop.time()

        def look() -> None:
            nonlocal looked
            before, looked = looked, loop.time()
            for server in servers:
                calls = server.of("tools/call")
                for message in calls[seen[server.spec.name] :]:
                    id = int(message["params"]["arguments"]["id"])
                    assert id not in sent
                    # It came between the look before and this one.
                    sent[id] = before
                    assert before <= until.get(id, before) + 0.02, "sent after its time"
                    open_.append((server, message))
                seen[server.spec.name] = len(calls)
            flying = [in_flight(server) for server in servers]
            assert sum(flying) <= limits.hub and all(number <= limits.server for number in flying)
            assert not own.server.calls or flying[0] <= own.server.calls

        def in_flight(server: Limited) -> int:
            client = bench.worker(server).client
            assert client is not None
            return sum(isinstance(waiter, AgentCall) for waiter in client.waiting().values())

        for step in range(400):
            what = chance.random()
            if what < 0.6:
                agent, server = chance.choice(agents), chance.choice(servers)
                tool = chance.choice(["t", "one"]) if server is servers[0] else "t"
                task = None
                if chance.random() < 0.3:
                    left = chance.uniform(0.001, 0.1)
                    task = {"id": "t", "deadline": time.time_ns() / 1e6 + left * 1000}
                    until[step] = loop.time() + left
                wanted[step] = agent
                ask(agent, step, tool, server.spec.name, task)
            elif what < 0.8 and open_:
                server, message = open_.pop(chance.randrange(len(open_)))
                server.text(message, "ok")
            elif what < 0.88 and wanted:
                id = chance.choice(list(wanted))
                if not wanted[id].answers(id):
                    wanted.pop(id).notify("notifications/cancelled", {"requestId": id})
            elif what < 0.9 and len(gone) < 5:
                agent = agents.pop(chance.randrange(3))
                agent.leave()
                gone.append(agent)
                wanted = {id: one for id, one in wanted.items() if one is not agent}
                agents.append(bench.agent().initialize())
            elif what > 0.97:
                await anyio.sleep(chance.uniform(0, 0.03))
            look()
        with anyio.fail_after(20):
            while any(agent.session.calls for agent in agents):
                while open_:
                    server, message = open_.pop()
                    server.text(message, "ok")
                    look()
                await anyio.sleep(0.005)
                look()
        lanes = bench.gateway.lanes
        assert sum(bench.worker(server).counters()["queued"] for server in servers) > 20
        assert all(len(agent.answers(id)) == 1 for id, agent in wanted.items())
        assert not lanes.waiting() and not lanes._pace and lanes._kept.total == 0
        assert all(not way.lane.flying and not way.lane.waiting for way in lanes._all())

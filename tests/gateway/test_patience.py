"""How long a person may take, and what of a call's time that is."""

from __future__ import annotations

import anyio
import pytest
from msgspec.structs import replace

from mcphub.gateway.call import HARD_FACTOR
from mcphub.gateway.patience import Patience
from mcphub.spec import INPUT_TIMEOUT
from tests.gateway.bench import Bench
from tests.gateway.shelves import CAPABLE, FORM, Shelves, asked, legacy, patient, reply

pytestmark = pytest.mark.anyio

QUESTION = {"method": "elicitation/create", "params": FORM}
YES = {"action": "accept"}


async def test_what_its_entry_says(shelves: Bench) -> None:
    """It is the server's own; of one that was removed, what holds without an entry."""
    await shelves.up(server := Shelves("s"))
    of = Patience(shelves.supervisor.workers)
    assert of(server.spec.key()) == INPUT_TIMEOUT
    patient(shelves, server, 7.0)
    assert of(server.spec.key()) == 7.0
    assert Patience({})(server.spec.key()) == INPUT_TIMEOUT


@pytest.mark.parametrize("agents", ["legacy", "modern"])
@pytest.mark.parametrize("servers", ["legacy", "modern"])
async def test_one_limit_for_all_ways_of_asking(shelves: Bench, agents: str, servers: str) -> None:
    """B71: whatever era either speaks, a question that nobody answers ends with the time that the server's entry gives,
    though the call itself might take far longer; its server is told where it still waits."""
    await shelves.up(server := Shelves("s", era=servers))
    patient(shelves, server, 0.05)
    if agents == "legacy":
        agent = legacy(shelves)
        agent.ask("tools/call", {"name": "mcp__s__t"}, id=1)
    else:
        agent = shelves.agent()
        agent.modern("tools/call", {"name": "mcp__s__t"}, id=1, meta=CAPABLE)
    request = await server.call()
    if servers == "modern":
        server.result(request["id"], {"resultType": "input_required", "inputRequests": {"k": QUESTION}})
    else:
        server.ask("elicitation/create", FORM)
    with anyio.fail_after(5):
        if (agents, servers) == ("modern", "modern"):  # nothing waits: the seal is too old
            await anyio.sleep(0.06)
            state = agent.answers(1)[0]["result"]["requestState"]
            agent.modern("tools/call", {"name": "mcp__s__t", "requestState": state}, id=2, meta=CAPABLE)
            assert agent.answers(2)[0]["error"]["code"] == -32602
        elif servers == "legacy":
            assert (await server.got("notifications/cancelled"))["params"]["requestId"] == request["id"]
            assert server.replies()[0]["result"] == {"action": "cancel"}
        else:
            while not agent.answers(1):  # noqa: ASYNC110
                await anyio.sleep(0.005)
            assert agent.answers(1)[0]["error"]["data"]["dev.mcphub/error"]["kind"] == "input_timeout"
    assert len(server.of("tools/call")) == 1 and agent.session.calls == {}


@pytest.mark.parametrize("servers", ["legacy", "modern"])
async def test_a_person_costs_the_call_nothing(shelves: Bench, servers: str) -> None:
    """B71: what a person takes does not count; over rounds and questions there is one hard maximum all the same."""
    await shelves.up(server := Shelves("s", era=servers))
    agent = legacy(shelves)
    agent.ask("tools/call", {"name": "mcp__s__t"}, id=1)
    request = await server.call()
    [call] = agent.session.calls.values()
    began, hard = call.began, call.hard
    for number in (1, 2):
        if servers == "modern":
            server.result(request["id"], {"resultType": "input_required", "inputRequests": {"k": QUESTION}})
        else:
            server.ask("elicitation/create", FORM, id=number)
        still = call.still
        assert still >= began and call.deadline == still + INPUT_TIMEOUT
        call.still -= 5000.0  # as if it had begun long ago
        reply(agent, agent.of("elicitation/create")[-1], YES)
        if servers == "modern":
            request = await server.call(number + 1)
        assert call.still == 0.0
    assert 10_000 <= call.hard - hard < 10_005 and call.hard == call.began + call.idle * HARD_FACTOR
    assert call.deadline <= call.hard


async def test_rounds_have_one_deadline(shelves: Bench) -> None:
    """B71: each round is a sign of life, and none moves the hard maximum: a server that asks for ever ends there."""
    await shelves.up(server := Shelves("s", era="modern"))
    agent = legacy(shelves)
    agent.ask("tools/call", {"name": "mcp__s__t"}, id=1)
    request = await server.call()
    [call] = agent.session.calls.values()
    server.result(request["id"], {"resultType": "input_required", "inputRequests": {"k": QUESTION}})
    call.began -= call.idle * HARD_FACTOR + 1
    reply(agent, asked(agent), YES)
    error = agent.answers(1)[0]["error"]
    assert error["data"]["dev.mcphub/error"]["kind"] == "timeout" and agent.session.calls == {}
    assert len(server.of("tools/call")) == 1


async def test_the_queue_is_part_of_the_call(shelves: Bench) -> None:
    """B71: a call that waits for another agent's has one deadline for that and for its server."""
    await shelves.up(server := Shelves("s"))
    one, two = legacy(shelves), legacy(shelves)
    one.ask("tools/call", {"name": "mcp__s__t"}, id=1)
    first = await server.call()
    server.ask("elicitation/create", FORM)
    reply(one, asked(one), YES)
    two.ask("tools/call", {"name": "mcp__s__t"}, id=2)
    [call] = two.session.calls.values()
    before = call.began, call.deadline
    await anyio.sleep(0.002)
    server.text(first, "done")
    await server.call(2)
    assert (call.began, call.deadline) == before
    worker = shelves.worker(server)
    worker.spec = replace(worker.spec, call_timeout=0.05)
    one.ask("tools/call", {"name": "mcp__s__t"}, id=3)
    with anyio.fail_after(5):
        while not one.answers(3):  # noqa: ASYNC110
            await anyio.sleep(0.005)
    assert one.answers(3)[0]["result"]["_meta"]["dev.mcphub/error"]["kind"] == "busy"
    assert len(server.of("tools/call")) == 2  # it was never sent

"""Whose question it is, at a legacy server on one stream: any order of calls, questions, answers, cancellations, of
agents that leave and come back, and of the server's own end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcphub.connection.backoff import Backoff
from mcphub.connection.client import Client
from mcphub.gateway import parking, turns
from mcphub.gateway.call import AgentCall, waits
from tests.gateway.bench import META, Agent, Bench, Message, gateway
from tests.gateway.shelves import FORM, Shelves, legacy, restarted

ELICIT, ROOTS = "elicitation/create", "roots/list"
HOME = os.path.expanduser("~")
#: What may happen next: (what, which agent, which of several).
STEPS = (
    "call", "call", "read", "read", "ask", "ask", "roots", "finish", "answer", "answer", "cancel", "cancel", "leave",
    "withdraw", "lose",
)  # fmt: skip


class World:
    """Agents at one server, which acts on what it has read, in order: it asks because of a call that it has read, and
    does so until it has read that the call was cancelled. Questions name in their message the agent whose call made it
    ask, and themselves, which the hub does not look at."""

    def __init__(self, bench: Bench, server: Shelves, eras: Sequence[str]) -> None:
        self.bench, self.server, self.eras = bench, server, eras
        self.names = [f"agent{number}" for number in range(len(eras))]
        self.agents = [self.attached(number) for number in range(len(eras))]
        self.taken = [0] * len(eras)
        #: What each agent was asked and has not answered.
        self.shown: list[list[Message]] = [[] for _ in eras]
        self.sent: list[list[int]] = [[] for _ in eras]
        self.ids = self.position = 0
        #: The calls that the server works on, and the questions that it waits for, by the name of the agent.
        self.works: dict[int, str] = {}
        self.asked: dict[str, tuple[int, str]] = {}
        self.every: dict[str, str] = {}
        #: The questions that their agent was shown, and those of the last step that it must be shown by now.
        self.seen: set[str] = set()
        self.due: set[str] = set()
        #: The questions that were asked for a call which had been withdrawn: nobody may be shown them.
        self.late: set[str] = set()

    def attached(self, number: int) -> Agent:
        return legacy(self.bench) if self.eras[number] == "legacy" else self.bench.agent()

    def new_id(self) -> int:
        self.ids += 1
        return self.ids

    # -- agents

    def ask_for(self, who: int, **more: Any) -> None:
        number = self.new_id()
        params: Message = {"name": "mcp__s__t", "arguments": {"who": self.names[who]}, **more}
        self.sent[who].append(number)
        if self.eras[who] == "legacy":
            self.agents[who].ask("tools/call", params, id=number)
            return
        info = {"name": self.names[who], "version": "1"}
        able: Message = {"elicitation": {"form": {}}, "roots": {}}
        meta = {META + "clientCapabilities": able, META + "clientInfo": info}
        self.agents[who].modern("tools/call", params, id=number, meta=meta)

    def call(self, who: int, which: int) -> None:
        self.ask_for(who)

    def look(self) -> None:
        """Each agent looks at what it got: its own questions alone."""
        for who, agent in enumerate(self.agents):
            news, self.taken[who] = agent.got[self.taken[who] :], len(agent.got)
            for message in news:
                found = list(message.get("result", {}).get("inputRequests", {}).values())
                if message.get("method") in (ELICIT, ROOTS):
                    found.append(message)
                if found:
                    self.shown[who].append(message)
                for said in [one["params"]["message"] for one in found if one["method"] == ELICIT]:
                    name, _, question = said.removeprefix("[s] ").partition("#")
                    assert name == self.names[who], f"{self.names[who]} was asked what was for {said}"
                    assert question not in self.late, f"{name} was asked for a call that was withdrawn"
                    self.seen.add(question)

    def answer(self, who: int, which: int) -> None:
        if not self.shown[who]:
            return
        message = self.shown[who].pop(which % len(self.shown[who]))
        own = {ELICIT: {"action": "accept", "content": {"by": self.names[who]}}, ROOTS: {"roots": self.roots_of(who)}}
        if "method" in message:
            self.agents[who].write({"jsonrpc": "2.0", "id": message["id"], "result": own[message["method"]]})
        else:
            given = message["result"]
            answers = {key: own[one["method"]] for key, one in given["inputRequests"].items()}
            self.ask_for(who, requestState=given["requestState"], inputResponses=answers)

    def roots_of(self, who: int) -> list[Message]:
        name = self.names[who]
        return [{"uri": f"file://{HOME}/{name.strip(chr(39))}", "name": name}]

    def cancel(self, who: int, which: int) -> None:
        if flying := [int(mid) for mid in self.agents[who].session.calls]:
            self.agents[who].notify("notifications/cancelled", {"requestId": flying[which % len(flying)]})

    def leave(self, who: int, which: int) -> None:
        """And another one takes its place; a modern agent is the same over all its connections."""
        self.agents[who].leave()
        if self.eras[who] == "legacy":
            self.names[who] += "'"
            self.shown[who].clear()
        else:
            self.shown[who] = [message for message in self.shown[who] if "method" not in message]
        self.agents[who], self.taken[who] = self.attached(who), 0

    # -- the server

    def read(self, who: int, which: int) -> None:
        messages = self.server.messages
        while self.position < len(messages):
            message = messages[self.position]
            self.position += 1
            match message.get("method"):
                case "tools/call":
                    self.works[message["id"]] = message["params"]["arguments"]["who"]
                case "notifications/cancelled":
                    request = message["params"]["requestId"]
                    self.works.pop(request, None)
                    self.asked = {q: one for q, one in self.asked.items() if one[0] != request}
                case "ping":
                    self.server.result(message["id"], {})
                case _:
                    if "method" not in message:
                        self.asked.pop(message["id"], None)
                    continue  # nothing that is worth a step
            return

    def roots(self, who: int, which: int) -> None:
        """Nothing in this question says whose call it is for."""
        self.ask(who, which, ROOTS)

    def ask(self, who: int, which: int, method: str = ELICIT) -> None:
        if self.works:
            request = sorted(self.works)[which % len(self.works)]
            question = f"q{self.new_id()}"
            self.asked[question] = request, self.works[request]
            self.every[question] = self.works[request]
            if method == ROOTS:
                self.server.ask(ROOTS, id=question)
                return
            if self.is_clear(request):
                self.due.add(question)
            if request not in self.client.waiting():
                self.late.add(question)
            self.server.ask(ELICIT, {**FORM, "message": f"{self.works[request]}#{question}"}, id=question)

    @property
    def client(self) -> Client:
        client = self.bench.worker(self.server).client
        assert client is not None
        return client

    def is_clear(self, request: int) -> bool:
        """Whether a question of this call's can be nobody else's: all that is in flight at the server is one agent's,
        which waits for it, and the server has read of the end of all that was withdrawn there."""
        flying = {mid: call for mid, call in self.client.waiting().items() if isinstance(call, AgentCall)}
        sent = {m["id"]: m["params"]["arguments"]["who"] for m in self.server.of("tools/call")}
        if {sent[mid] for mid in flying} != {self.works[request]} or request not in flying or self.client.unread(60):
            return False
        return any(not waits(call) for call in flying.values())

    def finish(self, who: int, which: int) -> None:
        """A server that has asked because of a call waits for the answer before it ends that call."""
        waits = {request for request, _ in self.asked.values()}
        if free := sorted(self.works.keys() - waits):
            request = free[which % len(free)]
            del self.works[request]
            self.server.text({"id": request}, "done")

    def withdraw(self, who: int, which: int) -> None:
        if self.asked:
            question = sorted(self.asked)[which % len(self.asked)]
            del self.asked[question]
            self.server.notify("notifications/cancelled", {"requestId": question})

    async def lose(self, who: int, which: int) -> None:
        """It ends, and is there again without knowing of anything."""
        await restarted(self.bench, self.server)
        self.works.clear()
        self.asked.clear()
        self.position = len(self.server.messages)

    # -- what must hold

    def check(self) -> None:
        self.look()
        assert self.due <= self.seen, "its agent was not asked"
        assert not any("error" in reply for question in self.due for reply in self.server.replies(question))
        self.due.clear()
        for question, who in self.every.items():
            replies = self.server.replies(question)
            assert len(replies) <= 1, question
            for reply in replies:
                content = reply.get("result", {}).get("content")
                assert content is None or content == {"by": who}, f"{who}'s question was answered by {content}"
                assert content is None or question not in self.late, f"a call of {who} that was withdrawn goes on"
                for root in reply.get("result", {}).get("roots", []):
                    assert root["name"] == who, f"a call of {who} was told {root}"


async def run(eras: Sequence[str], steps: Sequence[tuple[str, int, int]], settles: float = turns.SETTLES) -> World:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parking, "WINDOW", 0.0)
        patch.setattr(turns, "SETTLES", settles)
        with anyio.fail_after(20):
            async with gateway(patch, backoff=Backoff(attempts=1000, first=0.001, most=0.001)) as bench:
                await bench.up(server := Shelves("s"))
                world = World(bench, server, eras)
                world.position = len(server.messages)
                for what, who, which in steps:
                    if (done := getattr(world, what)(who % len(eras), which)) is not None:
                        await done
                    for _ in range(3):
                        await anyio.lowlevel.checkpoint()
                    world.check()
                return world


era = st.sampled_from(["legacy", "modern"])
step = st.tuples(st.sampled_from(STEPS), st.integers(0, 1), st.integers(0, 5))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(era, min_size=2, max_size=2),
    st.lists(step, min_size=15, max_size=60),
    st.sampled_from([turns.SETTLES, 0.0]),
)
@example(  # one asks late, for a call that was cancelled: the other one's, which came meanwhile, has not asked
    ["legacy", "legacy"],
    [("call", 0, 0), ("read", 0, 0), ("cancel", 0, 0), ("call", 1, 0), ("ask", 0, 0), ("answer", 1, 0), ("read", 0, 0)],
    turns.SETTLES,
)
@example(  # the same for roots, of a server that has read nothing for long
    ["legacy", "modern"],
    [
        ("call", 0, 0), ("read", 0, 0), ("cancel", 0, 0), ("call", 1, 0), ("roots", 0, 0), ("answer", 1, 0),
        ("answer", 1, 0),
    ],
    0.0,
)
@example(  # the same with turns: the second call waits until the server has read of the first one's end
    ["legacy", "modern"],
    [
        ("call", 0, 0), ("read", 0, 0), ("ask", 0, 0), ("answer", 0, 0), ("read", 0, 0), ("call", 1, 0),
        ("cancel", 0, 0), ("read", 0, 0), ("ask", 0, 0), ("read", 0, 0), ("read", 0, 0), ("ask", 0, 0),
    ],
    turns.SETTLES,
)  # fmt: skip
@example(  # one agent's own calls: it asks for the one that was cancelled while the other one is in flight
    ["legacy", "legacy"],
    [("call", 0, 0), ("call", 0, 0), ("read", 0, 0), ("cancel", 0, 0), ("ask", 0, 0), ("answer", 0, 0)],
    turns.SETTLES,
)
@example(  # the same as a round, with a call that came after the cancellation
    ["modern", "legacy"],
    [("call", 0, 0), ("read", 0, 0), ("cancel", 0, 0), ("call", 0, 0), ("ask", 0, 0), ("answer", 0, 0)],
    0.0,
)
@example(  # over another connection, with one of two questions answered
    ["modern", "legacy"],
    [
        *[("call", 0, 0)] * 2, *[("read", 0, 0)] * 8, ("ask", 0, 0), ("ask", 0, 1), ("leave", 0, 0), ("answer", 0, 0),
        ("ask", 0, 0),
    ],
    turns.SETTLES,
)  # fmt: skip
def test_never_the_wrong_agent(eras: list[str], steps: list[tuple[str, int, int]], settles: float) -> None:
    """B43, B70: two agents of either era at one legacy server that asks: whatever comes in whatever order, though that
    server reads nothing for long, no agent sees a question that another one's call has caused, or a call of its own
    which it had given up, the server gets nobody else's answer, nor roots; and where it can be one agent's only, that
    agent sees it."""
    anyio.run(run, eras, steps, settles)


@pytest.mark.parametrize("eras", [[one, other] for one in ("legacy", "modern") for other in ("legacy", "modern")])
def test_the_right_agent(eras: list[str]) -> None:
    """B43: one after the other, over the end of a call, of an agent's connection and of the server, each is asked what
    its own call makes the server ask, and the server gets its answer."""
    turn = [("call", 0), ("read", 0), ("ask", 0), ("answer", 0), *[("read", 0)] * 4, ("finish", 0)]
    other = [(what, 1) for what, _ in turn]
    again = [*turn, *other, ("leave", 0), *turn, *other, ("lose", 0), *turn, *other]
    world = anyio.run(run, eras, [(what, who, 0) for what, who in again])
    assert world.seen == world.every.keys() and len(world.seen) == 6
    for question, who in world.every.items():
        [reply] = world.server.replies(question)
        assert reply["result"]["content"] == {"by": who}

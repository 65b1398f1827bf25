"""One remote server of both eras and agents that can do different things, at once: each is asked what it can answer."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.fakes.agent import META, Agent, Message, text
from tests.fakes.hub import Hub, row, running
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import Reply, Request, RudeHttp, body, encoded, event, stream

pytestmark = pytest.mark.anyio

EVERYTHING = Path(__file__).parents[1] / "fakes" / "everything.py"
ELICITATION, SAMPLING = "elicitation/create", "sampling/createMessage"


@asynccontextmanager
async def everything() -> AsyncIterator[str]:
    """The URL of a server on the official SDK that asks whoever calls."""
    command = [sys.executable, "-I", str(EVERYTHING), "--http", "0"]
    async with await anyio.open_process(command, stderr=None) as process:
        assert process.stdout is not None
        try:
            with anyio.fail_after(20):
                yield (await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 1000)).decode()
        finally:
            process.terminate()


@asynccontextmanager
async def legacy(hub: Hub, name: str, **capabilities: Any) -> AsyncIterator[Agent]:
    """A legacy agent of these capabilities, which answers with its name."""
    async with await hub.agent() as agent:
        agent.answers[ELICITATION] = form(name)
        agent.answers[SAMPLING] = sampled(name)
        await agent.initialize(capabilities=capabilities)
        yield agent


def form(name: str) -> Message:
    return {"action": "accept", "content": {"username": name, "email": f"{name}@x"}}


def sampled(name: str) -> Message:
    return {"role": "assistant", "model": "m", "content": {"type": "text", "text": name}}


async def modern(agent: Agent, tool: str, arguments: Message) -> tuple[Message, Message]:
    """(what a modern agent was asked in the first round, its answer after the second)."""
    meta: Message = {META + "clientCapabilities": {"elicitation": {"form": {}}, "sampling": {}}}
    params = {"name": f"mcp__far__{tool}", "arguments": arguments}
    first = (await agent.modern("tools/call", params, meta=meta))["result"]
    assert first["resultType"] == "input_required"
    [(key, question)] = first["inputRequests"].items()
    answer = form("modern") if question["method"] == ELICITATION else sampled("modern")
    again = {**params, "requestState": first["requestState"], "inputResponses": {key: answer}}
    return question, await agent.modern("tools/call", again, meta=meta)


async def ask(agent: Agent, tool: str, **arguments: str) -> Message:
    return await agent.call(f"mcp__far__{tool}", arguments)


async def test_three_agents_and_one_server() -> None:
    """Each agent's call comes to the server in the agent's own era, with exactly what it declared; the question that
    the call causes reaches that agent alone, and so does its answer. The server's entry says nothing of any of this."""
    async with everything() as url, running({"far": {"type": "http", "url": url}}) as hub:
        await hub.until_state("far")
        async with (
            legacy(hub, "both", sampling={}, elicitation={"form": {}}) as both,
            legacy(hub, "forms", elicitation={}) as forms,
            legacy(hub, "none") as none,
            await hub.agent() as new,
        ):
            found: dict[str, Any] = {}

            async def one(name: str, agent: Agent) -> None:
                found[name] = await ask(agent, "test_elicitation", message=f"Who is {name}?")

            async def last() -> None:
                found["modern"] = await modern(new, "test_elicitation", {"message": "Who is modern?"})

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one, "both", both)
                tasks.start_soon(one, "forms", forms)
                tasks.start_soon(last)
            for name, agent in (("both", both), ("forms", forms)):
                [asked] = agent.asked
                assert asked["params"]["message"] == f"[far] Who is {name}?"
                assert f'"username": "{name}"' in text(found[name])
            question, answer = found["modern"]
            assert question["params"]["message"] == "[far] Who is modern?"
            assert '"username": "modern"' in text(answer)

            assert text(await ask(both, "test_sampling", prompt="?")) == "LLM response: both"
            assert text((await modern(new, "test_sampling", {"prompt": "?"}))[1]) == "LLM response: modern"
            assert text(await ask(both, "test_missing_capability")) == "The caller can sample"
            for agent in (forms, none):
                error = (await ask(agent, "test_missing_capability"))["error"]
                assert error["message"] == "this tool needs sampling (the agent fake-agent does not support sampling)"
            assert [asked["method"] for asked in forms.asked] == [ELICITATION] and none.asked == []

            report = await hub.until(lambda report: row(report, "far")["further_sessions"] == 3)
            assert (row(report, "far")["era"], row(report, "far")["state"]) == ("modern", "connected")


async def test_a_server_that_loses_all_sessions() -> None:
    """C065: agents of every kind call on as if nothing had happened; at the end each session is ended, and nothing is
    left."""
    mcp = OrdinaryMcp(era="both")
    async with RudeHttp(mcp) as server:
        async with running({"far": {"type": "http", "url": server.url}}) as hub:
            await hub.until_state("far")
            async with legacy(hub, "a", sampling={}) as one, legacy(hub, "b") as two, await hub.agent() as new:
                for word in ("1", "2"):
                    for agent in (one, two):
                        assert text(await agent.call("mcp__far__echo", {"text": word})) == word
                    assert text(await new.call("mcp__far__echo", {"text": word}, era="modern")) == word
                    mcp.expire()
                assert (await hub.server("far"))["further_sessions"] == 2
                assert {str(request.params["capabilities"]) for request in server.sent("initialize")} == {
                    "{'sampling': {}}", "{}",
                }  # fmt: skip
        named = [request.header("Mcp-Session-Id") for request in server.sent("tools/call")]
        ended = [request.header("Mcp-Session-Id") for request in server.sent("DELETE")]
        assert named.count(None) == 2 and sorted(map(str, ended)) == ["session-3", "session-4"]
        await server.until(lambda: server.open == 0)


UPDATED = "notifications/resources/updated"


class Watched(OrdinaryMcp):
    """A server whose resources can be watched, and which keeps what is watched with the session: a call with the text
    `touch` changes them, and tells the caller of what its session watches."""

    def __init__(self) -> None:
        resources = {"resources": [{"uri": "x:1", "name": "x"}]}
        super().__init__(
            capabilities={"tools": {}, "resources": {"subscribe": True}, "logging": {}},
            results={
                "resources/list": resources,
                "resources/templates/list": {"resourceTemplates": []},
                "logging/setLevel": {},
            },
        )
        self.watched: list[tuple[str | None, str]] = []

    def __call__(self, request: Request) -> Reply:
        reply, session = super().__call__(request), request.header("Mcp-Session-Id")
        if reply.status != 200:
            return reply
        if request.key == "resources/subscribe":
            self.watched.append((session, request.params["uri"]))
            return body(request.result({}))
        if request.key == "resources/unsubscribe":
            self.watched.remove((session, request.params["uri"]))
            return body(request.result({}))
        if request.key == "tools/call" and request.params["arguments"]["text"] == "touch":
            uris = [uri for one, uri in self.watched if one == session]
            told = [encoded({"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri}}) for uri in uris]
            return stream(*map(event, told), event(request.result({"content": []})))
        return reply


async def updates(agent: Agent) -> list[str]:
    """The updates that it was told of by now, taken."""
    await agent.request("ping")
    found = [told for told in agent.notifications if told["method"] == UPDATED]
    agent.notifications[:] = [told for told in agent.notifications if told["method"] != UPDATED]
    return [told["params"]["uri"] for told in found]


async def test_what_is_watched_goes_where_the_calls_go() -> None:
    """A legacy agent's subscription is in the session of its calls, and in the next one when that is over; each change
    is told once, to those alone whose session it came in."""
    mcp = Watched()
    async with RudeHttp(mcp) as server, running({"far": {"type": "http", "url": server.url}}) as hub:
        await hub.until_state("far")
        async with legacy(hub, "a") as one, legacy(hub, "b") as like, legacy(hub, "c", elicitation={}, roots={}) as own:
            for agent in (one, like, own):
                answer = await agent.request("resources/subscribe", {"uri": "mcphub://far/x:1"})
                assert "result" in answer
            assert sorted(mcp.watched, key=str) == [("session-1", "x:1"), ("session-2", "x:1")]
            await one.call("mcp__far__echo", {"text": "touch"})
            assert [await updates(agent) for agent in (one, like, own)] == [["mcphub://far/x:1"]] * 2 + [[]]
            await own.call("mcp__far__echo", {"text": "touch"})
            assert [await updates(agent) for agent in (one, like, own)] == [[], [], ["mcphub://far/x:1"]]

            mcp.expire()
            mcp.watched.clear()
            assert text(await one.call("mcp__far__echo", {"text": "again"})) == "again"
            await one.notification(UPDATED)  # what changed meanwhile was not told
            await like.notification(UPDATED)
            await own.notification(UPDATED)
            await server.until(lambda: len(mcp.watched) == 2)
            await one.call("mcp__far__echo", {"text": "touch"})
            assert [await updates(agent) for agent in (one, like, own)] == [["mcphub://far/x:1"]] * 2 + [[]]
            named = {request.header("Mcp-Session-Id") for request in server.sent("tools/call")[-1:]}
            assert named < {session for session, _ in mcp.watched}

            for agent in (one, like):
                await agent.request("resources/unsubscribe", {"uri": "mcphub://far/x:1"})
            await server.until(lambda: len(mcp.watched) == 1)
        await server.until(lambda: not mcp.watched)


async def test_what_a_new_session_is_told() -> None:
    """B73: where the server answers 404 to its session, there is one `initialize`, and the next session has what the
    agent watches, and the log level that it chose; the call itself is done once."""
    mcp = Watched()
    async with RudeHttp(mcp) as server, running({"far": {"type": "http", "url": server.url}}) as hub:
        await hub.until_state("far")
        async with legacy(hub, "a", elicitation={}, roots={}) as agent:  # as the hub's own session
            assert (await agent.request("logging/setLevel", {"level": "error"}))["result"] == {}
            await agent.request("resources/subscribe", {"uri": "mcphub://far/x:1"})
            assert text(await agent.call("mcp__far__echo", {"text": "1"})) == "1"
            await server.until(lambda: any(r.params["level"] == "error" for r in server.sent("logging/setLevel")))
            before = {key: len(server.sent(key)) for key in ("initialize", "logging/setLevel", "resources/subscribe")}
            assert before["initialize"] == before["resources/subscribe"] == 1
            mcp.expire()
            mcp.watched.clear()
            assert text(await agent.call("mcp__far__echo", {"text": "2"})) == "2"
            await server.until(lambda: len(server.sent("logging/setLevel")) > before["logging/setLevel"])
            await agent.notification(UPDATED)
            await agent.call("mcp__far__echo", {"text": "touch"})
            await agent.notification(UPDATED)
            assert mcp.watched == [("session-2", "x:1")]
            for key, count in before.items():
                news = server.sent(key)[count:]
                assert len(news) == 1, key
                assert key == "initialize" or news[0].header("Mcp-Session-Id") == "session-2"
            assert server.sent("logging/setLevel")[-1].params["level"] == "error"
            named = [r.header("Mcp-Session-Id") for r in server.sent("tools/call")]
            assert named == ["session-1", "session-1", "session-2", "session-2"]


class OneSession(OrdinaryMcp):
    """A server that opens a session by ending the one before."""

    def initialized(self, request: Request) -> dict[str, Any]:
        self.known.clear()
        return super().initialized(request)


async def test_a_server_that_keeps_one_session() -> None:
    """Agents that can do different things share one session there after two evictions, which a person is told; their
    calls are answered all the same."""
    async with RudeHttp(OneSession()) as server, running({"far": {"type": "http", "url": server.url}}) as hub:
        await hub.until_state("far")
        async with legacy(hub, "a") as one, legacy(hub, "b", elicitation={}, roots={}) as two:
            for word in "123456":
                for agent in (two, one):
                    assert text(await agent.call("mcp__far__echo", {"text": word})) == word
            found = await hub.server("far")
            assert (found["state"], found["further_sessions"]) == ("connected", 0)
            assert [w for w in found["warnings"] if "one session at a time" in w]
            assert len(server.sent("initialize")) <= 6
            assert hub.stderr().count("one session at a time") == 1

"""Requests that are answered without a task: what takes that way, what leaves it, and that nothing of it stays."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphub.httpserver.connection import SHORT
from mcphub.sessions import http_answer, http_replay
from tests.fakes.http_agent import HttpAgent, encoded, modern
from tests.fakes.hub import Fake, eventually
from tests.fakes.inside import HTTP_WITHOUT_DRAIN, Inside, inside

pytestmark = pytest.mark.anyio

DO = "mcp__a__do"


def waiting_call(gate: Path, *before: Mapping[str, Any]) -> dict[str, Any]:
    """A call that answers once this file is there."""
    return {"name": DO, "arguments": {"actions": [*before, {"wait": str(gate)}, {"text": "done"}]}}


def request(agent: HttpAgent, era: str, params: dict[str, Any], **meta: Any) -> tuple[dict[str, str | None], bytes]:
    """Head and body of a call in this era, with the id 1."""
    if era == "legacy":
        return agent.legacy_headers, encoded("tools/call", params | {"_meta": meta}, 1)
    return modern("tools/call", params, meta=meta)


async def ready(hub: Inside) -> HttpAgent:
    """An agent that has a session, and a modern one has been here before."""
    await hub.until_state("a")
    agent = await hub.http_agent()
    await agent.initialize()
    head, body = modern("tools/list", {})
    async with agent.open("POST", head, body) as exchange:
        await exchange.whole()
    return agent


async def calls_of(hub: Inside, count: int) -> None:
    """Wait until the server has got so many calls."""
    await eventually(
        lambda: len([m for m in hub.received("a") if isinstance(m, dict) and m.get("method") == "tools/call"]) == count,
        timeout=10,
    )


def cancellations(hub: Inside) -> list[Any]:
    """What the server was told to give up."""
    return [m for m in hub.received("a") if isinstance(m, dict) and m.get("method") == "notifications/cancelled"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_call_in_flight_has_no_task(monkeypatch: pytest.MonkeyPatch, era: str, tmp_path: Path) -> None:
    """It waits in a table, and its answer is a document."""
    monkeypatch.setattr(http_replay, "OPENS_AFTER", 15.0)
    async with inside(monkeypatch, {"a": Fake()}) as hub:
        agent = await ready(hub)
        head, body = request(agent, era, waiting_call(tmp_path / "go"))
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                replies: list[Any] = []

                async def ask() -> None:
                    async with agent.open("POST", head, body) as exchange:
                        replies.append(await exchange.whole())

                tasks.start_soon(ask)
                await calls_of(hub, 1)
                assert not [task for task in asyncio.all_tasks() if "run_asgi" in repr(task.get_coro())]
                (tmp_path / "go").touch()
        message = replies[0].response
        assert replies[0].headers["content-type"] == "application/json"
        assert message["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_notification_makes_it_a_stream(monkeypatch: pytest.MonkeyPatch, era: str, tmp_path: Path) -> None:
    """What comes before the answer is told when it comes, and the answer follows on the same stream."""
    async with inside(monkeypatch, {"a": Fake()}) as hub:
        agent = await ready(hub)
        call = waiting_call(tmp_path / "go", {"progress": 1})
        head, body = request(agent, era, call, progressToken="p")
        with anyio.fail_after(20):
            async with agent.open("POST", head, body) as exchange:
                assert exchange.reply.headers["content-type"] == "text/event-stream"
                (tmp_path / "go").touch()
                reply = await exchange.whole()
        assert [message.get("method") for message in reply.messages] == ["notifications/progress", None]
        assert reply.messages[1]["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_client_that_hangs_up(monkeypatch: pytest.MonkeyPatch, era: str, late: bool, tmp_path: Path) -> None:
    """A modern agent's call is cancelled, a legacy one's runs on; also where it has become a stream meanwhile.
    Nothing is left of either."""
    if late:
        monkeypatch.setattr(http_answer, "KEEP_ALIVE", 0.02)
    async with inside(monkeypatch, {"a": Fake()}) as hub:
        agent = await ready(hub)
        head, body = request(agent, era, waiting_call(tmp_path / "go"))
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:

                commented = anyio.Event()

                async def ask() -> None:
                    async with agent.open("POST", head, body) as exchange:
                        if late:
                            await exchange.comment()
                            commented.set()
                        await exchange.whole()

                tasks.start_soon(ask)
                await calls_of(hub, 1)
                if late:
                    await commented.wait()
                tasks.cancel_scope.cancel()
            if era == "modern":
                await eventually(lambda: cancellations(hub), timeout=10)
            (tmp_path / "go").touch()
            assert (await agent.request("ping")).status == 200
            sessions = (await hub.status())["sessions"]
            assert [one["era"] for one in sessions] == ["legacy"]
            assert len(cancellations(hub)) == (era == "modern")


async def test_what_goes_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that is too long, one in two pieces, and one that is announced, have the same answers as others."""
    async with inside(monkeypatch, {"a": Fake()}) as hub:
        agent = await ready(hub)
        for filler in ("", "x" * SHORT):
            params = {"name": DO, "arguments": {"actions": [{"text": "done"}], "filler": filler}}
            head, body = request(agent, "legacy", params)
            with anyio.fail_after(20):
                async with agent.open("POST", head, body) as exchange:
                    message = (await exchange.whole()).response
            assert message["result"]["content"][0]["text"] == "done"


async def test_the_end_of_the_daemon_answers_what_waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Row 13: a call that waits in the table is told that mcphub stops, as one with a task is."""
    replies: list[Any] = []
    servers = {"a": Fake()}
    async with anyio.create_task_group() as tasks, inside(monkeypatch, servers, HTTP_WITHOUT_DRAIN) as hub:
        agent = await ready(hub)

        async def ask(era: str) -> None:
            head, body = request(agent, era, waiting_call(tmp_path / "never"))
            async with agent.open("POST", head, body) as exchange:
                replies.append(await exchange.whole())

        for era in ("legacy", "modern"):
            tasks.start_soon(ask, era)
        await calls_of(hub, 2)
    assert len(replies) == 2
    for reply in replies:
        assert "mcphub was stopped before the server a answered do" in reply.response["error"]["message"]

"""How loud servers are, and whom their log lines reach."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.connection.machine import Failed
from tests.gateway.bench import META, Bench, Server, call

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]



MESSAGE = "notifications/message"


def levels(server: Server) -> list[str]:
    return [m["params"]["level"] for m in server.of("logging/setLevel")]


async def test_the_most_verbose_level_wins(bench: Bench) -> None:
    """A server is set to what anybody hears who sees it; each agent gets its own share, with the server's name."""
    await bench.up(server := Server("s", logging=True), mute := Server("mute"))
    quiet, usual, loud = (bench.agent().initialize() for _ in range(3))
    assert quiet.one("logging/setLevel", {"level": "error"})["result"] == {}
    assert levels(server) == ["warning"], "others hear warnings without having asked"
    loud.one("logging/setLevel", {"level": "debug"})
    assert levels(server) == ["warning", "debug"]
    for level in ("debug", "warning", "error"):
        server.notify(MESSAGE, {"level": level, "data": level, "logger": "x"})
    heard = [[m["params"]["data"] for m in agent.of(MESSAGE)] for agent in (quiet, usual, loud)]
    assert heard == [["error"], ["warning", "error"], ["debug", "warning", "error"]]
    assert loud.of(MESSAGE)[0]["params"]["logger"] == "s/x"
    loud.leave()
    assert levels(server) == ["warning", "debug", "warning"]
    assert mute.of("logging/setLevel") == []


async def test_a_server_that_comes_later_is_told_the_level(bench: Bench) -> None:
    """As is one that comes back."""
    agent = bench.agent().initialize()
    agent.one("logging/setLevel", {"level": "debug"})
    await bench.up(server := Server("s", logging=True))
    await server.got("logging/setLevel")
    server.lose("gone")
    await bench.until(lambda: isinstance(bench.worker(server).state, Failed))
    agent.ask("tools/call", call(), id=5)
    await server.got("logging/setLevel", 2)
    assert levels(server) == ["debug", "debug"]


@pytest.mark.parametrize("params", [None, {}, {"level": "loud"}, {"level": 5}, {"level": None}])
async def test_no_level(bench: Bench, params: Any) -> None:
    """It is refused and changes nothing."""
    agent = bench.agent().initialize()
    assert agent.error("logging/setLevel", params)[0] == -32602
    assert agent.session.log_level == ""


async def test_a_modern_agent_hears_of_its_own_call_only(bench: Bench) -> None:
    """And only where it asked to, and where nobody else's call can be meant."""
    await bench.up(server := Server("s"))
    agent, other = bench.agent(), bench.agent()
    opted = {META + "logLevel": "info"}
    agent.modern("tools/call", call(), id=1, meta=opted)
    server.notify(MESSAGE, {"level": "debug", "data": 0})
    server.notify(MESSAGE, {"level": "info", "data": 1})
    other.modern("tools/call", call(), id=1)
    server.notify(MESSAGE, {"level": "error", "data": 2})
    server.text(await server.call(1), "x")
    server.notify(MESSAGE, {"level": "error", "data": 3})
    assert [m["params"]["data"] for m in agent.of(MESSAGE)] == [1]
    assert other.of(MESSAGE) == []


@pytest.mark.parametrize("params", [{}, {"level": "loud"}, {"level": 5}, {"level": "info", "logger": 5}])
async def test_log_messages_that_are_none(bench: Bench, params: Any) -> None:
    """They are counted and reach nobody."""
    await bench.up(server := Server("s"))
    agent = bench.agent().initialize()
    agent.one("logging/setLevel", {"level": "debug"})
    server.notify(MESSAGE, params)
    server.notify("notifications/unknown", {})
    assert agent.of(MESSAGE) == []
    assert bench.gateway.counters["bad_log_messages"] == 1
    assert bench.gateway.counters["dropped_notifications"] == 1

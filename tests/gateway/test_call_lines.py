"""What the log says of single calls."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

from mcphub.gateway.call_lines import MOST
from mcphub.observe.logline import fields, text_line
from mcphub.observe.redact import Redactor
from tests.gateway.bench import Bench, Server, call

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
NAME = "mcphub.gateway.call_lines"

Said = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Said]:
    """What was logged since, as fields."""
    with caplog.at_level(logging.DEBUG, NAME):
        yield lambda: [fields(record, Redactor()) for record in caplog.records if record.name == NAME]


async def test_a_call_with_a_trace(bench: Bench, said: Said) -> None:
    """H14, K6.1, K6.3: its id is on each line about it, on its error, and at its server; of what was said nothing
    is."""
    await bench.up(server := Server("s"))
    agent = bench.agent()
    meta = {"traceparent": PARENT, "tracestate": "a=1", "baggage": "secret=value"}
    agent.modern("tools/call", call(arguments={"q": "secret"}), id=7, meta=meta)
    request = await server.call()
    assert {key: request["params"]["_meta"][key] for key in meta} == meta
    server.lose("gone")
    with anyio.fail_after(5):
        while not agent.answers(7):
            await anyio.lowlevel.checkpoint()
    error = agent.answers(7)[0]["error"]
    assert error["data"]["dev.mcphub/error"]["traceId"] == TRACE
    lines = said()
    assert [(line["message"], line["level"]) for line in lines] == [
        ("s: t is sent", "debug"),
        ("s: t ended: outcome_unknown", "info"),
    ]
    assert all(line["trace"] == TRACE and line["request"] == "7" for line in lines)
    assert "secret" not in json.dumps(lines) and f"trace={TRACE}" in text_line(lines[1])


async def test_what_is_refused(bench: Bench, said: Said) -> None:
    """It has a line at the level debug, with the trace that was named; a trace that is none is nobody's."""
    await bench.up(Server("s"))
    agent = bench.agent()
    [answer] = agent.modern("tools/call", call("mcp__s__u"), meta={"traceparent": PARENT})
    assert answer["error"]["data"]["dev.mcphub/error"]["traceId"] == TRACE
    [answer] = agent.modern("tools/call", call("mcp__s__u"), meta={"traceparent": "00-1"})
    assert "traceId" not in answer["error"]["data"]["dev.mcphub/error"]
    assert [(line["level"], line.get("trace")) for line in said()] == [("debug", TRACE), ("debug", None)]


async def test_a_flood(bench: Bench, said: Said) -> None:
    """An agent that fails all the time writes so many lines a second, and how many there were."""
    await bench.up(server := Server("s"))
    agent = bench.agent()
    for number in range(MOST * 5):
        agent.modern("tools/call", call(), id=number)
    await server.call(MOST * 5)
    server.lose("gone")
    await bench.until(lambda: len(agent.got) == MOST * 5)
    assert MOST <= len(said()) <= 2 * MOST  # a second may have ended meanwhile


async def test_nothing_is_said_of_calls_that_do_well(bench: Bench, said: Said) -> None:
    """Nor are calls without a trace told of when they are sent."""
    await bench.up(server := Server("s"))
    agent = bench.agent().initialize()
    agent.ask("tools/call", call())
    server.text(await server.call(), "x")
    assert len(agent.answers(1)) == 1 and said() == []


async def test_traces_that_begin_here(bench: Bench, said: Said) -> None:
    """Where settings say so a call without a trace gets one; one that has keeps it."""
    bench.gateway.begins_traces = True
    await bench.up(server := Server("s"))
    agent = bench.agent().initialize()
    agent.ask("tools/call", call())
    agent.ask("tools/call", call(_meta={"traceparent": PARENT}), id=2)
    one, other = await server.call(), await server.call(2)
    assert other["params"]["_meta"]["traceparent"] == PARENT
    trace = one["params"]["_meta"]["traceparent"].split("-")[1]
    assert [line["trace"] for line in said()] == [trace, TRACE] and trace != TRACE

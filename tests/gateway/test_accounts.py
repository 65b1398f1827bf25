"""Who is told of a call's way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from mcphub.catalog.toolset import render
from mcphub.gateway.outcomes import Outcomes
from tests.gateway.bench import Bench, Server, call

pytestmark = pytest.mark.anyio


@pytest.fixture
async def journal(bench: Bench, tmp_path: Path) -> AsyncIterator[Outcomes]:
    bench.gateway.outcomes.open(str(tmp_path / "calls"))
    yield bench.gateway.outcomes
    bench.gateway.outcomes.end()


@pytest.mark.parametrize(
    ("read_only", "believed", "argument", "recorded"),
    [
        (True, True, "", False),
        (True, False, "", True),
        (False, True, "", True),
        (False, False, "", True),
        (True, True, "key", True),
    ],
)
async def test_the_journal(
    bench: Bench, journal: Outcomes, read_only: bool, believed: bool, argument: str, recorded: bool
) -> None:
    """A call of a tool that says it only reads, and is believed, is not recorded; one whose server knows a call by an
    argument is, since a person says with that argument that it does something."""
    server = Server("s")
    await bench.up(server)
    agent = bench.agent().initialize()
    route = agent.session.toolset.routes["mcp__s__t"]
    tool = msgspec.structs.replace(
        route.definition, read_only=read_only, repeatable=believed, idempotency_argument=argument
    )
    [rendered] = render(route.key, [tool], ["s"])
    routes = {"mcp__s__t": rendered.route}
    agent.session.toolset = msgspec.structs.replace(agent.session.toolset, routes=routes)
    agent.ask("tools/call", call())
    assert agent.session.calls[b"1"].attempts == 1
    assert bool(agent.session.calls[b"1"].operation) == recorded == bool(journal.records()())
    server.text(await server.call(), "x")
    assert "result" in agent.answers(1)[0]


async def test_what_only_reads_a_resource(bench: Bench, journal: Outcomes) -> None:
    """What has no tool is no call."""
    server = Server("s")
    await bench.up(server)
    agent = bench.agent().initialize()
    agent.ask("prompts/get", {"name": "mcp__s__p"})
    agent.ask("completion/complete", {"ref": {"type": "ref/prompt", "name": "mcp__s__p"}, "argument": {"name": "a"}})
    assert journal.records()() == []

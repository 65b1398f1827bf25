"""What the agents of a workspace see."""

from __future__ import annotations

import pytest

from mcphub.catalog.cache import Catalog
from mcphub.gateway.sight import Sight
from tests.gateway.bench import Bench, Server, call, settle

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]

CHANGED = "notifications/tools/list_changed"


async def test_workspaces(bench: Bench) -> None:
    """C162: each agent sees and is told of its own servers only."""
    a, b = Server("a"), Server("b")
    bench.visible = lambda workspace: {s.name: s.spec.key() for s in (a, b) if workspace in ("", f"/{s.name}")}
    both, only_a = bench.agent().initialize(), bench.agent("/a").initialize()
    await bench.up(a)
    await settle()
    await bench.up(a, b)
    await settle()
    assert both.tools() == ["mcp__a__t", "mcp__b__t"]
    assert only_a.tools() == ["mcp__a__t"]
    assert (len(both.of(CHANGED)), len(only_a.of(CHANGED))) == (2, 1)
    assert only_a.error("tools/call", call("mcp__b__t"))[0] == -32602


async def test_a_view_of_one_server(bench: Bench) -> None:
    """It has that server alone, under its own names; a name that is not seen is a view of nothing."""
    a, b = Server("a"), Server("b")
    await bench.up(a, b)
    sight = Sight(bench.supervisor.snapshot, Catalog(), bench.visible)
    assert list(sight.seen("")) == ["a", "b"]
    assert dict(sight.seen("", "a")) == {"a": a.spec.key()}
    assert list(sight.toolset("", "a").routes) == ["t"]
    assert dict(sight.seen("", "c")) == {} and dict(sight.toolset("", "c").routes) == {}


async def test_what_is_shown_is_looked_for_once(bench: Bench) -> None:
    """The same objects for every agent that comes, until something changes."""
    a = Server("a")
    await bench.up(a)
    names = {"a": a.spec.key()}
    sight = Sight(bench.supervisor.snapshot, Catalog(), lambda workspace: names)
    before = sight.both("", "")
    assert sight.both("", "") is before
    sight.renew(set())
    again = sight.both("", "")
    assert again is not before and again[0] is before[0], "the catalog knows that nothing has changed"
    names = {"a": a.spec.key()}
    assert sight.both("", "") is not again
    a.lose("gone")
    assert sight.both("", "") == again


async def test_a_workspace_that_brings_nothing(bench: Bench) -> None:
    """It is shown what everybody is, the same objects; one with a server of its own is not."""
    a, b = Server("a"), Server("b")
    await bench.up(a, b)
    everybody, own = {"a": a.spec.key()}, {"a": a.spec.key(), "b": b.spec.key()}
    sight = Sight(bench.supervisor.snapshot, Catalog(), lambda workspace: own if workspace == "/own" else everybody)
    assert sight.toolset("/w") is sight.toolset("")
    assert sight.library("/w") is sight.library("")
    assert sight.both("/w", "") is sight.both("", "")
    assert sight.both("/own", "")[0] is not sight.both("", "")[0]
    assert list(sight.toolset("/own").routes) == ["mcp__a__t", "mcp__b__t"]


async def test_settled(bench: Bench) -> None:
    """A view waits for the first start of its own servers, and for nothing else."""
    ready, starting = Server("ready"), Server("starting", hold=True)
    await bench.up(ready)
    bench.want(ready, starting)
    sight = Sight(bench.supervisor.snapshot, Catalog(), lambda workspace: bench.visible(workspace))
    assert [sight.settled("", view) for view in ("", "ready", "starting", "none")] == [False, True, False, True]
    await starting.got("server/discover")
    starting.lose("gone")
    await bench.until(lambda: sight.settled(""))

"""How many servers open at once."""

from __future__ import annotations

import anyio
import pytest

from mcphub.spec import HttpSpec, InProcessSpec, Origin, Scope, Secret, ServerSpec, SseSpec, StdioSpec, WsSpec
from mcphub.supervisor.startup import Limiters

pytestmark = pytest.mark.anyio

ORIGIN = Origin(Scope.USER, "/u/mcp.json", "x")
LOCAL = ServerSpec("a", ORIGIN, StdioSpec("a"))
REMOTE = ServerSpec("r", ORIGIN, HttpSpec(Secret("https://h.example/mcp")))
INSIDE = ServerSpec("b", ORIGIN, InProcessSpec("b"))


async def test_each_kind_has_its_limiter() -> None:
    """C184: processes share the slots that were set, remote servers have their own; what lives in the daemon takes
    none of them."""
    limiters = Limiters.of(3, 7)
    for kind in (HttpSpec, SseSpec, WsSpec):
        assert limiters.for_spec(ServerSpec("r", ORIGIN, kind(Secret("x://h/")))) is limiters.for_spec(REMOTE)
    assert limiters.for_spec(REMOTE).total_tokens == 7
    assert Limiters.of(3).for_spec(REMOTE).total_tokens == 20
    assert limiters.for_spec(LOCAL).total_tokens == 3
    assert limiters.for_spec(LOCAL) is limiters.for_spec(ServerSpec("c", ORIGIN, StdioSpec("c")))
    assert limiters.for_spec(INSIDE) is not limiters.for_spec(LOCAL)


async def test_no_more_than_so_many_at_once() -> None:
    """C184: of fifty openings never more than three are under way, and all get their turn."""
    limiter = Limiters.of(3).for_spec(LOCAL)
    now = most = done = 0

    async def opening() -> None:
        nonlocal now, most, done
        async with limiter:
            now += 1
            most = max(most, now)
            await anyio.lowlevel.checkpoint()
            now -= 1
            done += 1

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(opening)
    assert (most, done) == (3, 50)

"""What others see of an instance."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcphub.connection.machine import Connected, Failed, Pending
from mcphub.transport.link import Surroundings
from tests.connection.workers import Bench, fake, working

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


async def test_a_view_is_of_one_moment(around: Surroundings, log: Path) -> None:
    """One that was taken does not change; two of a worker to which nothing happened are equal."""
    script = {"starts": [{}, {"before": [{"exit": 1}]}], "on": {"ping": [{"exit": 1}]}}
    async with working(Bench(fake(script, log=log), around)) as bench:
        before = bench.worker.view()
        assert (before.facts, before.tools, before.listed, before.tried) == (None, (), 0, False)
        await bench.connected()
        assert isinstance(before.state, Pending)
        up = bench.worker.view()
        assert up == bench.worker.view() and isinstance(up.state, Connected)
        assert up.facts is not None and up.tools == up.facts.tools and up.listed == 1
        assert bench.worker.client is not None
        bench.worker.client.notify("ping")
        bench.worker.client.channel.abort()  # type: ignore[union-attr]
        await bench.failed()
        down = bench.worker.view()
        assert isinstance(down.state, Failed) and down.tried
        assert down.tools is up.tools and down.facts is up.facts

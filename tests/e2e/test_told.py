"""What people are told of a real daemon's files and servers, each where it belongs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.hub import Fake, Place, running

pytestmark = pytest.mark.anyio


async def test_warnings_and_problems_where_they_belong(place: Place) -> None:
    """A warning about one entry is not told of another; whoever reconnects all hears of a file that cannot be read."""
    odd: dict[str, Any] = {"nonsense": 1}
    async with running({"odd": Fake({}, odd), "fine": Fake()}, place=place) as hub:
        report = await hub.until_state("odd", "fine")
        assert any("odd" in warning for warning in report["warnings"])
        for name, warned in (("odd", True), ("fine", False)):
            code, one = await hub.control("GET", "/v1/status", query={"name": name})
            assert code == 200 and one["warnings"] == []
            assert bool(one["servers"][0]["warnings"]) is warned
        code, done = await hub.control("POST", "/v1/reconnect", body={})
        assert (code, done) == (200, {"reconnected": ["fine", "odd"]})
        (place.config / "mcp.json").write_text("{", "utf-8")
        code, done = await hub.control("POST", "/v1/reconnect", body={})
        assert code == 200 and "mcp.json" in done["problems"][0]
        code, done = await hub.control("POST", "/v1/reconnect", body={"name": "fine"})
        assert (code, done) == (200, {"reconnected": ["fine"]})

"""The handlers of what people ask about configuration."""

from __future__ import annotations

import pytest

from mcphub.control.handlers.questions import get_config, get_policy, get_verdict, get_why
from mcphub.control.wire import Request
from mcphub.errors import ControlError
from mcphub.transport.peer import Peer
from tests.fakes.canned_hub import CannedHub

pytestmark = pytest.mark.anyio


def told(path: str = "", /, **query: str) -> Request:
    return Request(Peer(0, 0, None), {"name": path}, {"workspace": "/w", **query}, b"")


async def test_each_question_reaches_the_hub() -> None:
    """With its workspace."""
    hub = CannedHub()
    for name, configured in (("time", True), ("plugin:x:y", False)):
        report = (await get_why(hub, told(name))).report
        assert isinstance(report, dict)
        assert (report["name"], report["configured"], report["workspace"]) == (name, configured, "/w")
    report = (await get_config(hub, told())).report
    assert isinstance(report, dict)
    assert (report["format"], report["workspace"]) == ("mcphub-inventory", "/w")
    report = (await get_policy(hub, told())).report
    assert isinstance(report, dict)
    assert report["rules"] == []


@pytest.mark.parametrize(
    ("query", "about"),
    [({"name": "a"}, "a"), ({"url": "https://h/"}, "https://h/"), ({"command": '["a", "b c"]'}, "a b c")],
)
async def test_a_verdict_is_about_one_thing(query: dict[str, str], about: str) -> None:
    """A name, a URL or a list of words."""
    report = (await get_verdict(CannedHub(), told(**query))).report
    assert isinstance(report, dict)
    assert report["about"] == about


@pytest.mark.parametrize("query", [{}, {"command": "x"}, {"command": "[1]"}, {"command": '[""]'}, {"command": "[[[["}])
async def test_nothing_to_judge(query: dict[str, str]) -> None:
    """Without a name, a URL or a program the request is refused."""
    with pytest.raises(ControlError) as caught:
        await get_verdict(CannedHub(), told(**query))
    assert caught.value.status == 400

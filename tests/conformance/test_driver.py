"""The driver's agent: what it answers, what it configures, and that it gets through a hub in both eras."""

from __future__ import annotations

import sys

import anyio
import pytest

from tests.conformance import driver
from tests.conformance.suite import EVERYTHING
from tests.fakes.agent import Message, text
from tests.fakes.hub import running

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("method", "params", "said"),
    [
        ("roots/list", {}, {"roots": []}),
        ("ping", {}, {}),
        (
            "elicitation/create",
            {"requestedSchema": {"properties": {"a": {"default": 0}, "b": {"type": "string"}, "confirmed": {}}}},
            {"action": "accept", "content": {"a": 0, "confirmed": True}},
        ),
    ],
)
def test_answer(method: str, params: Message, said: Message) -> None:
    """Defaults are taken, also those that are false in Python; a confirmation is given; the rest is left out."""
    assert driver.answer(method, params) == said


def test_answers() -> None:
    """Each question is answered under its key; a state comes back only where one was given, even an empty one."""
    asked: Message = {"inputRequests": {"r": {"method": "roots/list"}}, "requestState": ""}
    assert driver.answers(asked) == {"inputResponses": {"r": {"roots": []}}, "requestState": ""}
    del asked["requestState"]
    assert driver.answers(asked) == {"inputResponses": {"r": {"roots": []}}}
    assert driver.answers({"requestState": "s"}) == {"requestState": "s"}


def test_setup() -> None:
    """A secret goes through the hub's environment, never into a file; a scenario without authorization has no oauth."""
    context = {"client_id": "c", "client_secret": "hidden"}
    made = driver.setup("auth/pre-registration", context, "http://localhost:1/mcp")
    assert made.entry["oauth"] == {"clientId": "c", "clientSecret": "${SUT_CLIENT_SECRET}"}
    assert "hidden" not in str(made.entry) + made.settings
    assert made.env["SUT_CLIENT_SECRET"] == "hidden"
    plain = driver.setup("tools_call", {}, "http://localhost:1/mcp")
    assert plain.entry == {"type": "http", "url": "http://localhost:1/mcp"}


@pytest.mark.parametrize(
    ("scenario", "does"),
    [
        ("tools_call", driver.add_numbers),
        ("auth/anything", driver.authorized_call),
        ("something-new", driver.only_list),
    ],
)
def test_plan(scenario: str, does: object) -> None:
    """What the driver does not know is listed at least."""
    assert driver.plan(scenario) is does


async def test_through_a_hub() -> None:
    """The agent attaches in either era, finds the server's tools by its own names, and calls one."""
    entry = {"command": sys.executable, "args": ["-I", str(EVERYTHING), "--stdio"]}
    async with running({driver.SERVER: entry}) as hub:
        for modern in (False, True):
            with anyio.fail_after(20):
                async with await driver.attached(hub, modern) as agent:
                    run = driver.Run(agent, modern, hub)
                    assert f"{driver.PREFIX}test_simple_text" in {tool["name"] for tool in await run.tools()}
                    assert "simple text" in text(await run.call("test_simple_text"))

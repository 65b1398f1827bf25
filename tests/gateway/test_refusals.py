"""What an agent gets for a request that is turned down before any server has seen it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.gateway import refusals
from mcphub.gateway.call_lines import CallLines
from mcphub.gateway.refusals import Refusals
from mcphub.gateway.repeats import Repeats
from mcphub.kinds import KINDS
from mcphub.protocol.envelope import NO_META, RequestMeta

TRACE = "0af7651916cd43dd8448eb211c80319c"


class Agent:
    """Only what is asked of one."""

    passing = False
    workspace = client = ""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def send(self, *parts: bytes) -> None:
        self.got.append(json.loads(b"".join(parts)))


def clock() -> float:
    return 1.0


@pytest.mark.parametrize("meta", [NO_META, RequestMeta(True, "2026-07-28", trace=TRACE)], ids=["legacy", "modern"])
def test_both_shapes(meta: RequestMeta) -> None:
    """A model reads the text, a program the same facts beside either."""
    agent, these = Agent(), Refusals(Repeats(clock), CallLines(clock))
    these.result(agent, b"1", meta, "overloaded", "No room.", server="s", tool="t", retryAfterMs=20)  # type: ignore[arg-type]
    these.error(agent, b"2", meta, -32602, "unknown_tool", "no such tool")  # type: ignore[arg-type]
    result, error = agent.got[0]["result"], agent.got[1]["error"]
    assert (result["isError"], result["content"][0]["text"]) == (True, "No room.")
    told = result["_meta"]["dev.mcphub/error"]
    assert (told["kind"], told["server"], told["tool"], told["retryAfterMs"]) == ("overloaded", "s", "t", 20)
    assert (told["retryable"], told["layer"], told["root"]) == (True, "hub", "local")
    assert ("resultType" in result) is meta.modern
    assert (error["code"], error["message"]) == (-32602, "no such tool")
    assert error["data"]["dev.mcphub/error"]["kind"] == "unknown_tool"
    for one in (told, error["data"]["dev.mcphub/error"]):
        assert one.get("traceId", "") == meta.trace


def test_one_that_comes_again_and_again() -> None:
    """The third time it says so; one whose arguments do not count never does."""
    agent, these = Agent(), Refusals(Repeats(clock), CallLines(clock))
    for _ in range(3):
        these.result(agent, b"1", NO_META, "validation", "It is wrong.", tool="t", arguments=b"{}")  # type: ignore[arg-type]
        these.result(agent, b"2", NO_META, "unavailable", "It is down.", tool="u")  # type: ignore[arg-type]
    texts = [one["result"]["content"][0]["text"] for one in agent.got]
    assert texts[:4] == ["It is wrong.", "It is down."] * 2 and texts[5] == "It is down."
    assert texts[4].startswith("It is wrong. This call has failed in the same way 3 times in a row")


def test_what_is_made_once() -> None:
    """The data of the most usual errors is ready, and of kinds that there are."""
    for name in ("BAD_REQUEST", "BAD_PARAMS", "NO_METHOD", "TOO_MUCH"):
        assert json.loads(getattr(refusals, name))["dev.mcphub/error"]["kind"] in KINDS

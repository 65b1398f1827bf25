"""The era probe as transcripts: what a server says, and what is asked of it next."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.protocol.era import Discover, Initialize, Probe, Refused, Restart, Spoken, Step, names_legacy
from mcphub.protocol.versions import Era

LEGACY, MODERN = "2025-11-25", "2026-07-28"
SILENCE = ("silence",)

# What a server may do, as (what, arguments of the stepper). `late` speaks of an earlier discover.
found = {"supportedVersions": [MODERN], "capabilities": {}}
old = {"protocolVersion": LEGACY, "capabilities": {}}


def said(*versions: Any) -> tuple[str, Any]:
    return ("result", {"supportedVersions": list(versions), "capabilities": {}})


def shaken(version: Any = LEGACY) -> tuple[str, Any]:
    return ("result", {"protocolVersion": version})


def error(code: int, supported: Any = None) -> tuple[Any, ...]:
    return ("error", code, "no", {"supported": supported} if supported is not None else None)


def walk(answers: list[Any], probe: Probe | None = None) -> list[Step]:
    """The steps that a probe takes when the server answers each question with the next of these."""
    probe = probe or Probe()
    step = probe.start()
    steps = [step]
    for answer in answers:
        if answer[0] == "late":
            probe.discovered_late(answer[1])
            continue
        match step:
            case Discover():
                if answer is SILENCE:
                    step = probe.silent()
                elif answer[0] == "result":
                    step = probe.discovered(answer[1])
                else:
                    step = probe.discover_refused(*answer[1:])
            case Initialize():
                step = probe.initialized(answer[1]) if answer[0] == "result" else probe.initialize_refused(*answer[1:])
            case _:
                raise AssertionError(f"nobody asks after {step}")
        steps.append(step)
    return steps


DISCOVER, INITIALIZE = Discover(MODERN), Initialize(LEGACY)


def modern(result: Any) -> Spoken:
    return Spoken("modern", MODERN, result[1])


def legacy(result: Any, version: str = LEGACY) -> Spoken:
    return Spoken("legacy", version, result[1])


@pytest.mark.parametrize(
    ("answers", "steps"),
    [
        # modern, and modern among others
        ([said(MODERN)], [DISCOVER, modern(said(MODERN))]),
        ([said("2099-01-01", LEGACY, MODERN)], [DISCOVER, modern(said("2099-01-01", LEGACY, MODERN))]),
        # legacy, whatever it says to a question it does not know
        *[
            ([error(code), shaken()], [DISCOVER, INITIALIZE, legacy(shaken())])
            for code in (-32601, -32602, -32600, -32603, -32000, -32700, -32002, 0, 1, 10**30)
        ],
        ([SILENCE, shaken()], [DISCOVER, INITIALIZE, legacy(shaken())]),
        ([error(-32601), shaken("2024-11-05")], [DISCOVER, INITIALIZE, legacy(shaken("2024-11-05"), "2024-11-05")]),
        # an answer to discover that is none: some servers answer everything
        *[
            ([("result", odd), shaken()], [DISCOVER, INITIALIZE, legacy(shaken())])
            for odd in ({}, {"supportedVersions": None}, {"supportedVersions": 5}, {"supportedVersions": MODERN})
        ],
        # a modern server without a modern version in common
        ([said(LEGACY, "2024-11-05"), shaken()], [DISCOVER, INITIALIZE, legacy(shaken())]),
        (
            [said("2024-11-05"), shaken("2024-11-05")],
            [DISCOVER, Initialize("2024-11-05"), legacy(shaken("2024-11-05"), "2024-11-05")],
        ),
        # -32022: a shared modern version, only legacy ones, none
        ([error(-32022, [MODERN]), said(MODERN)], [DISCOVER, DISCOVER, modern(said(MODERN))]),
        ([error(-32022, [LEGACY, MODERN]), said(MODERN)], [DISCOVER, DISCOVER, modern(said(MODERN))]),
        ([error(-32022, [LEGACY, "2025-03-26"]), shaken()], [DISCOVER, INITIALIZE, legacy(shaken())]),
        (
            [error(-32022, ["2025-03-26"]), shaken("2025-03-26")],
            [DISCOVER, Initialize("2025-03-26"), legacy(shaken("2025-03-26"), "2025-03-26")],
        ),
        # the other modern errors are asked again, once
        ([error(-32021), said(MODERN)], [DISCOVER, DISCOVER, modern(said(MODERN))]),
        ([error(-32020), error(-32601), shaken()], [DISCOVER, DISCOVER, INITIALIZE, legacy(shaken())]),
        # a process locked by its first message, both ways
        ([error(-32601), error(-32022, [MODERN])], [DISCOVER, INITIALIZE, Restart("legacy")]),
        ([error(-32601), error(-32600)], [DISCOVER, INITIALIZE, Restart("legacy")]),
        ([said(LEGACY), error(-32022, [MODERN, LEGACY])], [DISCOVER, INITIALIZE, Restart("legacy")]),
        # a discover that is answered late
        ([SILENCE, ("late", found), shaken()], [DISCOVER, INITIALIZE, legacy(shaken())]),
        ([SILENCE, ("late", found), error(-32022)], [DISCOVER, INITIALIZE, Spoken("modern", MODERN, found)]),
        # silent while it woke up, then it refuses the handshake before it answers discover
        ([SILENCE, error(-32601), said(MODERN)], [DISCOVER, INITIALIZE, DISCOVER, modern(said(MODERN))]),
        ([SILENCE, error(-32601), SILENCE], [DISCOVER, INITIALIZE, DISCOVER, Restart("legacy")]),
        (
            [SILENCE, error(-32601), error(-32601), error(-32601)],
            [DISCOVER, INITIALIZE, DISCOVER, INITIALIZE, Restart("legacy")],
        ),
        # a strict old server that names the versions it would have taken
        (
            [error(-32601), error(-32602, ["2024-11-05"]), shaken("2024-11-05")],
            [DISCOVER, INITIALIZE, Initialize("2024-11-05"), legacy(shaken("2024-11-05"), "2024-11-05")],
        ),
        (
            [error(-32601), error(-32602, ["2024-11-05"]), error(-32602, ["2024-11-05"])],
            [DISCOVER, INITIALIZE, Initialize("2024-11-05"), Restart("legacy")],
        ),
        ([error(-32601), error(-32602, [LEGACY])], [DISCOVER, INITIALIZE, Restart("legacy")]),
    ],
)
def test_transcripts(answers: list[Any], steps: list[Step]) -> None:
    """C067, C068, B18, B19, B20, B22, K1.1: the era follows from what the server says, and the fallback depends on no
    particular code."""
    assert walk(answers) == steps


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([said("2099-01-01")], "the server supports 2099-01-01, mcphub none of them"),
        ([said()], "the server supports no version, mcphub none of them"),
        ([said(*["2099-01-0" + "1" * 500] * 500)], "the server supports 2099-01-011111111111, "),
        ([error(-32022, ["2099-01-01"])], "the server supports 2099-01-01, mcphub none of them"),
        ([error(-32022)], "the server supports no version, mcphub none of them"),
        ([error(-32022, 5)], "the server supports no version, mcphub none of them"),
        ([error(-32022, [5, None, {}])], "the server supports no version, mcphub none of them"),
        (
            [error(-32022, [MODERN]), error(-32022, [MODERN])],
            "the server refuses server/discover in a version it speaks: no (-32022)",
        ),
        (
            [error(-32021), error(-32021)],
            "the server refuses server/discover in a version it speaks: no (-32021)",
        ),
        ([error(-32601), shaken(MODERN)], "the server answered initialize with the unknown version '2026-07-28'"),
        ([error(-32601), shaken(5)], "the server answered initialize with the unknown version None"),
        ([error(-32601), shaken([LEGACY])], "the server answered initialize with the unknown version None"),
        ([error(-32601), ("result", {})], "the server answered initialize with the unknown version None"),
    ],
)
def test_no_common_ground(answers: list[Any], message: str) -> None:
    """A server that cannot be spoken with is told apart by what it said, shortly."""
    last = walk(answers)[-1]
    assert isinstance(last, Refused)
    assert last.message.startswith(message)
    assert len(last.message) < 400


@pytest.mark.parametrize(
    ("first", "restarted", "answers", "steps"),
    [
        ("legacy", False, [shaken()], [INITIALIZE, legacy(shaken())]),
        ("modern", False, [said(MODERN)], [DISCOVER, modern(said(MODERN))]),
        # the remembered era is no longer the right one
        ("legacy", False, [error(-32022, [MODERN])], [INITIALIZE, Restart("modern")]),
        ("modern", False, [error(-32600)], [DISCOVER, Restart("legacy")]),
        ("modern", False, [SILENCE, shaken()], [DISCOVER, INITIALIZE, legacy(shaken())]),
        ("legacy", True, [shaken()], [INITIALIZE, legacy(shaken())]),
        (
            "legacy",
            True,
            [error(-32601)],
            [INITIALIZE, Refused("the server refuses initialize: no (-32601)")],
        ),
        (
            "modern",
            True,
            [error(-32600)],
            [DISCOVER, Refused("the server refuses server/discover: no (-32600)")],
        ),
    ],
)
def test_after_a_restart(first: Era, restarted: bool, answers: list[Any], steps: list[Step]) -> None:
    """A process is spoken to in the other era from its first byte, and started again once."""
    assert walk(answers, Probe(first=first, restarted=restarted)) == steps


ANSWERS = st.sampled_from(
    [SILENCE, said(MODERN), said(LEGACY), said("x"), said(), ("result", {}), shaken(), shaken("x")]
    + [error(code, s) for code in (-32601, -32022, -32021) for s in (None, [MODERN], [LEGACY], ["2024-11-05"], ["x"])]
    + [("late", found), ("late", {}), ("late", {"supportedVersions": ["2024-11-05"]})]
)


@pytest.mark.parametrize(
    ("probe", "answers", "again"),
    [
        (Probe(), [], Restart("legacy")),
        (Probe(), [error(-32601)], None),
        (Probe(), [SILENCE], None),
        (Probe(first="modern"), [], None),
        (Probe(first="legacy"), [], None),
        (Probe(restarted=True), [], None),
    ],
)
def test_a_process_that_ends_at_the_probe(probe: Probe, answers: list[Any], again: Restart | None) -> None:
    """C068: it is started again in the older era; one that had answered, or whose era was known, is not."""
    probe.start()
    for answer in answers:
        if answer is SILENCE:
            probe.silent()
        else:
            probe.discover_refused(-32601, "no", None)
    assert probe.died() == again


@given(st.lists(ANSWERS, min_size=40, max_size=40), st.sampled_from([None, "legacy", "modern"]), st.booleans())
def test_every_probe_ends(answers: list[Any], first: Era | None, restarted: bool) -> None:
    """Whatever a server says, it is asked a handful of questions, and restarted only where that is allowed."""
    probe = Probe(first=first, restarted=restarted)
    step = probe.start()
    asked = 1
    for answer in answers:
        if isinstance(step, Spoken | Refused | Restart):
            break
        if answer[0] == "late":
            probe.discovered_late(answer[1])
        elif isinstance(step, Discover):
            if answer is SILENCE:
                step = probe.silent()
            elif answer[0] == "result":
                step = probe.discovered(answer[1])
            else:
                step = probe.discover_refused(*answer[1:])
            asked += 1
        elif answer is not SILENCE:
            step = probe.initialized(answer[1]) if answer[0] == "result" else probe.initialize_refused(*answer[1:])
            asked += 1
    assert asked <= 9
    assert not (isinstance(step, Restart) and restarted)
    if isinstance(step, Spoken):
        assert (step.era == "modern") == (step.version == MODERN)


@pytest.mark.parametrize(
    ("found", "legacy"),
    [
        ({"supportedVersions": ["2026-07-28", "2025-06-18"]}, True),
        ({"supportedVersions": ["2026-07-28", "1999-01-01", 7]}, False),
        ({"supportedVersions": "2025-11-25"}, False),
        ({}, False),
    ],
    ids=range(4),
)
def test_versions_of_the_other_era(found: dict[str, Any], legacy: bool) -> None:
    """A server of both eras may name legacy versions beside its modern one."""
    assert names_legacy(found) is legacy

"""What an entry says of how much its server may be asked for."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.spec import Allowance, Allowances, ServerSpec
from tests.config.entries.written import parsed, problem


def allowance(raw: dict[str, Any]) -> Allowances | None:
    found = parsed(raw).outcome
    assert isinstance(found, ServerSpec)
    return found.allowance


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, None),
        ({"limits": {}}, None),
        ({"limits": {"memory": 64}}, None),
        ({"limits": {"calls": 5}}, Allowances(Allowance(5))),
        ({"limits": {"calls": 5, "memory": 64, "rate": 2.5}}, Allowances(Allowance(5, 2.5, 3))),
        ({"limits": {"rate": 0.01}}, Allowances(Allowance(0, 0.01, 1))),
        ({"limits": {"rate": 5, "burst": 50}}, Allowances(Allowance(0, 5, 50))),
        ({"tools": {"t": {}, "u": {"limits": {}}}}, None),
        ({"tools": {"t": {"limits": {"calls": 1}}}}, Allowances(tools={"t": Allowance(1)})),
        (
            {"limits": {"calls": 9}, "tools": {"t": {"limits": {"rate": 1, "burst": 2}}}},
            Allowances(Allowance(9), {"t": Allowance(0, 1, 2)}),
        ),
    ],
)
@pytest.mark.parametrize("where", [{"command": "x"}, {"type": "http", "url": "https://h.example/mcp"}])
def test_what_is_allowed(where: dict[str, Any], said: dict[str, Any], expected: Allowances | None) -> None:
    """What is not said is not limited; a burst is at least what a second brings."""
    assert allowance({**where, **said}) == expected


@pytest.mark.parametrize(
    ("said", "key", "part"),
    [
        ({"limits": {"calls": 0}}, "limits.calls", "expected 1 to 100000 calls, found 0"),
        ({"limits": {"calls": "5"}}, "limits.calls", "expected a whole number of calls, found a string"),
        ({"limits": {"calls": True}}, "limits.calls", "expected a whole number of calls"),
        ({"limits": {"rate": 0}}, "limits.rate", "expected 0.001 to 100000 calls a second, found 0"),
        ({"limits": {"rate": "1/s"}}, "limits.rate", "expected a number of calls a second, found a string"),
        ({"limits": {"burst": 5}}, "limits.burst", "says nothing without rate"),
        ({"tools": {"t": {"limits": 5}}}, "tools.t.limits", "expected an object, found a number"),
        ({"tools": {"t": {"limits": {"calls": -1}}}}, "tools.t.limits.calls", "expected 1 to 100000 calls, found -1"),
    ],
)
def test_wrong_ones_are_named(said: dict[str, Any], key: str, part: str) -> None:
    """The message has the key and what is expected there."""
    message = problem({"command": "x", **said})
    assert f"{key}: " in message and part in message


def test_unknown_ones_are_told() -> None:
    """They are a warning, as all keys that nobody knows."""
    [warning] = parsed({"command": "x", "tools": {"t": {"limits": {"memory": 5}}}}).warnings
    assert "tools.t.limits.memory: unknown limit, not used" in warning


def test_another_allowance_is_another_instance() -> None:
    """A changed limit counts at once: the server is started anew."""
    keys = set()
    for said in ({}, {"limits": {"calls": 5}}, {"limits": {"calls": 6}}, {"tools": {"t": {"limits": {"calls": 5}}}}):
        found = parsed({"command": "x", **said}).outcome
        assert isinstance(found, ServerSpec)
        keys.add(found.key())
    assert len(keys) == 4

"""What an entry says of how much of the machine its programs may use."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.spec import Limits
from tests.config.entries.written import parsed, problem, stdio


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (None, Limits()),
        ({}, Limits()),
        ({"memory": 512}, Limits(memory=512 << 20)),
        ({"cpuTime": 1500, "nice": 19}, Limits(cpu_time=2, nice=19)),
        ({"memory": 16, "cpuTime": 60000, "nice": 0}, Limits(16 << 20, 60, 0)),
    ],
)
def test_limits(limits: Any, expected: Limits) -> None:
    """MiB become bytes and milliseconds seconds, rounded up; what is not said is no limit."""
    raw = {"command": "x"} if limits is None else {"command": "x", "limits": limits}
    assert stdio(raw).limits == expected


@pytest.mark.parametrize(
    ("limits", "key", "part"),
    [
        (512, "limits", "expected an object, found a number"),
        ({"memory": "1g"}, "limits.memory", "expected a whole number of MiB, found a string"),
        ({"memory": True}, "limits.memory", "expected a whole number of MiB, found"),
        ({"memory": 0.5}, "limits.memory", "expected a whole number of MiB"),
        ({"memory": 1}, "limits.memory", "expected 16 to"),
        ({"memory": 1 << 40}, "limits.memory", "expected 16 to"),
        ({"nice": -1}, "limits.nice", "expected 0 to 19 steps, found -1"),
        ({"cpuTime": 30}, "limits.cpuTime", "the unit is milliseconds"),
    ],
)
def test_wrong_limits_are_named(limits: Any, key: str, part: str) -> None:
    """C017: a number that is nearly right is an error of that entry."""
    message = problem({"command": "x", "limits": limits})
    assert f"mcpServers.s.{key}: " in message
    assert part in message


def test_an_unknown_limit_is_a_warning() -> None:
    """It is named, and the others count."""
    found = parsed({"command": "x", "limits": {"memory": 64, "disk": 1}})
    assert "limits.disk: unknown limit, not used" in found.warnings[0]


def test_a_remote_server_has_none() -> None:
    """They are for programs that run here."""
    found = parsed({"type": "http", "url": "https://h.example/mcp", "limits": {"memory": 64}})
    assert "limits.memory: not used by a remote server" in found.warnings[0]

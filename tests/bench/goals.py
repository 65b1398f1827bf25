"""Owns what is asked of mcphub's speed: every goal with its gate, and the verdict on a measurement.

It must not know how anything is measured. Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Direction = Literal["least", "most"]
Verdict = Literal["extreme", "met", "missed", "not measured"]


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the table: `gate` must hold, `extreme` is what a hub without cost of its own would show."""

    key: str
    text: str
    unit: str
    direction: Direction
    gate: float
    extreme: float

    def holds(self, value: float, bound: float) -> bool:
        """Whether VALUE is on the right side of BOUND."""
        return value >= bound if self.direction == "least" else value <= bound

    def bound(self, value: float) -> str:
        """A bound as the table shows it."""
        return f"{'>=' if self.direction == 'least' else '<='} {number(value)}{self.unit}"


#: "floor" is `bridge:poll:buf-asyncio`, two hops that do nothing but rewrite ids and names, measured in the same run.
GOALS = (
    Goal("1", "calls/s, 100 B, c=64, of direct", "", "least", 0.40, 0.50),
    Goal("2", "calls/s, 100 B, c=8, of direct", "", "least", 0.28, 0.38),
    Goal("3", "calls/s, 100 B, c=1, of direct", "", "least", 0.26, 0.34),
    Goal("4", "p50 added at c=1, of what the floor adds", "x", "most", 1.4, 1.1),
    Goal("5 c1", "gateway CPU a call, c=1, of the floor's", "x", "most", 1.5, 1.2),
    Goal("5 c64", "gateway CPU a call, c=64, of the floor's", "x", "most", 1.5, 1.2),
    Goal("6 c64", "calls/s, 100 B, c=64, of tooner (Go, one server)", "x", "least", 1.0, 1.3),
    Goal("6 c1", "calls/s, 100 B, c=1, of tooner", "x", "least", 0.5, 0.7),
    Goal("7", "calls/s, 100 KB replies, c=1, of direct", "", "least", 0.40, 0.50),
    Goal("8", "calls/s, 5 MB replies, c=1, of direct", "", "least", 0.42, 0.55),
    Goal("9", "peak RSS of the whole gateway after 8 x 5 MB in flight", " MiB", "most", 150, 100),
    Goal("10", "echo p50 behind a slow call to the same server, of its p50 without", "x", "most", 1.3, 1.1),
    Goal("11", "echo p99 while another server returns 5 MB of rows", " ms", "most", 20, 8),
    Goal("12 3", "connect-all, 50 servers x 20 tools, of spawn-only, both 3 at once", "x", "most", 1.7, 1.3),
    Goal("12 10", "the same, both 10 at once", "x", "most", 1.7, 1.3),
    Goal("13", "tools/list of 1000 tools, the client's parse included", " ms", "most", 7, 5),
    Goal("14 1", "daemon RSS with 1 server (its launcher not included)", " MiB", "most", 55, 40),
    Goal("14 50", "daemon RSS with 50 servers x 20 tools (its launcher not included)", " MiB", "most", 70, 50),
    Goal("15", "RSS per further stdio server (daemon and launcher)", " MiB", "most", 0.3, 0.15),
    Goal("16", "bridge process per agent, RSS", " MiB", "most", 14, 11.5),
    Goal("17", "`mcphub status`, of `python -I -c pass`", "x", "most", 4, 2.5),
    Goal("18", "`mcphub connect`, spawn to first tools/list, of the floor's bridge", "x", "most", 2, 1.3),
    Goal("19 c1", "HTTP endpoint, calls/s, 100 B, c=1, of mcp-proxy 0.13", "x", "least", 1.8, 2.5),
    Goal("19 c8", "the same, c=8", "x", "least", 7, 11),
    Goal("19 c64", "the same, c=64", "x", "least", 7, 11),
    Goal("19 best", "the same, of the best HTTP peer, where it is nearest", "x", "least", 1, 2),
    Goal("20 client", "HTTP client alone, CPU a request, c=32, of a hand-written one", "x", "most", 6, 2),
    Goal("20 c1", "HTTP server, CPU a call of all of mcphub, c=1, of bare httpx2", "x", "most", 1.3, 1),
    Goal("20 c32", "the same, c=32", "x", "most", 1.3, 1),
    Goal("21", "idle CPU with 50 servers", " ms/s", "most", 1, 0.3),
    Goal("22", "resolve and decide, 500 servers, 9 layers, 96 rules, CPU", " ms", "most", 20, 10),
    Goal("23", "instances that one changed entry of 500 restarts", "", "most", 1, 1),
    Goal("23 s", "the same, from the write to the first call of the new instance", " ms", "most", 1000, 400),
    Goal("24", "CPU that a workspace without a project file adds to an agent's start", " us", "most", 1000, 300),
    Goal("25", "attempts at once while 1,000 remote servers go and come back", "", "most", 20, 20),
    Goal("25 s", "the same, from their return until all are connected", " s", "most", 45, 25),
    Goal("26", "p99 beside an agent with 1,000 calls in flight to the same server, of p99 alone", "x", "most", 3, 1.5),
    Goal("26 other", "the same, its calls go to another server", "x", "most", 3, 1.5),
    Goal("flood", "echo p50 while another server floods, of its p50 without", "x", "most", 1.5, 1.1),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured for a goal, a value a round; without values, `because` says why there are none."""

    values: tuple[float, ...] = ()
    because: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)


@dataclass(frozen=True, slots=True)
class Row:
    """A goal with its figure."""

    goal: Goal
    figure: Figure

    @property
    def verdict(self) -> Verdict:
        """By the median: a single disturbed round decides nothing."""
        if not self.figure.values:
            return "not measured"
        if self.goal.holds(self.figure.median, self.goal.extreme):
            return "extreme"
        return "met" if self.goal.holds(self.figure.median, self.goal.gate) else "missed"

    @property
    def cells(self) -> tuple[str, ...]:
        """Key, text, median, spread, gate, extreme, verdict, as the table shows them."""
        values, goal = self.figure.values, self.goal
        measured = f"{number(self.figure.median)}{goal.unit}" if values else self.figure.because or "-"
        spread = f"{number(min(values))} to {number(max(values))}" if len(values) > 1 else "-"
        return goal.key, goal.text, measured, spread, goal.bound(goal.gate), goal.bound(goal.extreme), self.verdict


def number(value: float) -> str:
    """Three significant digits at most, no exponent."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def judge(figures: Mapping[str, Figure], goals: Sequence[Goal] = GOALS) -> list[Row]:
    """Every goal with what was measured for it, in the order of the goals."""
    return [Row(goal, figures.get(goal.key, Figure(because="-"))) for goal in goals]


def ratios(above: Sequence[float], below: Sequence[float]) -> Figure:
    """ABOVE / BELOW round by round: two neighbours in time share the noise of that time."""
    pairs = [(one, other) for one, other in zip(above, below, strict=False) if other > 0]
    return Figure(tuple(one / other for one, other in pairs), "" if pairs else "no round of both")

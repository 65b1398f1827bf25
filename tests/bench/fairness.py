"""Owns what one agent's flood costs another agent: a polite one beside a greedy one, whose calls go to the same server,
to another one, or are refused.

It must not know how the gateway keeps them apart.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .goals import Figure, ratios
from .load import SMALL, Phase, Sample, measure
from .running import Running, say
from .wire import BenchError

#: Calls that the greedy agent keeps in flight.
GREEDY = 1000
#: What the polite one does: the next call when the last is answered.
POLITE = Phase("polite", 1, "echo", SMALL, 100, server="s0")
SAME, OTHER = "a flood to the same server", "a flood to another server"
REFUSED = "a flood of calls of a tool that does not exist"
SITUATIONS = (SAME, OTHER, REFUSED)
PROJECT = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class Fairness:
    """The polite agent's samples by situation, each beside those alone of the same moment; the greedy one's calls a
    second; what failed."""

    beside: dict[str, list[Sample]] = field(default_factory=dict)
    alone: dict[str, list[Sample]] = field(default_factory=dict)
    greedy: dict[str, list[float]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def column(self, situation: str, what: str) -> tuple[list[float], list[float]]:
        """One figure beside the greedy one, and alone, by round."""
        beside, alone = self.beside.get(situation, []), self.alone.get(situation, [])
        return [getattr(one, what) for one in beside], [getattr(one, what) for one in alone]


@contextmanager
def greedy(running: Running, situation: str, rate: list[float]) -> Iterator[None]:
    """While open, another agent keeps GREEDY calls in flight; RATE gets its calls a second.

    Raises BenchError where one was answered in another way than it should: refusals are another flood than calls.
    """
    ready = running.target.ready
    assert ready is not None
    tool = running.tool("echo", "s0" if situation == SAME else "s1") + ("-no" if situation == REFUSED else "")
    words = (str(ready), tool, json.dumps(SMALL), str(GREEDY))
    process = subprocess.Popen(
        (sys.executable, "-m", "tests.bench.greedy_agent", *words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=PROJECT,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        if process.stdout.readline() != b"ready\n":
            raise BenchError("the greedy agent did not start")
        begun = time.perf_counter()
        yield
        passed = time.perf_counter() - begun
        process.stdin.close()
        answered, refused = (int(word) for word in process.stdout.readline().split() or (0, 0))
        if refused != (answered if situation == REFUSED else 0):
            raise BenchError(f"of {answered} calls of the greedy agent {refused} were refused")
        rate.append(answered / passed)
    finally:
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run(hub: Running, rounds: int, seconds: float) -> Fairness:
    """Each situation right after the polite agent alone, ROUNDS times. HUB's servers `s0` and `s1` work."""
    result = Fairness()
    for turn in range(-1, rounds):
        for situation in SITUATIONS:
            if situation in result.errors:
                continue
            length = seconds if turn >= 0 else min(0.1, seconds)
            rate: list[float] = []
            try:
                alone = measure(hub, POLITE, length)
                with greedy(hub, situation, rate):
                    measure(hub, POLITE, min(0.2, length))  # the flood's beginning is no part of it
                    beside = measure(hub, POLITE, length)
            except (BenchError, OSError) as error:
                result.errors[situation] = str(error)[:300]
                say(f"  {situation}: {error}")
                continue
            if turn >= 0:
                result.alone.setdefault(situation, []).append(alone)
                result.beside.setdefault(situation, []).append(beside)
                result.greedy.setdefault(situation, []).extend(rate)
        say(f"  fairness round {turn + 1} of {rounds} done")
    return result


def figures(result: Fairness) -> dict[str, Figure]:
    """The goals of fairness: p99 beside the flood, of p99 alone, round by round."""

    def of(situation: str) -> Figure:
        beside, alone = result.column(situation, "p99_us")
        return ratios(beside, alone) if beside else Figure(because=result.errors.get(situation, "it did not run"))

    return {"26": of(SAME), "26 other": of(OTHER)}


def tables(result: Fairness) -> list[str]:
    """The raw figures as one Markdown table, medians of the rounds."""
    lines = [
        f"A polite agent (c=1) beside a greedy one ({GREEDY} calls in flight):\n",
        "| situation | p50 us | p99 us | p50 alone | p99 alone | the greedy one's calls/s |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for situation in result.beside:
        both = [result.column(situation, what) for what in ("p50_us", "p99_us")]
        cells = [statistics.median(column) for columns in both for column in columns]
        cells = [cells[0], cells[2], cells[1], cells[3], statistics.median(result.greedy[situation])]
        lines.append(f"| {situation} | {' | '.join(f'{cell:,.0f}' for cell in cells)} |")
    return ["\n".join(lines), *(f"{where}: {why}" for where, why in result.errors.items())]

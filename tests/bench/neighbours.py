"""Owns what one server's trouble costs another's callers: slow calls, huge replies, floods; goals 10, 11 and the flood.

It must not know how the gateway keeps them apart.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from . import targets
from .goals import Figure, ratios
from .load import SMALL, Phase, Sample, measure
from .running import Running, say
from .wire import BenchError, start_call, wait_reply

ROWS_BYTES = 5_000_000
ECHO = Phase("echo", 1, "echo", SMALL, 100)
FLOODS = ("progress", "junk")
ALONE, SLOW, ROWS = "alone", "behind a slow call", "beside 5 MB of rows"
PROJECT = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class Neighbours:
    """Samples of the echo by target and situation, by round; what the neighbour did meanwhile; what failed."""

    samples: dict[str, dict[str, list[Sample]]] = field(default_factory=dict)
    meanwhile: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def add(self, target: str, situation: str, sample: Sample, note: str) -> None:
        self.samples.setdefault(target, {}).setdefault(situation, []).append(sample)
        self.meanwhile.setdefault(target, {}).setdefault(situation, []).append(note)

    def column(self, target: str, situation: str, what: str) -> list[float]:
        return [getattr(sample, what) for sample in self.samples.get(target, {}).get(situation, [])]


def echo(running: Running, seconds: float) -> Sample:
    """The echo of server `s0` (or of the only one), one call at a time."""
    return measure(running, ECHO, seconds)


def behind_slow(running: Running, seconds: float) -> tuple[Sample, str]:
    """The echo while a call to the same server is in flight, by the same client, for all of the time."""
    slow = start_call(running.client, running.tool("sleep"), {"ms": seconds * 1000 + 300})
    sample = echo(running, seconds)
    wait_reply(running.client, slow, 10 + seconds)
    return sample, ""


def beside_rows(running: Running, seconds: float) -> tuple[Sample, str]:
    """The echo of `s0` while another process takes 5 MB of rows after the other from `s1`."""
    tool = running.tool("rows", "s1") if running.target.daemon else "rows"
    replies: list[int] = []
    with rows_agent(running.target.client, running.target.environment, tool, replies):
        sample = echo(running, seconds)
    return sample, f"{replies[0]} replies"


@contextmanager
def rows_agent(argv: Sequence[str], environment: Mapping[str, str], tool: str, replies: list[int]) -> Iterator[None]:
    """While open, another process takes 5 MB of rows after the other from ARGV; REPLIES gets their number."""
    process = subprocess.Popen(
        (sys.executable, "-m", "tests.bench.busy_agent", tool, json.dumps({"size": ROWS_BYTES}), "--", *argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(environment),
        cwd=PROJECT,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        if process.stdout.readline() != b"ready\n":
            raise BenchError("the agent that takes the rows did not start")
        yield
        process.stdin.close()
        replies.append(int(process.stdout.readline() or b"0"))
    finally:
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def flooded(running: Running, seconds: float, kind: str) -> tuple[Sample, str]:
    """The echo of `s0` while server `s1` writes lines that nobody asked for; a second client had asked it to."""
    other = running.clients[1] if len(running.clients) > 1 else running.attach()
    flood = start_call(other, running.tool("flood", "s1"), {"seconds": seconds + 0.5, "kind": kind})
    sample = echo(running, seconds)
    try:
        reply = wait_reply(other, flood, 15 + seconds)
    except BenchError as error:
        raise BenchError(f"the flooding server's own call: {error}") from error
    # A gateway may well end a server that floods; the echo is then measured for a part of the time beside nothing.
    refused = b'"isError":true' in reply or b'"error":' in reply[:200]
    return sample, "the flooding server was ended" if refused else "to its end"


def take(running: Running, situation: str, seconds: float) -> tuple[Sample, str]:
    """One round of SITUATION, and what the neighbour did. Raises BenchError."""
    if situation == ALONE:
        return echo(running, seconds), ""
    if situation == SLOW:
        return behind_slow(running, seconds)
    if situation == ROWS:
        return beside_rows(running, 2 * seconds)  # a p99 needs the longer look
    return flooded(running, seconds, situation.rpartition(" ")[2])


def run(folder: Path, hub: Running | None, rounds: int, seconds: float) -> Neighbours:
    """Each situation right after the echo alone, ROUNDS times. HUB has the servers `s0` and `s1`, five tools each."""
    result = Neighbours()
    direct = targets.direct(folder / "neighbours")
    with Running(direct) as alone:
        for turn in range(-1, rounds):
            for running in (alone, hub):
                if running is None:
                    continue
                name = running.target.name
                situations = [ALONE, SLOW, ROWS]
                if running is hub:
                    situations += [f"flood of {kind}" for kind in FLOODS]
                for situation in situations:
                    if f"{name}, {situation}" in result.errors:
                        continue
                    length = seconds if turn >= 0 else min(0.1, seconds)
                    try:
                        sample, note = take(running, situation, length)
                    except (BenchError, OSError) as error:
                        result.errors[f"{name}, {situation}"] = str(error)[:300]
                        say(f"  {name}, {situation}: {error}")
                        continue
                    if turn >= 0:
                        result.add(name, situation, sample, note)
            say(f"  neighbours round {turn + 1} of {rounds} done")
    return result


def figures(result: Neighbours, subject: str) -> dict[str, Figure]:
    """Goals 10 and 11, and the flood of notifications (a flood of junk may end its server, so it is only shown)."""
    alone = result.column(subject, ALONE, "p50_us")

    def of(situation: str) -> Figure:
        values = result.column(subject, situation, "p50_us")
        if not values:
            return Figure(because=result.errors.get(f"{subject}, {situation}", f"{subject} did not run"))
        return ratios(values, alone)

    p99 = tuple(value / 1e3 for value in result.column(subject, ROWS, "p99_us"))
    because = result.errors.get(f"{subject}, {ROWS}", f"{subject} did not run")
    return {"10": of(SLOW), "11": Figure(p99, because), "flood": of(f"flood of {FLOODS[0]}")}


def tables(result: Neighbours) -> list[str]:
    """The raw figures as one Markdown table, medians of the rounds."""
    lines = [
        "An echo and its neighbours:\n",
        "| target | situation | p50 us | p99 us | calls/s | the neighbour |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    for target, situations in result.samples.items():
        for situation in situations:
            cells = [
                f"{statistics.median(result.column(target, situation, what)):,.0f}" for what in ("p50_us", "p99_us")
            ]
            rate = statistics.median(result.column(target, situation, "rate"))
            notes = ", ".join(dict.fromkeys(note for note in result.meanwhile[target][situation] if note))
            lines.append(f"| {target} | {situation} | {' | '.join(cells)} | {rate:,.0f} | {notes} |")
    return ["\n".join(lines), *(f"{where}: {why}" for where, why in result.errors.items())]

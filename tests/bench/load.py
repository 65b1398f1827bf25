"""Owns the side-by-side load: every target in one run, the rounds interleaved (A B C, B C A, ...), goals 1 to 9.

It must not know what a target is made of; it sees a client and a tree of processes.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import accounting
from .goals import Figure, ratios
from .running import Running, say
from .wire import BenchError, Client, closed_loop

UNLIMITED = 10**9


@dataclass(frozen=True, slots=True)
class Phase:
    """One kind of load: CONCURRENCY calls of TOOL in flight, for SHARE of the run's seconds a round.

    `tool` is a tool's own name or a method; `server` has the tool, "" = the first by name; `meta` goes with each call.
    """

    name: str
    concurrency: int
    tool: str
    arguments: dict[str, Any]
    least_bytes: int
    most_calls: int = UNLIMITED
    share: float = 1.0
    rounds: int | None = None
    server: str = ""
    meta: dict[str, Any] | None = None


SMALL: dict[str, Any] = {"text": "x" * 100}
PHASES = (
    Phase("100B c1", 1, "echo", SMALL, 100),
    Phase("100B c8", 8, "echo", SMALL, 100),
    Phase("100B c64", 64, "echo", SMALL, 100),
    Phase("100KB c1", 1, "blob", {"size": 100_000}, 100_000),
    Phase("5MB c1", 1, "blob", {"size": 5_000_000}, 5_000_000, most_calls=60),
    Phase("5MB c8", 8, "blob", {"size": 5_000_000}, 5_000_000, most_calls=40, share=0.6, rounds=2),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one phase on one target."""

    calls: int
    rate: float
    p50_us: float
    p99_us: float
    gateway_cpu_us: float
    server_cpu_us: float


@dataclass(slots=True)
class TargetLoad:
    """All that one target showed: samples by phase (by round), errors by phase, start and memory at the end."""

    first_list_s: float
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    peak_rss_mib: float = 0.0
    pss_mib: float = 0.0
    processes: int = 0


def measure(running: Running, phase: Phase, seconds: float, client: Client | None = None) -> Sample:
    """One round, by CLIENT if not by the target's first. Raises BenchError when a call fails."""
    before = running.tree()
    gateway_ns, server_ns = accounting.cpu_ns(before.gateway), accounting.cpu_ns(before.servers)
    latencies, elapsed_ns = closed_loop(
        client or running.client,
        phase.tool if "/" in phase.tool else running.tool(phase.tool, phase.server or None),
        phase.arguments,
        concurrency=phase.concurrency,
        seconds=seconds,
        most_calls=phase.most_calls,
        least_bytes=phase.least_bytes,
        meta=phase.meta,
    )
    after = running.tree()
    count = len(latencies)
    latencies.sort()
    return Sample(
        calls=count,
        rate=count / (elapsed_ns / 1e9),
        p50_us=latencies[count // 2] / 1e3,
        p99_us=latencies[min(count - 1, count * 99 // 100)] / 1e3,
        gateway_cpu_us=(accounting.cpu_ns(after.gateway) - gateway_ns) / count / 1e3,
        server_cpu_us=(accounting.cpu_ns(after.servers) - server_ns) / count / 1e3,
    )


def run(targets: Sequence[Running], phases: Sequence[Phase], rounds: int, seconds: float) -> dict[str, TargetLoad]:
    """Warm every target up and measure it ROUNDS times a phase; a target that fails a phase is left out of that one."""
    results = {one.target.name: TargetLoad(one.first_list_s) for one in targets}
    for phase in phases:
        length = seconds * phase.share
        count = rounds if phase.rounds is None else min(rounds, phase.rounds)
        for turn in range(-1, count):
            first = turn % len(targets)
            for running in (*targets[first:], *targets[:first]):
                result = results[running.target.name]
                if phase.name in result.errors:
                    continue
                try:
                    sample = measure(running, phase, min(0.15, length) if turn < 0 else length)
                    if turn >= 0:
                        result.samples.setdefault(phase.name, []).append(sample)
                except (BenchError, OSError) as error:
                    result.errors[phase.name] = str(error)[:300]
                    say(f"{running.target.name}, {phase.name}: {error}")
                    try:
                        running.reattach()
                    except (BenchError, OSError) as again:
                        result.errors |= {one.name: f"gone: {again}" for one in phases[phases.index(phase) + 1 :]}
        say(f"  load {phase.name} done")
    for running in targets:
        gateway, result = running.tree().gateway, results[running.target.name]
        result.peak_rss_mib = accounting.peak_rss_mib(gateway)
        result.pss_mib = accounting.pss_mib(gateway)
        result.processes = len(gateway)
    return results


def column(results: dict[str, TargetLoad], target: str, phase: str, what: str) -> list[float]:
    """One figure of a target in a phase, by round; empty when the target or the phase failed."""
    result = results.get(target)
    return [] if result is None else [getattr(sample, what) for sample in result.samples.get(phase, [])]


def figures(results: dict[str, TargetLoad], subject: str, base: str, floor: str, peer: str) -> dict[str, Figure]:
    """Goals 1 to 9 for SUBJECT against BASE (direct), FLOOR (the bridged relay) and PEER, all of one run."""

    def of(other: str, phase: str, what: str = "rate") -> Figure:
        missing = next((name for name in (subject, other) if not column(results, name, phase, what)), None)
        if missing is not None:
            return Figure(because=f"{missing} did not run")
        return ratios(column(results, subject, phase, what), column(results, other, phase, what))

    p50 = {name: column(results, name, "100B c1", "p50_us") for name in (subject, base, floor)}
    added = [one - other for one, other in zip(p50[subject], p50[base], strict=False)]
    floor_adds = [one - other for one, other in zip(p50[floor], p50[base], strict=False)]
    memory = results.get(subject)
    five_mb = memory is not None and "5MB c8" in memory.samples
    return {
        "1": of(base, "100B c64"),
        "2": of(base, "100B c8"),
        "3": of(base, "100B c1"),
        "4": ratios(added, floor_adds),
        "5 c1": of(floor, "100B c1", "gateway_cpu_us"),
        "5 c64": of(floor, "100B c64", "gateway_cpu_us"),
        "6 c64": of(peer, "100B c64"),
        "6 c1": of(peer, "100B c1"),
        "7": of(base, "100KB c1"),
        "8": of(base, "5MB c1"),
        "9": Figure((memory.peak_rss_mib,)) if memory is not None and five_mb else Figure(because="5MB c8 did not run"),
    }


def tables(results: dict[str, TargetLoad], base: str) -> list[str]:
    """The raw figures as Markdown tables, medians of the rounds, rates with their ratio to BASE."""
    names = list(dict.fromkeys(phase for result in results.values() for phase in result.samples))

    def table(title: str, what: str, other: str = "") -> str:
        head = [f"{title}\n", f"| target | {' | '.join(names)} |", f"| --- |{' ---: |' * len(names)}"]
        return "\n".join(head + [line(target, what, other) for target in results])

    def line(target: str, what: str, other: str) -> str:
        cells = []
        for phase in names:
            values = column(results, target, phase, what)
            if not values:
                cells.append("failed")
                continue
            cell = f"{statistics.median(values):,.{1 if what == 'gateway_cpu_us' else 0}f}"
            if what == "rate":
                of_base = ratios(values, column(results, base, phase, what))
                cell += f" ({of_base.median:.3f})" if of_base.values else ""
            if other:
                cell += f" / {statistics.median(column(results, target, phase, other)):,.0f}"
            cells.append(cell)
        return f"| {target} | {' | '.join(cells)} |"

    spread = [f"| target | {' | '.join(names)} |", f"| --- |{' ---: |' * len(names)}"]
    for target in results:
        cells = []
        for phase in names:
            values = column(results, target, phase, "rate")
            middle = statistics.median(values) if values else 0.0
            low, high = (min(values) / middle - 1, max(values) / middle - 1) if values else (0.0, 0.0)
            cells.append(f"{low:+.0%} to {high:+.0%}" if values else "failed")
        spread.append(f"| {target} | {' | '.join(cells)} |")
    memory = [
        "| target | start to first tools/list, s | peak RSS MiB | PSS MiB | processes |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for target, result in results.items():
        cells = [f"{result.first_list_s:.3f}", f"{result.peak_rss_mib:.1f}", f"{result.pss_mib:.1f}"]
        memory.append(f"| {target} | {' | '.join(cells)} | {result.processes} |")
    return [
        table("Calls a second (of direct):", "rate"),
        table("p50 / p99, us:", "p50_us", "p99_us"),
        table("CPU of the gateway's processes, us a call:", "gateway_cpu_us"),
        "Spread of the rate between the rounds, about the median:\n\n" + "\n".join(spread),
        f"Start and memory (after {names[-1] if names else 'nothing'}):\n\n" + "\n".join(memory),
    ]

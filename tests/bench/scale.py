"""Owns the measurements with many servers: connect-all, one large tools/list, memory and idle CPU; goals 12 to 15, 21.

It must not know the gateway's own start order: what it compares with starts as many servers at once as the gateway may.
"""

from __future__ import annotations

import os
import select
import statistics
import subprocess
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from . import accounting, targets
from .goals import Figure
from .running import Running, say
from .wire import BenchError

HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"mcphub-bench","version":"1"}}}\n'
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n'
)
REPLIES = 2
LIST_ROUNDS = 9
#: A start is over once so little CPU, ms, was spent in so many seconds; it is waited for so long.
SETTLED_MS = 2.0
SETTLE_STEP = 0.5
SETTLE_SECONDS = 6.0


def spawn_only(folder: Path, servers: int, tools: int, at_once: int) -> float:
    """Seconds to start, greet and list SERVERS echo servers by hand, never more than AT_ONCE on their way: the floor.

    Raises BenchError when a server ends early.
    """
    waiting = deque(targets.echo_argv(tools, f"s{number}") for number in range(servers))
    environment = targets.base_environment(folder)
    running: list[subprocess.Popen[bytes]] = []
    opening: dict[int, int] = {}
    begun = time.perf_counter()
    try:
        while waiting or opening:
            while waiting and len(opening) < at_once:
                argv = waiting.popleft()
                process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
                running.append(process)
                assert process.stdin is not None and process.stdout is not None
                os.write(process.stdin.fileno(), HELLO)
                opening[process.stdout.fileno()] = 0
            for descriptor in select.select(list(opening), [], [])[0]:
                chunk = os.read(descriptor, 1 << 16)
                if not chunk:
                    raise BenchError("an echo server ended early")
                opening[descriptor] += chunk.count(b"\n")
                if opening[descriptor] >= REPLIES:
                    del opening[descriptor]
        return time.perf_counter() - begun
    finally:
        for process in running:
            process.terminate()
        for process in running:
            with process:
                pass


@dataclass(frozen=True, slots=True)
class Loaded:
    """A gateway with its servers connected. Seconds, ms, MiB; `idle_ms_s` is CPU ms a second, None when not asked."""

    ready_s: float
    connect_all_s: float
    list_ms: float
    list_bytes: int
    daemon_mib: float
    launcher_mib: float
    bridge_mib: float
    pss_mib: float
    idle_ms_s: float | None


@dataclass(slots=True)
class Scale:
    """By round: the floors and the gateways, by how many servers start at once; one server; the direct list."""

    servers: int
    tools: int
    floors: dict[int, list[float]] = field(default_factory=dict)
    gateways: dict[int, list[Loaded]] = field(default_factory=dict)
    single: list[Loaded] = field(default_factory=list)
    direct_list_ms: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def list_ms(running: Running) -> float:
    """Median time of a whole tools/list at the client, its parse included."""
    times = []
    for _ in range(LIST_ROUNDS):
        begun = time.perf_counter()
        running.client.list_tools()
        times.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(times)


def settle(running: Running, everything: tuple[accounting.Process, ...]) -> None:
    """Wait until the start is over: what a gateway loads once its servers are there is part of its memory, and no part
    of what it costs when idle."""
    end = time.perf_counter() + SETTLE_SECONDS
    spent = float("inf")
    while spent > SETTLED_MS and time.perf_counter() < end:
        before = accounting.cpu_ns(everything)
        running.client.poll(SETTLE_STEP)
        spent = (accounting.cpu_ns(everything) - before) / 1e6


def observe(running: Running, idle_seconds: float | None) -> Loaded:
    """Everything that one started gateway shows."""
    listing = list_ms(running)
    size = len(running.client.request_line("tools/list"))
    daemon, beside = running.daemon_tree()
    bridge = running.bridge_tree()
    everything = (daemon, *beside, *bridge)
    settle(running, everything)
    idle = None
    if idle_seconds is not None:
        before, begun = accounting.cpu_ns(everything), time.perf_counter()
        running.client.poll(idle_seconds)
        while (left := begun + idle_seconds - time.perf_counter()) > 0:
            running.client.poll(left)
        idle = (accounting.cpu_ns(everything) - before) / 1e6 / (time.perf_counter() - begun)
    return Loaded(
        ready_s=running.ready_s,
        connect_all_s=running.first_list_s,
        list_ms=listing,
        list_bytes=size,
        daemon_mib=accounting.rss_mib((daemon,)),
        launcher_mib=accounting.rss_mib(beside),
        bridge_mib=accounting.rss_mib(bridge),
        pss_mib=accounting.pss_mib(everything),
        idle_ms_s=idle,
    )


def run(
    folder: Path,
    program: Path,
    *,
    servers: int = 50,
    tools: int = 20,
    at_once: tuple[int, ...] = (3, 10),
    rounds: int = 3,
    idle_seconds: float = 5.0,
) -> Scale:
    """Floor and gateway by turns, ROUNDS times, each on a new home; a gateway that fails is noted and not tried again.

    The first of AT_ONCE is the gateway's default and is not set.
    """
    scale = Scale(servers, tools, {one: [] for one in at_once}, {one: [] for one in at_once})
    failed: set[int] = set()

    def gateway(count: int, limit: int | None, turn: int, idle: float | None) -> Loaded:
        home = folder / f"{count}-{limit}-{turn}"
        target = targets.mcphub(home, program, servers=count, tools=tools, at_once=limit)
        with Running(target, want=count * tools, start_seconds=60) as running:
            return observe(running, idle)

    for turn in range(rounds):
        with Running(targets.direct(folder, servers * tools), want=servers * tools) as running:
            scale.direct_list_ms.append(list_ms(running))
        for limit in (*at_once, 0):
            if limit:
                scale.floors[limit].append(spawn_only(folder, servers, tools, limit))
            if limit in failed:
                continue
            try:
                if limit:
                    idle = idle_seconds if limit == at_once[0] else None
                    explicit = None if limit == at_once[0] else limit
                    scale.gateways[limit].append(gateway(servers, explicit, turn, idle))
                else:
                    scale.single.append(gateway(1, None, turn, None))
            except (BenchError, OSError) as error:
                failed.add(limit)
                scale.errors.append(str(error)[:600])
                say(f"  scale: {error}")
        say(f"  scale round {turn + 1} of {rounds} done")
    return scale


def figures(scale: Scale) -> dict[str, Figure]:
    """Goals 12 to 16 and 21, as far as gateways came up."""
    missing = Figure(because="mcphub did not run")
    found: dict[str, Figure] = {}
    for limit, loaded in scale.gateways.items():
        floors = scale.floors[limit]
        of_floor = tuple(one.connect_all_s / floor for one, floor in zip(loaded, floors, strict=False))
        found[f"12 {limit}"] = Figure(of_floor) if loaded else missing
    many = next(iter(scale.gateways.values()), [])
    idle = tuple(one.idle_ms_s for one in many if one.idle_ms_s is not None)
    pairs = [(one, other) for one, other in zip(many, scale.single, strict=False)]
    more = scale.servers - 1
    further = tuple(
        (one.daemon_mib + one.launcher_mib - other.daemon_mib - other.launcher_mib) / more for one, other in pairs
    )
    found["13"] = Figure(tuple(one.list_ms for one in many)) if many else missing
    found["14 1"] = Figure(tuple(one.daemon_mib for one in scale.single)) if scale.single else missing
    found["14 50"] = Figure(tuple(one.daemon_mib for one in many)) if many else missing
    found["15"] = Figure(further) if further else missing
    found["16"] = Figure(tuple(one.bridge_mib for one in scale.single)) if scale.single else missing
    found["21"] = Figure(idle) if idle else missing
    return found


def tables(scale: Scale) -> list[str]:
    """The raw figures as one Markdown table, medians of the rounds."""
    lines = [
        f"{scale.servers} stdio servers x {scale.tools} tools (ready: the daemon's start until its socket is there):\n",
        "| target | ready s | connect-all s | tools/list ms | reply KiB | daemon RSS MiB | launcher RSS MiB "
        "| bridge RSS MiB | all PSS MiB | idle ms/s |",
        "| --- |" + " ---: |" * 9,
    ]
    for limit, floors in scale.floors.items():
        lines.append(f"| spawn-only, {limit} at once | | {statistics.median(floors):.3f} | | | | | | | |")
        lines += _line(f"mcphub, {limit} at once", scale.gateways[limit])
    lines += _line("mcphub, 1 server", scale.single)
    direct = statistics.median(scale.direct_list_ms)
    lines.append(f"| direct, one server with all the tools | | | {direct:.2f} | | | | | | |")
    return ["\n".join(lines), *scale.errors]


def _line(name: str, loaded: list[Loaded]) -> list[str]:
    if not loaded:
        return [f"| {name} | failed | | | | | | | | |"]
    middle = {what: statistics.median(getattr(one, what) for one in loaded) for what in _COLUMNS}
    idle = [one.idle_ms_s for one in loaded if one.idle_ms_s is not None]
    cells = [
        f"{middle['ready_s']:.3f}",
        f"{middle['connect_all_s']:.3f}",
        f"{middle['list_ms']:.2f}",
        f"{middle['list_bytes'] / 1024:.0f}",
        *(f"{middle[what]:.1f}" for what in ("daemon_mib", "launcher_mib", "bridge_mib", "pss_mib")),
        f"{statistics.median(idle):.2f}" if idle else "",
    ]
    return [f"| {name} | {' | '.join(cells)} |"]


_COLUMNS = (
    "ready_s",
    "connect_all_s",
    "list_ms",
    "list_bytes",
    "daemon_mib",
    "launcher_mib",
    "bridge_mib",
    "pss_mib",
)

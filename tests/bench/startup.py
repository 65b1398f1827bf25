"""Owns the cold starts that a person or an agent waits for: `mcphub status` and `mcphub connect`; goals 17 and 18.

It must not know what the verbs do; a command is started, and its end or its first tools/list is waited for.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import targets
from .goals import Figure, ratios
from .running import Running
from .wire import BenchError, StreamClient

COMMAND_SECONDS = 20.0
BARE = "python -I -c pass"
BARE_BASE = "python -I -S -c pass (base interpreter)"
STATUS = "mcphub status"
BRIDGE = "bridge:poll before the relay"
BRIDGE_OURS = "bridge:poll before mcphub's agent socket"
CONNECT = "mcphub connect"


@dataclass(slots=True)
class Startup:
    """Wall time of each command in ms, by round, and what failed."""

    times: dict[str, list[float]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


def command_ms(argv: Sequence[str], environment: Mapping[str, str]) -> float:
    """From spawn to end. Raises BenchError when it fails or takes too long."""
    begun = time.perf_counter()
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, env=dict(environment), timeout=COMMAND_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{Path(argv[0]).name} did not end in {COMMAND_SECONDS:.0f} s") from error
    passed = (time.perf_counter() - begun) * 1e3
    if done.returncode != 0:
        words = " ".join(done.stderr.decode(errors="replace").split())[-300:]
        raise BenchError(f"{' '.join([Path(argv[0]).name, *argv[1:]])} ended with {done.returncode}: {words}")
    return passed


def first_list_ms(argv: Sequence[str], environment: Mapping[str, str]) -> float:
    """From spawn of a stdio bridge, through the handshake, to its first tools/list. Raises BenchError."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=dict(environment)
    )
    assert process.stdin is not None and process.stdout is not None
    client = StreamClient(os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno()))
    process.stdin.close()
    process.stdout.close()
    try:
        client.handshake()
        client.request_line("tools/list")
        return (time.perf_counter() - begun) * 1e3
    finally:
        client.close()
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run(hub: Running | None, relay: Running, program: Path, rounds: int) -> Startup:
    """Every command once a round, warmed up by one round that does not count. RELAY has no client that stays in use."""
    assert relay.target.ready is not None
    bare = {
        BARE: (str(program.parent / "python"), "-I", "-c", "pass"),
        BARE_BASE: (targets.BASE_PYTHON, "-I", "-S", "-c", "pass"),
    }
    bridges: dict[str, Sequence[str]] = {BRIDGE: targets.bridge_argv(relay.target.ready)}
    environment: Mapping[str, str] = relay.target.environment
    commands: dict[str, Sequence[str]] = dict(bare)
    if hub is not None:
        assert hub.target.ready is not None
        commands[STATUS] = (str(program), "status")
        bridges[BRIDGE_OURS] = targets.bridge_argv(hub.target.ready)
        bridges[CONNECT] = (str(program), "connect")
        environment = hub.target.environment
    startup = Startup({name: [] for name in (*commands, *bridges)})
    for turn in range(-1, rounds):
        for name in startup.times:
            if name in startup.errors:
                continue
            try:
                timed = command_ms if name in commands else first_list_ms
                passed = timed((commands | bridges)[name], environment)
                if turn >= 0:
                    startup.times[name].append(passed)
            except (BenchError, OSError) as error:
                startup.errors[name] = str(error)
    return startup


def figures(startup: Startup) -> dict[str, Figure]:
    """Goals 17 and 18."""

    def of(name: str, other: str) -> Figure:
        for one in (name, other):
            if not startup.times.get(one):
                return Figure(because=startup.errors.get(one, "mcphub did not run"))
        return ratios(startup.times[name], startup.times[other])

    return {"17": of(STATUS, BARE), "18": of(CONNECT, BRIDGE)}


def tables(startup: Startup) -> list[str]:
    """The raw figures as one Markdown table."""
    lines = ["Cold starts, wall time:\n", "| command | median ms | min ms |", "| --- | ---: | ---: |"]
    for name, times in startup.times.items():
        cells = f"{statistics.median(times):.1f} | {min(times):.1f}" if times else f"{startup.errors.get(name, '-')} | "
        lines.append(f"| {name} | {cells} |")
    return ["\n".join(lines)]

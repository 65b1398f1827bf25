"""Owns what an outage of many remote servers costs: who comes back when, and never too many at once; goal 25.

It must not judge, nor know how the gateway bounds itself: what is counted is counted at the servers (`fleet.py`).
"""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import accounting, targets
from .goals import Figure
from .running import Running, say
from .wire import BenchError

#: Seconds until a server answers anything, as a distant one does.
LATENCY = 0.02
AWAY_SECONDS = 8.0
CONNECT_SECONDS = 90.0
SETTLE_SECONDS = 20.0
STEP = 0.1
#: Seconds of a line of the curve, and its width where all are connected.
LINE = 1.0
WIDTH = 40
PHASES = ("start", "away", "back")


@dataclass(slots=True)
class Outage:
    """By phase (start, away, back): the record of each 100 ms, seconds of the daemon's CPU and until all were connected
    (away: for which it lasted). `status_ms`: one `mcphub status` with all of them; `idle_ms_s`: CPU ms a second."""

    servers: int
    begun: dict[str, list[int]] = field(default_factory=dict)
    most: dict[str, list[int]] = field(default_factory=dict)
    others: dict[str, list[int]] = field(default_factory=dict)
    connected: dict[str, list[int]] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)
    took_s: dict[str, float] = field(default_factory=dict)
    status_ms: float = 0.0
    idle_ms_s: float = 0.0
    daemon_mib: float = 0.0
    error: str = ""


class Fleet:
    """The process that plays the servers; `ports` are theirs."""

    def __init__(self, servers: int) -> None:
        argv = (targets.BASE_PYTHON, "-I", "-S", str(targets.HERE / "fleet.py"), str(servers), str(LATENCY))
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ports: list[int] = json.loads(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def record(self) -> dict[str, list[int]]:
        self.say("tell")
        found: dict[str, list[int]] = json.loads(self._line())
        return found

    def close(self) -> None:
        self.process.communicate()  # the end of its input is its end


def status(program: Path, target: targets.Target) -> tuple[float, int]:
    """How long the command takes, ms, and how many servers are connected."""
    begun = time.perf_counter()
    done = subprocess.run(
        [str(program), "status", "--json"], capture_output=True, env=dict(target.environment), timeout=60, check=False
    )
    took = (time.perf_counter() - begun) * 1e3
    if done.returncode != 0:
        raise BenchError(f"mcphub status ended with {done.returncode}: {done.stderr.decode(errors='replace')[-300:]}")
    rows: list[dict[str, Any]] = json.loads(done.stdout)["servers"]
    return took, sum(row["state"] == "connected" for row in rows)


def settle(daemon: accounting.Process) -> None:
    """Wait until the daemon has nothing left to do of its own, such as remembering what each server's tools are."""
    end = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < end:
        before = accounting.cpu_ns((daemon,))
        time.sleep(0.5)
        if accounting.cpu_ns((daemon,)) - before < 2e6:
            return


def measure(program: Path, target: targets.Target, fleet: Fleet, result: Outage, away: float) -> None:
    """Start, outage, return."""
    begun = time.perf_counter()
    with Running(replace(target, client=()), want=1) as hub:
        daemon, _ = hub.daemon_tree()
        spent, first = 0, 0

        def phase(name: str, begun: float) -> None:
            nonlocal spent, first
            result.took_s[name] = time.perf_counter() - begun
            total = accounting.cpu_ns((daemon,))
            result.cpu_s[name] = (total - spent) / 1e9
            record = fleet.record()
            for what in ("begun", "most", "others", "connected"):
                getattr(result, what)[name] = record[what][first:]
            spent, first = total, len(record["begun"])

        def all_connected() -> None:
            end = time.monotonic() + CONNECT_SECONDS
            while (now := (fleet.record()["connected"] or [0])[-1]) < result.servers:
                if time.monotonic() > end:
                    raise BenchError(f"{now} of {result.servers} servers are connected after {CONNECT_SECONDS:.0f} s")
                time.sleep(STEP)

        all_connected()
        phase("start", begun)
        settle(daemon)
        times = [status(program, target) for _ in range(3)]
        result.status_ms = sorted(took for took, _ in times)[1]
        result.daemon_mib = accounting.rss_mib((daemon,))
        settle(daemon)
        before, begun = accounting.cpu_ns((daemon,)), time.perf_counter()
        time.sleep(1.0)
        result.idle_ms_s = (accounting.cpu_ns((daemon,)) - before) / 1e6 / (time.perf_counter() - begun)
        spent, first = accounting.cpu_ns((daemon,)), len(fleet.record()["begun"])
        fleet.say("away")
        begun = time.perf_counter()
        time.sleep(away)
        phase("away", begun)
        fleet.say("back")
        begun = time.perf_counter()
        all_connected()
        phase("back", begun)
        connected = status(program, target)[1]
        if connected != result.servers:
            raise BenchError(f"mcphub says that {connected} of {result.servers} servers are connected")


def run(folder: Path, program: Path, *, servers: int, away: float = AWAY_SECONDS) -> Outage:
    """All of it; what fails is in `error`."""
    result = Outage(servers)
    fleet = Fleet(servers)
    try:
        urls = [f"http://127.0.0.1:{port}/mcp" for port in fleet.ports]
        entries = {f"s{number}": {"type": "http", "url": url} for number, url in enumerate(urls)}
        measure(program, targets.mcphub(folder / "o", program, servers=0, entries=entries), fleet, result, away)
        say("  outage done")
    except (BenchError, OSError) as error:
        result.error = str(error)[:300]
        say(f"  {result.error}")
    finally:
        fleet.close()
    return result


def figures(result: Outage) -> dict[str, Figure]:
    """Goal 25."""
    if result.error or "back" not in result.most:
        return dict.fromkeys(("25", "25 s"), Figure(because=result.error or "-"))
    most = tuple(float(max(result.most[phase], default=0)) for phase in PHASES)
    return {"25": Figure((max(most),)), "25 s": Figure((result.took_s["back"],))}


def tables(result: Outage) -> list[str]:
    """The phases in figures, and the curve: a line a second."""
    lines = [
        f"{result.servers} remote servers, half of each era, go at once for "
        f"{result.took_s.get('away', 0.0):.0f} s and come back; each answers after {LATENCY * 1e3:.0f} ms. "
        f"`mcphub status` takes {result.status_ms:.0f} ms, the daemon {result.daemon_mib:.0f} MiB, and "
        f"{result.idle_ms_s:.2f} ms of CPU a second when idle:\n",
        "| phase | seconds | attempts | most in 100 ms | most at once | requests for streams, most in 100 ms | CPU s |",
        "| --- |" + " ---: |" * 6,
    ]
    for name in result.begun:
        begun, most, others = result.begun[name], result.most[name], result.others[name]
        lines.append(
            f"| {name} | {result.took_s[name]:.1f} | {sum(begun):,} | {max(begun, default=0)} | {max(most, default=0)} "
            f"| {max(others, default=0)} | {result.cpu_s[name]:.2f} |"
        )
    found = ["\n".join(lines)]
    if result.begun:
        title = "Each second: attempts begun, the most at once, servers connected:\n"
        found.append("\n".join([title, "```", *curve(result), "```"]))
    return found + ([result.error] if result.error else [])


def curve(result: Outage) -> list[str]:
    """A line a second: the phase, attempts begun in it, the most under way at once, how many are connected."""
    size = round(LINE / STEP)
    lines = ["         s  attempts  at once  connected"]
    for name in result.begun:
        for at in range(0, len(result.begun[name]), size):
            part = slice(at, at + size)
            connected = result.connected[name][part][-1]
            bar = "#" * round(WIDTH * connected / max(result.servers, 1))
            begun, most = sum(result.begun[name][part]), max(result.most[name][part])
            lines.append(f"{name:6} {at * STEP:3.0f}  {begun:8}  {most:7}  {connected:9}  {bar}".rstrip())
    return lines

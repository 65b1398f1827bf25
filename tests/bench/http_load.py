"""Owns the load over HTTP: agents on the HTTP endpoint beside its peers, and mcphub as an HTTP client; goals 19 and 20.

It must not know how the peers are installed: it is given what could be started.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import load, targets
from .goals import Figure, ratios
from .load import SMALL, Phase, Sample, TargetLoad
from .running import Running, say
from .wire import BenchError

PHASES = (
    Phase("100B c1", 1, "echo", SMALL, 100),
    Phase("100B c8", 8, "echo", SMALL, 100),
    Phase("100B c64", 64, "echo", SMALL, 100),
)
SUBJECT, FLOOR, OLD_PEER = "mcphub", "asgi:relay", "mcp-proxy (PyPI)"
PEERS = (OLD_PEER, "mcp-proxy (npm)", "supergateway", "mcp-hub")
#: A phase of a peer costs more than its figures are worth: they are far from the gates.
SHARE = 0.5
CLIENTS = ("floor", "httpx2", "mcphub")
CONCURRENCY = (1, 32)
UPSTREAM = tuple(Phase(f"c={count}", count, "echo", SMALL, 100, server="remote") for count in CONCURRENCY)
CLIENT_SECONDS = 30.0
#: Each round starts six processes; their CPU a request is steady.
UPSTREAM_ROUNDS = 3
PROJECT = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class Upstream:
    """CPU us a request by concurrency: of each client alone in its process, and of the whole gateway a call."""

    clients: dict[int, dict[str, list[float]]] = field(default_factory=dict)
    gateway: dict[int, list[Sample]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


def client_cpu_us(name: str, url: str, concurrency: int, seconds: float) -> float:
    """CPU a request of one client, in a process of its own. Raises BenchError."""
    argv = (sys.executable, str(targets.HERE / "http_clients.py"), name, url, str(concurrency), str(seconds))
    environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(PROJECT)}
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CLIENT_SECONDS, env=environment
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"the client {name} did not end in {CLIENT_SECONDS:.0f} s") from error
    if done.returncode != 0:
        raise BenchError(f"the client {name} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return float(json.loads(done.stdout)["cpu_us"])


def upstream(folder: Path, program: Path, rounds: int, seconds: float) -> Upstream:
    """The clients one after the other against one echo endpoint, then a gateway that has it as its server."""
    result = Upstream()
    with Running(targets.echo_http(folder)) as echo:
        entry = {"remote": {"type": "http", "url": echo.target.url}}
        hub_target = targets.mcphub(folder / "upstream", program, servers=0, name="mcphub, HTTP server", entries=entry)
        with Running(hub_target, want=5) as hub:
            for phase, count in zip(UPSTREAM, CONCURRENCY, strict=True):
                alone = result.clients.setdefault(count, {})
                for turn in range(-1, min(rounds, UPSTREAM_ROUNDS)):
                    length = seconds if turn >= 0 else min(0.15, seconds)
                    for name in CLIENTS if turn >= 0 else ():
                        try:
                            alone.setdefault(name, []).append(client_cpu_us(name, echo.target.url, count, length))
                        except BenchError as error:
                            result.errors[name] = str(error)[:300]
                    try:
                        sample = load.measure(hub, phase, length)
                        if turn >= 0:
                            result.gateway.setdefault(count, []).append(sample)
                    except (BenchError, OSError) as error:
                        result.errors["mcphub, whole"] = str(error)[:300]
                        hub.reattach()
    for name, why in result.errors.items():
        say(f"  {name}: {why}")
    return result


def run(running: Sequence[Running], rounds: int, seconds: float) -> dict[str, TargetLoad]:
    """The endpoints by turns."""
    return load.run(running, PHASES, rounds, seconds * SHARE)


def endpoint_figures(results: dict[str, TargetLoad], missing: Mapping[str, str]) -> dict[str, Figure]:
    """Goal 19 against the peer it names, and against the best of all peers; MISSING says why a peer did not run."""

    def of(other: str, phase: str) -> Figure:
        ours, theirs = load.column(results, SUBJECT, phase, "rate"), load.column(results, other, phase, "rate")
        if not ours or not theirs:
            name = other if ours else SUBJECT
            return Figure(because=missing.get(name, f"{name} did not run"))
        return ratios(ours, theirs)

    found = {f"19 c{count}": of(OLD_PEER, f"100B c{count}") for count in (1, 8, 64)}
    ran = [name for name in PEERS if all(load.column(results, name, phase.name, "rate") for phase in PHASES)]
    against = [(of(name, phase.name), name, phase.name) for name in ran for phase in PHASES]
    measured = [one for one in against if one[0].values]
    if measured:
        found["19 best"] = min(measured, key=lambda one: one[0].median)[0]
    else:
        found["19 best"] = Figure(because="no peer ran")
    return found


def upstream_figures(result: Upstream) -> dict[str, Figure]:
    """Goal 20: the client of the hand-written floor, and the whole gateway of bare httpx2."""
    alone = result.clients.get(32, {})
    whole = {count: [sample.gateway_cpu_us for sample in samples] for count, samples in result.gateway.items()}

    def of(above: Sequence[float], below: Sequence[float], *names: str) -> Figure:
        if above and below:
            return ratios(above, below)
        return Figure(because=next((result.errors[name] for name in names if name in result.errors), "did not run"))

    found = {"20 client": of(alone.get("mcphub", []), alone.get("floor", []), "mcphub", "floor")}
    for count in CONCURRENCY:
        bare = result.clients.get(count, {}).get("httpx2", [])
        found[f"20 c{count}"] = of(whole.get(count, []), bare, "mcphub, whole", "httpx2")
    return found


def endpoint_tables(results: dict[str, TargetLoad], missing: Mapping[str, str]) -> list[str]:
    """As `load.tables`, of the floor; who is missing stands below."""
    tables = load.tables(results, base=FLOOR)
    tables[0] = f"Calls a second (of {FLOOR}); agents over HTTP, one stdio server behind each:" + tables[0].partition(
        ":"
    )[2]
    return [*tables, *(f"{name}: not measured, {why}" for name, why in missing.items())]


def upstream_tables(result: Upstream) -> list[str]:
    """CPU a request of the clients and of the gateway, medians of the rounds."""
    lines = [
        "CPU of an HTTP client, us a request of 100 B, alone in a process; of all of mcphub with an HTTP server:\n",
        "| client | " + " | ".join(f"c={count}" for count in CONCURRENCY) + " |",
        "| --- |" + " ---: |" * len(CONCURRENCY),
    ]
    rows = {name: [result.clients.get(count, {}).get(name, []) for count in CONCURRENCY] for name in CLIENTS}
    rows["mcphub: daemon, launcher and bridge"] = [
        [sample.gateway_cpu_us for sample in result.gateway.get(count, [])] for count in CONCURRENCY
    ]
    words = {"floor": "hand-written (the floor)", "httpx2": "httpx2", "mcphub": "mcphub's transport alone"}
    for name, columns in rows.items():
        cells = [f"{statistics.median(column):,.0f}" if column else "failed" for column in columns]
        lines.append(f"| {words.get(name, name)} | {' | '.join(cells)} |")
    return ["\n".join(lines), *(f"{name}: {why}" for name, why in result.errors.items())]

"""Owns the one command: what is started in which order, within which time, and that all of it ends.

It must not know a figure from another: the sections measure, `goals` judges, `report` shows.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from . import fairness, features, goals, http_load, load, neighbours, outage, peers, scale, startup, targets
from .report import Report, write_markdown
from .running import Running, say
from .wire import BenchError

SECTIONS = ("load", "http", "startup", "neighbours", "fairness", "scale", "config", "outage", "features")
#: The peers are not ours to install everywhere; without them these goals stay open and nothing is wrong.
OPTIONAL = ("6 c64", "6 c1", "19 c1", "19 c8", "19 c64", "19 best")


class OutOfTime(BaseException):
    """The run's limit has passed. Not an Exception: no section may take it for a failed target."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how often."""

    rounds: int
    seconds: float
    scale_rounds: int
    startup_rounds: int
    idle_seconds: float
    servers: int
    tools: int
    #: Servers of the configuration that is read, decided about and changed.
    entries: int = 500
    #: Remote servers that go and come back.
    fleet: int = 1000


FULL = Plan(rounds=5, seconds=0.6, scale_rounds=5, startup_rounds=21, idle_seconds=5.0, servers=50, tools=20)
QUICK = Plan(
    rounds=2, seconds=0.12, scale_rounds=1, startup_rounds=3, idle_seconds=1.0, servers=50, tools=20, fleet=100
)


@dataclass(slots=True)
class Collected:
    """What the sections have given so far."""

    figures: dict[str, goals.Figure] = field(default_factory=dict)
    tables: list[tuple[str, list[str]]] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)

    def add(self, title: str, raw: object, figures: dict[str, goals.Figure], tables: list[str]) -> None:
        self.figures |= figures
        self.tables.append((title, tables))
        self.raw[title] = raw


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="run.py", description="mcphub's speed as ratios within one run.")
    parser.add_argument("--quick", action="store_true", help="a smoke run of less than a minute: figures are noise")
    parser.add_argument("--rounds", type=int, help="rounds of each load phase (default 5)")
    parser.add_argument("--seconds", type=float, help="seconds of each load phase (default 0.6)")
    parser.add_argument("--only", default=",".join(SECTIONS), help="some of: %(default)s")
    parser.add_argument("--mcphub", type=Path, help="the program (default: the one beside this interpreter)")
    parser.add_argument("--no-install", action="store_true", help="do not install the peers of goals 6 and 19")
    parser.add_argument("--limit", type=int, default=900, help="seconds after which the run ends with what it has")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round's figures")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the report, between FILE's marks")
    parser.add_argument("--check", action="store_true", help="exit with 1 unless every gate was measured and met")
    options = parser.parse_args(arguments)
    unknown = set(options.only.split(",")) - set(SECTIONS)
    if unknown:
        parser.error(f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    return options


def plan_of(options: argparse.Namespace) -> Plan:
    """The plan that the command line asks for."""
    plan = QUICK if options.quick else FULL
    changes = {name: getattr(options, name) for name in ("rounds", "seconds") if getattr(options, name) is not None}
    return dataclasses.replace(plan, **changes)


def machine(plan: Plan) -> str:
    """What the figures were measured on, in one sentence."""
    load_1, _, _ = os.getloadavg()
    return (
        f"{time.strftime('%Y-%m-%d')}, {platform.system()} on {platform.machine()}, {os.cpu_count()} cores, "
        f"{platform.python_implementation()} {platform.python_version()}, load average {load_1:.1f} before the run; "
        f"{plan.rounds} rounds of {plan.seconds} s a load phase."
    )


def start(stack: ExitStack, target: targets.Target, want: int = 3) -> Running | None:
    """The target with WANT tools listed, ended with STACK; None when it does not come up (said on standard error)."""
    try:
        running = stack.enter_context(Running(target, want))
    except (BenchError, OSError, ValueError) as error:
        say(f"  cannot start {error}")
        return None
    say(f"  up: {target.name}, first tools/list after {running.first_list_s:.3f} s")
    return running


def load_section(folder: Path, program: Path, plan: Plan, install: bool, collected: Collected) -> None:
    """Goals 1 to 9."""
    with ExitStack() as stack:
        wanted = [
            targets.direct(folder),
            targets.bridged_relay(folder),
            targets.mcphub(folder / "load", program),
        ]
        try:
            wanted.append(targets.tooner(folder, peers.tooner(install)))
        except BenchError as error:
            say(f"  goal 6 is left out: {error}")
        running = [one for one in (start(stack, target) for target in wanted) if one is not None]
        results = load.run(running, load.PHASES, plan.rounds, plan.seconds)
    collected.add(
        "Load",
        {name: dataclasses.asdict(result) for name, result in results.items()},
        load.figures(results, subject="mcphub", base="direct", floor="bridge:poll:buf-asyncio", peer="tooner"),
        load.tables(results, base="direct"),
    )


def http_section(folder: Path, program: Path, plan: Plan, install: bool, collected: Collected) -> None:
    """Goals 19 and 20."""
    wanted = [
        targets.asgi_relay(folder, "legacy"),
        targets.mcphub_http(folder / "http", program, "legacy"),
        targets.asgi_relay(folder, "modern"),
        targets.mcphub_http(folder / "http-modern", program, "modern"),
    ]
    missing: dict[str, str] = {}
    try:
        wanted.append(targets.mcp_proxy(folder, peers.mcp_proxy(install)))
    except BenchError as error:
        missing["mcp-proxy (PyPI)"] = str(error)
    try:
        modules = peers.node_gateways(install)
        wanted += [targets.mcp_proxy_npm(folder, modules), targets.supergateway(folder, modules)]
        wanted.append(targets.mcp_hub(folder, modules))
    except BenchError as error:
        missing |= {name: str(error) for name in http_load.PEERS[1:]}
    for name, why in missing.items():
        say(f"  {name} is left out: {why}")
    with ExitStack() as stack:
        running = [one for one in (start(stack, target) for target in wanted) if one is not None]
        results = http_load.run(running, plan.rounds, plan.seconds)
    collected.add(
        "HTTP endpoint",
        {name: dataclasses.asdict(result) for name, result in results.items()},
        http_load.endpoint_figures(results, missing),
        http_load.endpoint_tables(results, missing),
    )
    found = http_load.upstream(folder, program, plan.rounds, plan.seconds)
    collected.add(
        "HTTP servers",
        dataclasses.asdict(found),
        http_load.upstream_figures(found),
        http_load.upstream_tables(found),
    )


def features_section(folder: Path, program: Path, plan: Plan, collected: Collected) -> None:
    """What the features cost; no goal."""
    found = features.run(folder / "f", program, plan.rounds, plan.seconds)
    collected.add("Features", dataclasses.asdict(found), {}, features.tables(found))


def small_sections(folder: Path, program: Path, plan: Plan, sections: Sequence[str], collected: Collected) -> None:
    """Goals 10, 11, 17, 18 and the flood, on one gateway of two servers."""
    with ExitStack() as stack:
        hub = start(stack, targets.mcphub(folder / "small", program, servers=2, tools=5), want=10)
        if "startup" in sections:
            relay = start(stack, targets.relay(folder))
            if relay is not None:
                times = startup.run(hub, relay, program, plan.startup_rounds)
                collected.add("Start-up", dataclasses.asdict(times), startup.figures(times), startup.tables(times))
        if "neighbours" in sections:
            found = neighbours.run(folder, hub, plan.rounds, plan.seconds)
            collected.add(
                "Neighbours",
                dataclasses.asdict(found),
                neighbours.figures(found, "mcphub"),
                neighbours.tables(found),
            )


def fairness_section(folder: Path, program: Path, plan: Plan, collected: Collected) -> None:
    """Goal 26, on a gateway of its own: a server that wrote junk to the neighbours is ended, and down for a while."""
    with ExitStack() as stack:
        hub = start(stack, targets.mcphub(folder / "fair", program, servers=2, tools=5), want=10)
        if hub is not None:
            fair = fairness.run(hub, plan.rounds, plan.seconds)
            collected.add("Fairness", dataclasses.asdict(fair), fairness.figures(fair), fairness.tables(fair))


def scale_section(folder: Path, program: Path, plan: Plan, collected: Collected) -> None:
    """Goals 12 to 16 and 21."""
    found = scale.run(
        folder / "scale",
        program,
        servers=plan.servers,
        tools=plan.tools,
        rounds=plan.scale_rounds,
        idle_seconds=plan.idle_seconds,
    )
    collected.add("Many servers", dataclasses.asdict(found), scale.figures(found), scale.tables(found))


def config_section(folder: Path, program: Path, plan: Plan, collected: Collected) -> None:
    """Goals 22 to 24."""
    from . import configuration  # it imports mcphub, which nothing else here does

    found = configuration.run(folder / "k", program, servers=plan.entries, rounds=plan.rounds)
    tables = configuration.tables(found, plan.entries)
    collected.add("Configuration", dataclasses.asdict(found), configuration.figures(found), tables)


def outage_section(folder: Path, program: Path, plan: Plan, collected: Collected) -> None:
    """Goal 25."""
    found = outage.run(folder / "o", program, servers=plan.fleet)
    collected.add("An outage", dataclasses.asdict(found), outage.figures(found), outage.tables(found))


def measure(options: argparse.Namespace, plan: Plan, program: Path, collected: Collected) -> None:
    """Every section that was asked for. Raises OutOfTime, SystemExit and KeyboardInterrupt after all has ended."""
    sections = options.only.split(",")
    with tempfile.TemporaryDirectory(prefix="mcphub-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if "load" in sections:
            say("load")
            load_section(folder, program, plan, not options.no_install, collected)
        if "http" in sections:
            say("http")
            http_section(folder, program, plan, not options.no_install, collected)
        if not {"startup", "neighbours"}.isdisjoint(sections):
            say("start-up and neighbours")
            small_sections(folder, program, plan, sections, collected)
        if "fairness" in sections:
            say("fairness")
            fairness_section(folder, program, plan, collected)
        if "scale" in sections:
            say("many servers")
            scale_section(folder, program, plan, collected)
        if "config" in sections:
            say("configuration")
            config_section(folder, program, plan, collected)
        if "outage" in sections:
            say("an outage")
            outage_section(folder, program, plan, collected)
        if "features" in sections:
            say("features")
            features_section(folder, program, plan, collected)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the report, write what was asked for. Gives the exit status."""
    options = parse(arguments)
    plan = plan_of(options)
    # Not resolved: a virtual environment is known by the place of its link, not by what that links to.
    program = options.mcphub or Path(sys.executable).parent / "mcphub"
    if not program.exists():
        say(f"cannot measure mcphub: no program {program}; install the project into this environment")
        return 2
    words = machine(plan)
    collected = Collected()

    def out_of_time(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGALRM, out_of_time)
    signal.signal(signal.SIGTERM, stop)
    signal.alarm(options.limit)
    begun = time.monotonic()
    try:
        measure(options, plan, program, collected)
    except OutOfTime:
        say(f"the limit of {options.limit} s has passed; what follows is what there is")
    finally:
        signal.alarm(0)
    report = Report(words, goals.judge(collected.figures), collected.tables)
    print(report.markdown())
    say(f"took {time.monotonic() - begun:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(report.json() | {"raw": collected.raw}, indent=1))
    if options.markdown:
        write_markdown(report, options.markdown)
    open_ones = [row for row in report.rows if row.verdict == "not measured" and row.goal.key not in OPTIONAL]
    missed = [row for row in report.rows if row.verdict == "missed"]
    return 1 if options.check and (missed or open_ones) else 0

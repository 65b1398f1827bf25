"""Owns the legs of the conformance suite: what is started for each, and the suite's own command lines.

It must not judge (score.py does) nor know a scenario (driver.py does). `direct` scores our everything-server alone,
`server` the same server through the hub, `client` the hub in front of the suite's mocks.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.streams.text import TextReceiveStream

from tests.conformance import reasons, score
from tests.fakes.hub import MCPHUB, Hub, row, running

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / ".counterparts" / "conformance" / "node_modules"
SUITE = INSTALLED / "@modelcontextprotocol" / "conformance"
EVERYTHING = ROOT / "tests" / "fakes" / "everything.py"
#: The suite splits the driver's command at blanks, so both are relative to where it runs.
DRIVER = Path("tests") / "conformance" / "driver.py"
PYTHON = os.path.relpath(sys.executable, ROOT)
REVISIONS = ("2025-11-25", "2026-07-28")
ERAS = {"2025-11-25": "legacy", "2026-07-28": "modern"}
OTHER_ERA = {"legacy": "modern", "modern": "legacy"}
#: The legs that are run when none is named.
LEGS = ("server", "client")


class CannotRun(Exception):
    """A leg cannot be run at all; the text says why."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for. `crossed`: the two sides of the hub speak different eras. `timeout`: seconds."""

    out: Path
    jobs: int = 2
    only: str = ""
    crossed: bool = False
    upstream: str = "http"
    strict: bool = False
    again: bool = False
    timeout: float = 60.0

    def wanted(self, scenario: str) -> bool:
        return re.search(self.only, scenario) is not None


@dataclass(frozen=True, slots=True)
class Requirements:
    """The scenarios of one leg at one revision."""

    scored: tuple[str, ...]
    not_scored: tuple[str, ...]


def node() -> str:
    """The Node that tests/conformance/run installed because the system's is too old, else the system's."""
    own = INSTALLED / "node" / "bin" / "node"
    found = str(own) if own.exists() else shutil.which("node")
    if not found or not SUITE.is_dir():
        raise SystemExit("cannot run the conformance suite: it is not installed; run `sh tests/conformance/run`")
    return found


async def requirements(revision: str, leg: str, options: Options) -> Requirements:
    script = Path(__file__).with_name("requirements.mjs")
    read = json.loads((await anyio.run_process([node(), str(script), str(SUITE), revision])).stdout)
    beside = [one["scenario"] for one in read["not_scored"] if one["leg"] == leg]
    return Requirements(
        tuple(name for name in read[leg] if options.wanted(name)),
        tuple(name for name in beside if options.wanted(name)),
    )


async def suite(log: Path, *arguments: str) -> None:
    """One run of the suite; its exit status is not asked, its result files are."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        command = [node(), str(SUITE / "dist" / "index.js"), *arguments]
        await anyio.run_process(
            command, check=False, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )


# -- what the server leg speaks to


@asynccontextmanager
async def everything() -> AsyncIterator[str]:
    """Our everything-server over HTTP: its URL."""
    command = [sys.executable, "-I", str(EVERYTHING), "--http", "0"]
    async with await anyio.open_process(command, stdin=subprocess.DEVNULL, stderr=None) as process:
        try:
            assert process.stdout is not None
            with anyio.fail_after(20):
                url = await TextReceiveStream(process.stdout).receive()
            yield url.strip()
        finally:
            process.terminate()


def endpoint_settings() -> str:
    """Settings of a hub that listens on a free port of the loopback, with a token it makes itself."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return f'[http]\nlisten = "127.0.0.1:{port}"\ntoken = ""\n'


async def endpoint(hub: Hub, server: str) -> str:
    """Where one server's own names are served over HTTP, with the hub's token in the path: the suite sends no header.

    `http://127.0.0.1:PORT/t/TOKEN/mcp/s/SERVER`, said by `mcphub connect --print-url --server SERVER`.
    """
    command = [str(MCPHUB), "connect", "--print-url", "--server", server]
    done = await anyio.run_process(command, check=False, env=hub.place.environment(), stdin=subprocess.DEVNULL)
    url = done.stdout.decode().strip()
    if done.returncode or not url.startswith("http://127.0.0.1:"):
        said = (done.stderr or done.stdout).decode().strip()[:300]
        raise CannotRun(f"`mcphub connect --print-url --server {server}` said: {said}")
    return url


@asynccontextmanager
async def hub_before_everything(revision: str, options: Options) -> AsyncIterator[str]:
    """A hub whose only server is our everything-server: the URL for the suite."""
    # Our server speaks both eras. Over HTTP each agent is served in its own with what it declared. A process is spoken
    # to in one, and so is everything when crossed: the leg says which; `sampling`: it is told that agents can be asked.
    era = OTHER_ERA[ERAS[revision]] if options.crossed else ERAS[revision]
    entry: dict[str, Any] = {"era": era, "sampling": True}
    async with everything() as url:
        if options.upstream == "stdio":
            entry |= {"command": sys.executable, "args": ["-I", str(EVERYTHING), "--stdio"]}
        else:
            entry = {**(entry if options.crossed else {}), "type": "http", "url": url}
        async with running({"everything": entry}, settings=endpoint_settings()) as hub:
            found = row(await hub.until(lambda report: row(report, "everything")["state"] != "pending"), "everything")
            if found["state"] != "connected":
                raise CannotRun(f"the hub has everything {found['state']}: {found['reason']}")
            yield await endpoint(hub, "everything")


# -- legs


async def server_leg(url: str, revision: str, out: Path, options: Options) -> None:
    """The suite as a client: one scenario after another."""
    where = ["--url", url, "--timeout", _milliseconds(options), "-o", str(out)]
    if not options.only:
        await suite(out / "suite.log", "server", "--requirements", revision, *where)
        return
    wanted = await requirements(revision, "server", options)
    for scenario in wanted.scored + wanted.not_scored:
        await suite(out / "suite.log", "server", *_one(scenario, revision), *where)


async def client_leg(scenarios: Sequence[str], revision: str, out: Path, options: Options, jobs: int) -> None:
    """The suite as the servers: a hub and an agent for each scenario, `jobs` at once."""
    limiter = anyio.CapacityLimiter(jobs)
    command = f"{PYTHON} {DRIVER}{' --crossed' if options.crossed else ''}"
    where = ["--command", command, "--timeout", _milliseconds(options), "-o", str(out)]

    async def one(scenario: str) -> None:
        async with limiter:
            await suite(out / "log" / f"{scenario}.log", "client", *_one(scenario, revision), *where)

    async with anyio.create_task_group() as tasks:
        for scenario in scenarios:
            tasks.start_soon(one, scenario)


def _one(scenario: str, revision: str) -> list[str]:
    return ["--scenario", scenario, "--spec-version", revision, "--force"]


def _milliseconds(options: Options) -> str:
    return str(round(options.timeout * 1000))


async def run_leg(leg: str, revision: str, options: Options, surprises: list[str]) -> bool:
    """Runs one leg at one revision and prints its score. True when everything that is scored passed. `surprises` gets a
    line for each scenario that is not as reasons.py says."""
    out = options.out / f"{leg}-{revision}{'-crossed' if options.crossed else ''}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    started = time.monotonic()
    wanted = await requirements(revision, "client" if leg == "client" else "server", options)
    run = reasons.Run(leg, revision, options.crossed and leg != "direct")
    title = str(run)
    try:
        if leg == "client":
            await client_leg(wanted.scored + wanted.not_scored, revision, out, options, options.jobs)
            if options.again:
                failed = [one.name for one in verdicts(wanted.scored, leg, out, options) if not one.passed]
                await client_leg(failed, revision, out, options, 1)
        else:
            async with everything() if leg == "direct" else hub_before_everything(revision, options) as url:
                await server_leg(url, revision, out, options)
    except CannotRun as reason:
        print(f"{title} scored: 0/{len(wanted.scored)}\n   cannot run: {reason}", flush=True)
        surprises.append(f"{title}: CANNOT RUN: {reason}")
        return False

    scored = verdicts(wanted.scored, leg, out, options)
    beside = verdicts(wanted.not_scored, leg, out, options)
    surprises += reasons.surprises(run, scored + beside)
    surprises += reasons.miscounted(run, len(scored), len(beside)) if not options.only else []
    why = {name: reason.why for name, reason in reasons.expected(run).items()}
    lines = score.report(f"{title} scored", scored, reasons=why)
    if leg == "client":
        for words, authorized in (("need no authorization", False), ("need authorization", True)):
            group = [one for one in scored if score.needs_authorization(one.name) == authorized]
            lines.append(score.count(f"{title} scenarios that {words}", group))
    lines += score.report(f"{title} not scored", beside, checks=False, reasons=why)
    seconds = time.monotonic() - started
    print("\n".join([*lines, f"{title} took {seconds:.1f} s"]), flush=True)
    return all(one.passed for one in scored)


def verdicts(scenarios: Sequence[str], leg: str, out: Path, options: Options) -> list[score.Verdict]:
    found = score.results(out, "client" if leg == "client" else "server")
    return [score.verdict(name, found.get(name), strict=options.strict) for name in scenarios]


async def run(legs: Sequence[str], revisions: Sequence[str], options: Options, *, informed: bool) -> bool:
    """Whether everything that is scored passed, and all is as reasons.py says. `informed`: the same once more with the
    eras crossed: some of it cannot be carried between eras, and part of it is about one era alone."""
    surprises: list[str] = []
    passed = [await run_leg(leg, revision, options, surprises) for leg in legs for revision in revisions]
    if informed:
        print("the two sides of the hub in different eras:", flush=True)
        crossed = replace(options, crossed=True)
        for leg in legs:
            for revision in revisions:
                await run_leg(leg, revision, crossed, surprises)
    if surprises:
        stars = "*" * 78
        told = [f"   {line}" for line in surprises]
        print("\n".join([stars, "NOT AS tests/conformance/reasons.py SAYS:", *told, stars]), flush=True)
    return (all(passed) or options.crossed) and not surprises


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/conformance/run")
    legs_of = "default: server and client, then both with --crossed"
    parser.add_argument("leg", nargs="?", choices=["direct", "server", "client"], help=legs_of)
    parser.add_argument("revision", nargs="*", help=f"default: {' and '.join(REVISIONS)}")
    parser.add_argument("--crossed", action="store_true", help="the two sides of the hub speak different eras")
    parser.add_argument("--upstream", choices=["http", "stdio"], default="http", help="transport behind the hub")
    parser.add_argument("--only", metavar="REGEX", default="", help="only the scenarios that this finds")
    parser.add_argument("--jobs", type=int, default=2, help="client scenarios at once (default 2)")
    parser.add_argument("--again", action="store_true", help="run failed client scenarios once more, one by one")
    parser.add_argument("--strict", action="store_true", help="a warning fails a scenario too")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one scenario (default 60)")
    parser.add_argument("--out", type=Path, help="where the results go, seen from the project (default: temporary)")
    args = parser.parse_args()
    if unknown := set(args.revision) - set(REVISIONS):
        parser.error(f"unknown revision {' '.join(sorted(unknown))}; known: {' '.join(REVISIONS)}")
    out = args.out.resolve() if args.out else Path(tempfile.mkdtemp(prefix="mcphub-conformance-"))
    options = Options(
        out, args.jobs, args.only, args.crossed, args.upstream, args.strict, args.again, float(args.timeout)
    )
    legs = [args.leg] if args.leg else LEGS
    try:
        informed = not args.leg and not args.crossed
        passed = anyio.run(partial(run, legs, args.revision or REVISIONS, options, informed=informed))
    except KeyboardInterrupt:
        return 130
    if args.out or not passed:
        print(f"results: {out}")
    else:
        shutil.rmtree(out)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())

"""Owns the command: `python -m tests.e2e.calls [--calls N] [--bursts] [--seed N] [--verbose]`, and its verdict.

It must not know how a server is hurt or an answer judged. Exit status 0: every call of every agent ended once, by a
result with its own token or an error with a name, and what the servers did agrees with that; nothing leaked.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import psutil

from tests.e2e.calls.agents import WINDOW, Asks, OverHttp, Streamed
from tests.e2e.calls.harm import Harm
from tests.e2e.calls.journal import differences
from tests.e2e.calls.ledger import MOST_TOLD, Ledger
from tests.e2e.calls.work import NAMES, SERVERS, Work
from tests.e2e.chaos.world import ROOT
from tests.fakes.agent import text
from tests.fakes.bridge import bridge
from tests.fakes.hub import MCPHUB, Hub, Place, running

#: name: (how it is attached, era)
AGENTS = {
    "lsocket": ("socket", "legacy"),
    "msocket": ("socket", "modern"),
    "lother": ("socket", "legacy"),
    "mother": ("socket", "modern"),
    "lbridge": ("bridge", "legacy"),
    "mbridge": ("bridge", "modern"),
    "lhttp": ("http", "legacy"),
    "mhttp": ("http", "modern"),
}
#: Where calls come in bursts: whoever is not alone is looked at call by call.
ALONE = {"alone": ("bridge", "legacy")}
#: Calls that it has in flight, and of one tool one after the other.
BURST = 60
SETTINGS = '[http]\nlisten = "127.0.0.1:0"\n[stop]\ngrace = 1\n'
#: Calls that every run begins with, and that are not hurt: what the daemon holds afterwards is what it may hold.
WARM = 2000
#: Seconds without an answer to anybody after which something hangs, whatever is done to servers.
HANG = 20.0
#: MiB that the daemon may have grown by in a run, however long.
GROWTH = 32.0
#: Seconds in which the daemon must have given back what it held for agents and servers that are gone.
QUIET = 20.0
#: Longer than an idle connection to a server is kept.
IDLE = 4.5
CENSUS = "census=tests.e2e.chaos.inside:census"


def say(words: str) -> None:
    print(words, flush=True)


class Run:
    """One run: what was done, and what is wrong."""

    def __init__(self, hub: Hub, harm: Harm, ledger: Ledger, options: argparse.Namespace) -> None:
        self.hub, self.harm, self.ledger = hub, harm, ledger
        self.options = options
        self.attached = ALONE if options.bursts else AGENTS
        self.faults: list[str] = []
        self.answers = 0

    @asynccontextmanager
    async def agents(self, run: str) -> AsyncIterator[list[Asks]]:
        """All are attached; they hang up at the end."""
        code, report = await self.hub.control("GET", "/v1/url")
        assert code == 200, report
        found: list[Asks] = []
        async with AsyncExitStack() as stack:
            for name, (how, era) in self.attached.items():
                book, seed = self.ledger.book(name + run), f"{self.options.seed}{run}"
                if how == "http":
                    over = OverHttp(report["url"], book, era, seed)
                    await over.introduce()
                    stack.push_async_callback(over.leave)
                    found.append(over)
                    continue
                attached = bridge(self.hub.place, ends="socketpairs") if how == "bridge" else await self.hub.agent()
                agent = await stack.enter_async_context(attached)
                streamed = Streamed(agent.stream, book, era, seed, BURST if self.options.bursts else WINDOW)
                await streamed.introduce()
                found.append(streamed)
            yield found

    async def all_call(self, agents: list[Asks], work: Work, *, hurt: bool) -> None:
        """Until there is no work left. Raises TimeoutError when nothing moves any more."""
        async with anyio.create_task_group() as watching:
            watching.start_soon(self.watch, work)
            async with anyio.create_task_group() as harming:
                if hurt:
                    for name, target in SERVERS.items():
                        if target.harmed:
                            harming.start_soon(self.harm.hurt, name, self.hub, work, str(self.options.seed))
                async with anyio.create_task_group() as calling:
                    for agent in agents:
                        calling.start_soon(agent.run, work)
                work.over = True
            watching.cancel_scope.cancel()

    async def watch(self, work: Work) -> None:
        """Tell what hangs, and give up."""
        began = time.monotonic()
        while True:
            await anyio.sleep(HANG / 4)
            now = time.monotonic()
            if now - began > self.options.minutes * 60:
                work.left = 0
            if self.options.verbose:
                harms = sum(self.harm.harms.values())
                say(f"  {now - began:6.1f} s: {self.ledger.calls} calls, {harms} harms, {self.memory():.1f} MiB")
            for book in self.ledger.books.values():
                for number in book.open():
                    if now - book.sent[number] > HANG:
                        book.wrong(number, f"no answer in {HANG:g} s")
            if self.ledger.count:
                raise TimeoutError(f"{self.ledger.count} faults")

    async def census(self) -> dict[str, Any]:
        """What the daemon holds, by its own count, with one agent that asks for it."""
        await anyio.sleep(IDLE)
        async with await self.hub.agent() as agent:
            await agent.initialize()
            for name in NAMES:  # whoever uses a server gives up the connections to it that were idle for long
                for era in ("legacy", "modern"):
                    await agent.call(f"mcp__{name}__read", {"token": "census-0"}, era=era)
            found: dict[str, Any] = json.loads(text(await agent.call("mcp__census__echo", {})))
        return found

    def memory(self) -> float:
        """MiB of the daemon's own memory, without the files that it maps: the journal never grows."""
        assert self.hub.process is not None
        found = psutil.Process(self.hub.process.pid).memory_info()
        return float(found.rss - found.shared) / (1 << 20)

    async def everything(self) -> None:
        await self.hub.until_state(*NAMES, "census", timeout=60)
        async with self.agents("w") as agents:
            await self.all_call(agents, self.work(WARM), hurt=False)
        await self.hub.until(lambda report: not report["sessions"])
        before, memory, processes = await self.census(), self.memory(), len(self.hub.place.processes())
        counted = await self.counters()
        began = time.monotonic()
        async with self.agents("") as agents:
            await self.all_call(agents, self.work(self.options.calls), hurt=True)
            took = time.monotonic() - began
            async with anyio.create_task_group() as tasks:
                for agent in agents:
                    tasks.start_soon(agent.run, Work(50))
            self.answers = sum(agent.answers for agent in agents)
        await self.hub.until(lambda report: not report["sessions"])
        self.judge(took, await self.counters() - counted)
        await self.look_into_the_journal()
        await self.compare(before, memory, processes)

    def work(self, calls: int) -> Work:
        return Work(calls, BURST if self.options.bursts else 1)

    async def counters(self) -> Counter[str]:
        """Late answers of servers that mcphub dropped, by server."""
        rows = (await self.hub.status())["servers"]
        return Counter({one["name"]: one["counters"].get("unknown_replies", 0) for one in rows})

    def judge(self, took: float, late: Counter[str]) -> None:
        ledger = self.ledger
        done = {name: lambda name=name: self.harm.lines(name) for name in NAMES}
        count, found = ledger.settle(done)
        self.faults += ledger.told(done)
        harms = ", ".join(f"{what} {times}" for what, times in sorted(self.harm.harms.items()))
        least = WARM + self.options.calls
        if ledger.calls < least:
            say(f"only {ledger.calls} calls, {least} wanted")
        say(f"{ledger.calls} calls of {len(self.attached)} agents in {took:.1f} s, {ledger.calls / took:.0f} a second")
        say(f"{sum(self.harm.harms.values())} harms: {harms}")
        say("ends: " + ", ".join(f"{name} {times}" for name, times in sorted(ledger.outcomes().items())))
        say("errors: " + ", ".join(f"{kind} {times}" for kind, times in ledger.kinds().most_common()))
        if self.options.verbose:
            for words, times in ledger.examples().most_common(30):
                say(f"  {times} {words}")
        say(f"{count} executions, by what their agents were told, how often:")
        for name, times in sorted(found.items()):
            say(f"  {name:20} {times}")
        say(f"{self.answers} questions answered; late answers dropped: {dict(+late)}")
        # An answer that nobody waits for is one to a call that was withdrawn, or given up.
        withdrawn = Counter[str]()
        for book in ledger.books.values():
            withdrawn.update(book.given_up())
        for name, times in late.items():
            if times > withdrawn[name]:
                self.faults.append(f"{name}: {times} late answers to {withdrawn[name]} calls that nobody waited for")
        if not found["RESULT write 1"] > ledger.calls / 5:
            self.faults.append(f"few writes have a result: {found}")

    async def look_into_the_journal(self) -> None:
        """What `mcphub calls` says is unknown is what agents were told so, or have withdrawn."""
        argv = [str(MCPHUB), "calls", "--json", "--limit", "1000000"]
        done = await anyio.run_process(argv, env=self.hub.place.environment())
        report = json.loads(done.stdout)
        ends = Counter(row["outcome"] for row in report["calls"])
        say("in the journal: " + ", ".join(f"{what} {times}" for what, times in sorted(ends.items())))
        in_flight = {row["name"]: row["calls_in_flight"] for row in (await self.hub.status())["servers"]}
        say(f"in flight still: { {name: number for name, number in in_flight.items() if number} }")
        found = differences(report["calls"], self.ledger.books.values(), in_flight=in_flight)
        self.faults += [*report["problems"], *found[:MOST_TOLD]]

    async def compare(self, before: dict[str, Any], memory: float, processes: int) -> None:
        """What the daemon holds now, of what it held before."""
        end = anyio.current_time() + QUIET
        while True:
            now = await self.census()
            more = [dict(Counter(now[what]) - Counter(before[what])) for what in ("tasks", "descriptors")]
            counts = {what: (len(before[what]), len(now[what])) for what in ("tasks", "descriptors")}
            counts["threads"] = before["threads"], now["threads"]
            counts["processes"] = processes, len(self.hub.place.processes())
            leaked = {what: pair for what, pair in counts.items() if pair[1] > pair[0]}
            if not leaked or anyio.current_time() > end:
                break
        grown = self.memory()
        say("held before and after: " + ", ".join(f"{what} {a} and {b}" for what, (a, b) in counts.items()))
        say(f"memory of the daemon: {memory:.1f} MiB before, {grown:.1f} after")
        if leaked:
            self.faults.append(f"leaked: {leaked}; {more}")
        if grown - memory > GROWTH:
            self.faults.append(f"the daemon has grown from {memory:.1f} to {grown:.1f} MiB")


async def calls(options: argparse.Namespace) -> list[str]:
    place = Place()
    folder = place.root / "calls"
    folder.mkdir()
    ledger = Ledger(NAMES)
    harm = Harm(folder, ledger)
    env = {"PYTHONPATH": str(ROOT), "CHAOS_FOLDER": str(folder)}
    try:
        async with (
            harm.open(),
            running(harm.entries(), settings=SETTINGS, place=place, env=env, args=["--embed", CENSUS]) as hub,
        ):
            run = Run(hub, harm, ledger, options)
            try:
                await run.everything()
            except* (TimeoutError, AssertionError) as e:
                run.faults += [f"{type(one).__name__}: {one}" for one in _leaves(e)]
                run.judge(1.0, Counter())
        return run.faults
    finally:
        place.remove()


def _leaves(e: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    return [leaf for one in e.exceptions for leaf in (_leaves(one) if isinstance(one, BaseExceptionGroup) else [one])]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.calls", description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--bursts", action="store_true", help="one agent alone, with many calls of one tool at a time")
    parser.add_argument("--minutes", type=float, default=1e6, help="no more calls are begun after so long")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--verbose", action="store_true", help="say how far it is")
    options = parser.parse_args()
    say(f"seed {options.seed}, {options.calls} calls")
    faults = anyio.run(calls, options)
    for fault in faults:
        say(f"FAULT: {fault}")
    say("calls: " + ("nothing is wrong" if not faults else f"{len(faults)} faults, seed {options.seed}"))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

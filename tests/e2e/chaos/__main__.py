"""Owns the command: `python -m tests.e2e.chaos [--minutes N | --seconds N] [--calls N] [--seed N]`, and its verdict.

It must not know how a server is hurt or an answer judged. Exit status 0: nothing leaked, no call hung, no answer was
wrong, every server is connected at the end, and no call to a server that was left alone has failed. It runs in a
network namespace of its own where one can be had (`--no-namespace`: in none), so that an address can be taken away.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack, suppress
from typing import Any

import anyio

from tests.e2e.chaos.callers import Asks, OverHttp, Streamed, Work, table
from tests.e2e.chaos.world import ATTACKS, ROOT, SERVERS, World
from tests.fakes.agent import text
from tests.fakes.bridge import bridge
from tests.fakes.http_agent import HttpAgent
from tests.fakes.hub import Hub, Place, eventually, running, summary

#: Seconds between two attacks on one server, without those that they last.
PAUSE = (0.5, 3.0)
#: Seconds until all servers must be connected after the last attack; failed ones are asked for, as a person would.
SETTLE = 40.0
#: Seconds in which the daemon must have given back what it held for agents that are gone.
QUIET = 20.0
#: Longer than an idle connection to a server is kept.
IDLE = 4.5
INSIDE = "MCPHUB_CHAOS_NAMESPACE"
CONTROL = [name for name, (_, _, attacked) in SERVERS.items() if not attacked]
ATTACKED = [name for name, (_, _, attacked) in SERVERS.items() if attacked]
TOOLS = {name: f"mcp__{name}__echo" for name in SERVERS}
#: Servers in the daemon have no entry of their own that would say how long a call may take.
SETTINGS = '[http]\nlisten = "127.0.0.1:0"\n[stop]\ngrace = 1\n[call]\ntimeout = 10\n'
EMBEDDED = ("census=census", "embed-victim=victim", "embed-control=control")


def say(words: str) -> None:
    print(words, flush=True)


class Run:
    """One run: what was done, and what is wrong."""

    def __init__(self, hub: Hub, world: World, place: Place, options: argparse.Namespace) -> None:
        self.hub, self.world, self.place = hub, world, place
        self.options = options
        self.chance = random.Random(options.seed)
        self.attacks: Counter[str] = Counter()
        self.faults: list[str] = []

    async def agents(self, stack: AsyncExitStack, tasks: anyio.abc.TaskGroup) -> list[Asks]:
        """Two of each era on the socket, one of each behind `mcphub connect`, one of each over HTTP."""
        found: list[Asks] = []
        for at, era in enumerate(("legacy", "modern", "legacy", "modern")):
            agent = await stack.enter_async_context(await self.hub.agent(client=f"agent{at}"))
            if era == "legacy":
                await agent.initialize()
            found.append(Streamed(agent, era, f"{era}{at}"))
        for era in ("legacy", "modern"):
            agent = await stack.enter_async_context(bridge(self.place, ends="socketpairs"))
            if era == "legacy":
                await agent.initialize()
            found.append(Streamed(agent, era, f"{era}-bridge"))
        for one in found:
            assert isinstance(one, Streamed)
            tasks.start_soon(one.read)
        code, report = await self.hub.control("GET", "/v1/url")
        assert code == 200, report
        for era in ("legacy", "modern"):
            over = HttpAgent(report["url"])
            if era == "legacy":
                await over.initialize()
                stack.push_async_callback(over.ask, "DELETE", over.legacy_headers)
            found.append(OverHttp(over, era, f"{era}-http"))
        return found

    async def census(self) -> dict[str, Any]:
        """What the daemon holds, by its own count, with one agent that asks for it."""
        await anyio.sleep(IDLE)
        async with await self.hub.agent() as agent:
            await agent.initialize()
            for name in SERVERS:  # whoever uses a server gives up the connections to it that were idle for long
                for era in ("legacy", "modern"):
                    await agent.call(TOOLS[name], {"text": "count"}, era=era)
            found: dict[str, Any] = json.loads(text(await agent.call("mcp__census__echo", {})))
        found["launcher"] = len(os.listdir(f"/proc/{(await self.hub.status())['daemon']['launcher_pid']}/fd"))
        return found

    async def attacker(self, name: str, until: float) -> None:
        chance = random.Random(f"{self.options.seed} {name}")
        while True:
            await anyio.sleep(chance.uniform(*PAUSE))
            if anyio.current_time() > until:
                return
            what = chance.choice(ATTACKS[SERVERS[name][0]])
            if what == "reconnect":
                await self.hub.reconnect(name)
            began = time.monotonic() - self.began
            done = await self.world.attack(name, what, chance)
            self.attacks[done.rpartition(" ")[0].rpartition(" ")[0]] += 1
            if self.options.verbose:
                say(f"  {began:6.1f} {name}: {done}")

    async def settle(self) -> None:
        """Every server connected again, by itself; what was given up is asked for."""
        asked: set[str] = set()
        end = anyio.current_time() + SETTLE
        while True:
            report = await self.hub.status()
            away = {one["name"]: one for one in report["servers"] if one["state"] != "connected"}
            if not away:
                break
            if anyio.current_time() > end:
                words = summary({"servers": list(away.values())})
                self.faults.append(f"not connected {SETTLE:g} s after the last attack: {words}")
                return
            for name, one in away.items():
                if one["state"] in ("failed", "needs-auth") and name not in asked:
                    asked.add(name)
                    await self.hub.reconnect(name)
            await anyio.sleep(0.1)
        took = SETTLE - (end - anyio.current_time())
        count = len(report["servers"])
        say(f"all {count} servers connected {took:.1f} s after the last attack; asked for: {sorted(asked)}")

    async def everything(self) -> None:
        self.began = time.monotonic()
        await self.hub.until_state(*SERVERS, "census", timeout=60)
        before = await self.warm_up()
        options = self.options
        async with AsyncExitStack() as stack, anyio.create_task_group() as readers:
            agents = await self.agents(stack, readers)
            pairs = len(agents) * len(SERVERS)
            work = Work(TOOLS, options.calls * 1.3 / options.seconds, pairs)
            async with anyio.create_task_group() as calls:
                for agent in agents:
                    for name in SERVERS:
                        calls.start_soon(work.keep_calling, agent, name)
                until = anyio.current_time() + options.seconds
                async with anyio.create_task_group() as attackers:
                    for name in ATTACKED:
                        attackers.start_soon(self.attacker, name, until)
                    await anyio.sleep_until(until)
                self.world.be_honest()
                await self.settle()
                with suppress(TimeoutError):
                    await eventually(lambda: work.calls >= options.calls, timeout=options.seconds)
                work.stop.set()
            for name in SERVERS:
                for agent in agents:
                    if (kind := await work.once(agent, name)) != "result":
                        self.faults.append(f"{agent.name}: a call of {name} after all was over: {kind}")
            strays = sum(agent.strays for agent in agents if isinstance(agent, Streamed))
            if strays:
                self.faults.append(f"{strays} answers that nobody waits for")
            readers.cancel_scope.cancel()
        self.judge(work)
        await self.compare(before)

    async def warm_up(self) -> dict[str, Any]:
        """Every agent has called every server once and gone: what the daemon holds then."""
        async with AsyncExitStack() as stack, anyio.create_task_group() as readers:
            agents = await self.agents(stack, readers)
            work = Work(TOOLS, 1.0, 1)
            # All at once, and slowly: each server has as many connections as it will ever need.
            self.world.tell_all("slow", 3.0)
            async with anyio.create_task_group() as calls:
                for name in SERVERS:
                    for agent in agents:
                        calls.start_soon(work.once, agent, name)
            readers.cancel_scope.cancel()
        self.world.be_honest()
        await self.hub.until(lambda report: not report["sessions"])
        self.processes = len(self.place.processes())
        return await self.census()

    def judge(self, work: Work) -> None:
        say(f"{work.calls} calls of 8 agents:\n{table(work.scores)}")
        for name, score in work.scores.items():
            self.faults += [f"{name}: {wrong}" for wrong in score.wrong]
            if name in CONTROL and set(score.kinds) != {"result"}:
                self.faults.append(f"{name} was left alone, and yet: {dict(score.kinds)}")
        if work.calls < self.options.calls:
            self.faults.append(f"{work.calls} calls, {self.options.calls} wanted")
        for name in CONTROL:
            if SERVERS[name][0] != "embed" and self.world.starts(name) != 1:
                self.faults.append(f"{name} was left alone, and yet started {self.world.starts(name)} times")

    async def compare(self, before: dict[str, Any]) -> None:
        """What the daemon holds now, of what it held before."""
        end = anyio.current_time() + QUIET
        while True:
            now = await self.census()
            more = {
                what: dict(Counter(now[what]) - Counter(before[what])) for what in ("tasks", "descriptors")
            }
            counts = {what: (len(before[what]), len(now[what])) for what in more}
            counts |= {what: (before[what], now[what]) for what in ("threads", "launcher")}
            counts["processes"] = (self.processes, len(self.place.processes()))
            leaked = {what: pair for what, pair in counts.items() if pair[1] > pair[0]}
            if not leaked or anyio.current_time() > end:
                break
        say("held before and after: " + ", ".join(f"{what} {a} and {b}" for what, (a, b) in counts.items()))
        if leaked:
            self.faults.append(f"leaked: {leaked}; {more}")
        for one in (await self.hub.status())["servers"]:
            if one["name"] in CONTROL and one["uptime"] < self.options.seconds:
                self.faults.append(f"{one['name']} was left alone, and yet is connected for {one['uptime']} s only")


async def chaos(options: argparse.Namespace, namespace: bool) -> list[str]:
    place = Place()
    folder = place.root / "chaos"
    folder.mkdir()
    try:
        world = World(folder, namespace=namespace)
        env = {"PYTHONPATH": str(ROOT), "CHAOS_FOLDER": str(folder)}
        embedded = [part for one in EMBEDDED for part in ("--embed", one.replace("=", "=tests.e2e.chaos.inside:"))]
        async with (
            world.open(),
            running(world.entries(), settings=SETTINGS, place=place, env=env, args=embedded) as hub,
        ):
            run = Run(hub, world, place, options)
            await run.everything()
            say("attacks: " + ", ".join(f"{what} {count}" for what, count in sorted(run.attacks.items())))
        return run.faults
    finally:
        place.remove()


def in_namespace() -> list[str]:
    """A command that runs another in a network of its own, [] = there is none to be had."""
    own = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return []
    done = subprocess.run([*own, "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
    return own if done.returncode == 0 else []


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--calls", type=int, help="calls in all (default: 20000 each 30 s, 200000 at most)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--no-namespace", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="say each attack")
    options = parser.parse_args()
    options.seconds = options.minutes * 60 or options.seconds
    options.calls = options.calls or min(round(20_000 * options.seconds / 30), 200_000)
    inside = os.environ.get(INSIDE) == "1"
    if not inside and not options.no_namespace and (own := in_namespace()):
        argv = [*own, sys.executable, "-m", "tests.e2e.chaos", *sys.argv[1:], "--seed", str(options.seed)]
        return subprocess.run(argv, cwd=ROOT, env={**os.environ, INSIDE: "1"}, check=False).returncode
    if inside:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        # Of a whole network on the loopback no address could be taken away.
        subprocess.run(["ip", "addr", "del", "127.0.0.1/8", "dev", "lo"], check=False)
        subprocess.run(["ip", "addr", "add", "127.0.0.1/32", "dev", "lo"], check=True)
    where = "in" if inside else "without"
    say(f"seed {options.seed}, {options.seconds:g} s, {options.calls} calls, {where} a network namespace of its own")
    faults = anyio.run(chaos, options, inside)
    for fault in faults:
        say(f"FAULT: {fault}")
    say("chaos: " + ("nothing is wrong" if not faults else f"{len(faults)} faults, seed {options.seed}"))
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())

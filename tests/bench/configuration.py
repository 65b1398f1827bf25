"""Owns what configuration costs: resolve and decide of many servers, one changed entry among many, one agent more.

It must not judge. The first is timed in this process, on its CPU time; the rest on a daemon whose servers are entries
for one HTTP server, so that five hundred of them cost no process each.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mcphub.config.document import parse_file
from mcphub.config.entries.context import Context
from mcphub.config.jsonc import Lines
from mcphub.config.layer import Layer
from mcphub.config.policy_document import PolicyDocument
from mcphub.config.resolve import resolve
from mcphub.policy.candidate import candidate_of
from mcphub.policy.combine import policy_of
from mcphub.policy.decide import Judge
from mcphub.spec import Origin, Scope

from . import accounting, targets
from .goals import Figure
from .running import Running, say
from .wire import BenchError, StreamClient, connect_unix

#: One file each; those of a project from the nearest up.
SCOPES = (
    Scope.MANAGED, Scope.DYNAMIC, Scope.LOCAL, Scope.PROJECT, Scope.PROJECT, Scope.PROJECT, Scope.USER, Scope.PLUGIN,
    Scope.WEBAPP,
)
#: Of each of the three kinds of rule that is denied, and that is allowed.
RULES = 16
#: Each layer repeats so many names of the one above it: an entry that loses must be looked at too.
SHADOWED = 10
#: Agents that attach with a workspace, and as many without, a round.
AGENTS = 20
CHANGE_SECONDS = 10.0
CONNECT_SECONDS = 60.0
SETTLE_SECONDS = 20.0


@dataclass(slots=True)
class Configuration:
    """Milliseconds of CPU for `resolve` and `decide`; of one changed entry the ms from the write until a call has the
    new instance, the daemon's CPU, and how many instances were new; CPU us of one agent's start, without a workspace
    and with one that brings nothing."""

    resolve_ms: list[float] = field(default_factory=list)
    decide_ms: list[float] = field(default_factory=list)
    parse_ms: list[float] = field(default_factory=list)
    change_ms: list[float] = field(default_factory=list)
    change_cpu_ms: list[float] = field(default_factory=list)
    restarted: list[float] = field(default_factory=list)
    plain_us: list[float] = field(default_factory=list)
    workspace_us: list[float] = field(default_factory=list)
    error: str = ""


def documents(servers: int) -> list[bytes]:
    """One file a layer, SERVERS names in all: two thirds are programs, one third is remote, half has variables."""
    files = []
    share = -(-servers // len(SCOPES))
    for index in range(len(SCOPES)):
        first, end = index * share, min((index + 1) * share, servers)
        entries: dict[str, Any] = {}
        for number in range(max(0, first - SHADOWED), end):
            if number % 3 == 2:
                entry: dict[str, Any] = {"type": "http", "url": f"https://mcp.vendor{number % 40}.example/{number}"}
                if number % 2:
                    entry["headers"] = {"Authorization": "Bearer ${TOKEN}"}
            else:
                entry = {"command": "npx", "args": ["-y", f"@scope/server{number}@1.2.3"]}
                if number % 2:
                    entry |= {"args": [*entry["args"], "--root", "${ROOT:-/srv}"], "env": {"API_KEY": "${TOKEN}"}}
            entries[f"server{number}"] = entry
        files.append(json.dumps({"mcpServers": entries}, indent=2).encode())
    return files


def layers(files: Sequence[bytes]) -> tuple[Layer, ...]:
    """The layers of these files, an administrator's rules in the first."""
    found = [
        parse_file(data, scope=scope, path=f"/bench/{index}.json", directory="/bench/project")
        for index, (scope, data) in enumerate(zip(SCOPES, files, strict=True))
    ]
    kinds = (
        lambda n: {"serverName": f"forbidden{n}"},
        lambda n: {"serverUrl": f"https://*.forbidden{n}.example/*"},
        lambda n: {"serverCommand": ["npx", "-y", f"forbidden{n}"]},
    )
    others = (
        lambda n: {"serverName": f"server{n}"},
        lambda n: {"serverUrl": f"https://*.vendor{n}.example/*"},
        lambda n: {"serverCommand": ["npx", "-y", f"@scope/server{n}@1.2.3"]},
    )
    rules = {
        "deniedMcpServers": [kind(number) for kind in kinds for number in range(RULES)],
        "allowedMcpServers": [kind(number) for kind in others for number in range(RULES)],
    }
    policy = PolicyDocument(Origin(Scope.MANAGED, "/bench/managed-settings.json", ""), rules, Lines())
    first = found[0]
    found[0] = Layer(first.scope, first.path, first.directory, first.entries, policy=policy)
    return tuple(found)


def pure(result: Configuration, servers: int, rounds: int) -> None:
    """`resolve`, then the policy read and asked about every server."""
    files = documents(servers)
    context = Context({"TOKEN": "t" * 20, "PATH": "/bin"}, "/bench/environment")
    for turn in range(-1, rounds):
        begun = time.process_time()
        read = layers(files)
        parsed = time.process_time()
        resolved = resolve(read, context, workspace="/bench/project")
        middle = time.process_time()
        judge = Judge(policy_of(resolved))
        verdicts = [judge.decide(candidate) for candidate in map(candidate_of, resolved.servers.values()) if candidate]
        ended = time.process_time()
        if len(verdicts) != servers:
            raise BenchError(f"{len(verdicts)} verdicts about {servers} servers")
        if turn >= 0:
            result.parse_ms.append((parsed - begun) * 1e3)
            result.resolve_ms.append((middle - parsed) * 1e3)
            result.decide_ms.append((ended - middle) * 1e3)


def uptimes(program: Path, environment: Mapping[str, str]) -> dict[str, float]:
    """Seconds since each server was connected, by `mcphub status --json`."""
    done = subprocess.run(
        [str(program), "status", "--json"], capture_output=True, env=dict(environment), timeout=30, check=False
    )
    if done.returncode != 0:
        raise BenchError(f"mcphub status ended with {done.returncode}: {done.stderr.decode(errors='replace')[-300:]}")
    rows = json.loads(done.stdout)["servers"]
    return {row["name"]: row["uptime"] for row in rows if row["state"] == "connected"}


def allowed(client: StreamClient) -> bool:
    """Whether the server that is edited has its tool just now."""
    reply = client.request_line("tools/call", {"name": "mcp__s0__echo", "arguments": {"text": "x"}})
    return b'"error"' not in reply and b'"isError":true' not in reply.replace(b" ", b"")


def change(hub: Running, program: Path, entries: Mapping[str, Any], result: Configuration, rounds: int) -> None:
    """One entry of many is written anew, turn by turn without and with one of its tools."""
    daemon, _ = hub.daemon_tree()
    path = Path(hub.target.environment["XDG_CONFIG_HOME"]) / "mcphub" / "mcp.json"
    assert isinstance(hub.client, StreamClient)
    for turn in range(2 * rounds):
        has = turn % 2 == 1
        edited = {**entries, "s0": {**entries["s0"], **({} if has else {"disabledTools": ["echo"]})}}
        draft = path.with_name("draft")
        draft.write_text(json.dumps({"mcpServers": edited}, indent=2))
        before = accounting.cpu_ns((daemon,))
        begun = time.perf_counter()
        draft.replace(path)
        while allowed(hub.client) != has:
            if time.perf_counter() - begun > CHANGE_SECONDS:
                raise BenchError(f"the edit had no effect within {CHANGE_SECONDS:.0f} s")
            time.sleep(0.005)
        effective = time.perf_counter()
        cpu = accounting.cpu_ns((daemon,)) - before
        while len(connected := uptimes(program, hub.target.environment)) < len(entries):
            if time.perf_counter() - begun > CHANGE_SECONDS:
                raise BenchError(f"{len(connected)} of {len(entries)} servers are connected after the edit")
        since = time.perf_counter() - begun
        result.restarted.append(float(sum(one <= since for one in connected.values())))
        if has:
            result.change_ms.append((effective - begun) * 1e3)
            result.change_cpu_ms.append(cpu / 1e6)


def settle(hub: Running) -> None:
    """Wait until the daemon has nothing left to do of its own, such as remembering what each server's tools are."""
    daemon, _ = hub.daemon_tree()
    end = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < end:
        before = accounting.cpu_ns((daemon,))
        time.sleep(0.5)
        if accounting.cpu_ns((daemon,)) - before < 5e6:
            return


def agents(hub: Running, folder: Path, result: Configuration, rounds: int) -> None:
    """Agents that attach, shake hands and leave: each with a repository of its own as its workspace, or with none."""
    daemon, _ = hub.daemon_tree()
    assert hub.target.ready is not None
    for turn in range(-1, rounds):
        for kind in ("workspace", "plain") if turn % 2 else ("plain", "workspace"):
            places = [folder / f"{kind}-{turn}-{number}" for number in range(AGENTS)]
            for place in places:
                (place / ".git").mkdir(parents=True)
            before = accounting.cpu_ns((daemon,))
            for place in places:
                client = connect_unix(hub.target.ready)
                try:
                    params = {"client": "bench", "workspace": str(place) if kind == "workspace" else ""}
                    attach = {"jsonrpc": "2.0", "method": "dev.mcphub/attach", "params": params}
                    client.start(json.dumps(attach).encode())
                    client.flush()
                    client.handshake()
                    client.request_line("ping")
                finally:
                    client.close()
            if turn >= 0:
                cost = (accounting.cpu_ns((daemon,)) - before) / 1e3 / AGENTS
                (result.workspace_us if kind == "workspace" else result.plain_us).append(cost)


def run(folder: Path, program: Path, *, servers: int, rounds: int) -> Configuration:
    """All of it, SERVERS in each; what fails is in `error`, with what came before it."""
    result = Configuration()
    try:
        pure(result, servers, 2 * rounds + 1)
        say("  resolve and decide done")
        with Running(targets.echo_http(folder)) as echo:
            entries = {
                f"s{number}": {"type": "http", "url": f"{echo.target.url}?s={number}"}
                for number in range(servers)
            }
            target = targets.mcphub(folder / "c", program, servers=0, entries=entries)
            with Running(replace(target, client=()), want=1) as hub:
                end = time.monotonic() + CONNECT_SECONDS
                while len(uptimes(program, target.environment)) < servers:
                    if time.monotonic() > end:
                        raise BenchError(f"not all of {servers} servers are connected after {CONNECT_SECONDS:.0f} s")
                    time.sleep(0.2)
                settle(hub)
                agents(hub, folder, result, 2 * rounds)
                say("  agents' starts done")
                change(hub, program, entries, result, rounds)
                say("  changes done")
    except (BenchError, OSError) as error:
        result.error = str(error)[:300]
        say(f"  {result.error}")
    return result


def figures(result: Configuration) -> dict[str, Figure]:
    """Goals 22 to 24."""
    missing = Figure(because=result.error or "-")
    both = tuple(one + other for one, other in zip(result.resolve_ms, result.decide_ms, strict=True))
    pairs = tuple(with_it - without for with_it, without in zip(result.workspace_us, result.plain_us, strict=False))
    return {
        "22": Figure(both) if both else missing,
        "23": Figure(tuple(result.restarted)) if result.restarted else missing,
        "23 s": Figure(tuple(result.change_ms)) if result.change_ms else missing,
        "24": Figure(pairs) if pairs else missing,
    }


def tables(result: Configuration, servers: int) -> list[str]:
    """One Markdown table of medians."""
    rows = {
        f"parse {servers} entries in {len(SCOPES)} files (CPU ms)": result.parse_ms,
        f"`resolve` of them, {len(SCOPES)} layers (CPU ms)": result.resolve_ms,
        f"`decide` for each, by {6 * RULES} rules that are read first (CPU ms)": result.decide_ms,
        f"one entry of {servers} in one file is written: until a call has the new instance (ms)": result.change_ms,
        "the daemon's CPU for it, with the calls that ask (ms)": result.change_cpu_ms,
        "an agent attaches and leaves, no workspace (CPU us)": result.plain_us,
        "the same, a workspace that brings nothing (CPU us)": result.workspace_us,
    }
    lines = ["Configuration, medians:\n", "| what | median | min |", "| --- | ---: | ---: |"]
    for name, values in rows.items():
        cells = f"{statistics.median(values):,.1f} | {min(values):,.1f}" if values else " | "
        lines.append(f"| {name} | {cells} |")
    return ["\n".join(lines)] + ([result.error] if result.error else [])

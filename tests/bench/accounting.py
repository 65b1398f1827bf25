"""Owns what a tree of processes has cost: time on CPU, resident and proportional memory, read from /proc (Linux).

It must not know what the processes are, but for one thing: an echo server under a gateway is not the gateway's cost.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

ECHO_SERVER = b"echo_server.py"


@dataclass(frozen=True, slots=True)
class Process:
    """A pid together with its start (clock ticks after boot), so that a pid that was given away is not mistaken."""

    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class Tree:
    """The processes under some roots, the echo servers apart from all others."""

    gateway: tuple[Process, ...]
    servers: tuple[Process, ...]


def _stat(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat behind the command name: state, parent, ..., start time at 19. None when gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return text[text.rindex(b")") + 2 :].split()


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def tree(roots: list[int]) -> Tree:
    """ROOTS and every descendant they have now."""
    children: dict[int, list[int]] = {}
    started: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))) is not None:
            children.setdefault(int(fields[1]), []).append(int(entry))
            started[int(entry)] = int(fields[19])
    gateway: list[Process] = []
    servers: list[Process] = []
    todo = list(roots)
    while todo:
        pid = todo.pop()
        todo += children.get(pid, [])
        if pid in started:
            argv = _read(pid, "cmdline").split(b"\0")
            is_server = any(word.endswith(ECHO_SERVER) for word in argv[1:5]) and b"python" in argv[0]
            (servers if is_server else gateway).append(Process(pid, started[pid]))
    return Tree(tuple(gateway), tuple(servers))


def cpu_ns(processes: tuple[Process, ...]) -> int:
    """Time on CPU by schedstat, in ns, of the threads that still run; exact where utime has ticks of 10 ms."""
    total = 0
    for process in processes:
        try:
            for thread in os.listdir(f"/proc/{process.pid}/task"):
                total += int(_read(process.pid, f"task/{thread}/schedstat").split()[0])
        except (OSError, IndexError):
            continue
    return total


def _kib(processes: tuple[Process, ...], name: str, field: bytes) -> int:
    total = 0
    for process in processes:
        for line in _read(process.pid, name).split(b"\n"):
            if line.startswith(field):
                total += int(line.split()[1])
    return total


def rss_mib(processes: tuple[Process, ...]) -> float:
    """Resident memory now."""
    return _kib(processes, "status", b"VmRSS:") / 1024


def peak_rss_mib(processes: tuple[Process, ...]) -> float:
    """The sum of each process's own highest resident memory."""
    return _kib(processes, "status", b"VmHWM:") / 1024


def pss_mib(processes: tuple[Process, ...]) -> float:
    """Memory with every shared page divided among those who share it."""
    return _kib(processes, "smaps_rollup", b"Pss:") / 1024


def marked(variable: str, value: str) -> tuple[Process, ...]:
    """The processes that were started with VARIABLE=VALUE in their environment, wherever they hang now."""
    mark = f"{variable}={value}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid() and mark in _read(int(entry), "environ").split(b"\0"):
            fields = _stat(int(entry))
            if fields is not None and fields[0] != b"Z":
                found.append(Process(int(entry), int(fields[19])))
    return tuple(found)


def kill(processes: tuple[Process, ...]) -> None:
    """SIGKILL to those that are still the process they were."""
    for process in processes:
        fields = _stat(process.pid)
        if fields is not None and int(fields[19]) == process.started:
            try:
                os.kill(process.pid, signal.SIGKILL)
            except OSError:
                pass

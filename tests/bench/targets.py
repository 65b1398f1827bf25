"""Owns how each target of a run is started: programs, environment, and where a client attaches.

It must not start anything itself.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: The interpreter that this one was made from: a virtual environment's `site` or a version manager's shim would be
#: measured otherwise. The same one starts every echo server and the floor's bridge.
BASE_PYTHON = str(getattr(sys, "_base_executable", sys.executable))
#: Where Linux and `mcphub` put the sockets, below $XDG_RUNTIME_DIR.
AGENT_SOCKET = Path("mcphub/agent/agent.sock")
#: On Linux the address of a Unix socket holds 107 bytes.
LONGEST_SOCKET = 107


@dataclass(frozen=True, slots=True)
class Target:
    """What to start and where to attach. `daemon` (if any) is started first, and ready once `ready` exists.

    A client speaks over the standard streams of `client`, or, where that is empty, over the socket `ready`.
    """

    name: str
    client: tuple[str, ...] = ()
    daemon: tuple[str, ...] = ()
    ready: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None


def base_environment(home: Path) -> dict[str, str]:
    """What a target gets: nothing of the caller's but PATH and the language, and all places below HOME.

    HOME is the target's alone: its XDG_RUNTIME_DIR is also the mark by which its processes are found at the end.
    """
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    return kept | {
        "HOME": str(home),
        "XDG_CONFIG_HOME": f"{home}/c",
        "XDG_STATE_HOME": f"{home}/s",
        "XDG_CACHE_HOME": f"{home}/k",
        "XDG_DATA_HOME": f"{home}/d",
        "XDG_RUNTIME_DIR": f"{home}/r",
    }


def echo_argv(tools: int = 5, name: str = "echo") -> tuple[str, ...]:
    """The command of one echo server."""
    return (BASE_PYTHON, "-I", "-S", str(HERE / "echo_server.py"), "--tools", str(tools), "--name", name)


def bridge_argv(socket: Path) -> tuple[str, ...]:
    """The command of the leanest copying bridge to SOCKET."""
    return (BASE_PYTHON, "-I", "-S", str(HERE / "bridge_poll.py"), str(socket))


def direct(folder: Path, tools: int = 5) -> Target:
    """The echo server itself on two pipes: what every ratio is of."""
    return Target("direct", client=echo_argv(tools), environment=base_environment(folder / "direct"))


def relay(folder: Path) -> Target:
    """One hop: the buffered relay on its socket."""
    socket = folder / "relay.sock"
    argv = (sys.executable, str(HERE / "relays.py"), str(socket), "--", *echo_argv())
    return Target("relay:buf-asyncio", daemon=argv, ready=socket, environment=base_environment(folder / "relay"))


def bridged_relay(folder: Path) -> Target:
    """Two hops, as `mcphub connect` has: the floor of this shape."""
    socket = folder / "bridged.sock"
    argv = (sys.executable, str(HERE / "relays.py"), str(socket), "--", *echo_argv())
    return Target(
        "bridge:poll:buf-asyncio",
        client=bridge_argv(socket),
        daemon=argv,
        ready=socket,
        environment=base_environment(folder / "bridged"),
    )


def mcphub(
    folder: Path, program: Path, *, servers: int = 1, tools: int = 5, at_once: int | None = None, name: str = "mcphub"
) -> Target:
    """`mcphub serve` with SERVERS echo servers `s0`, `s1`, ... of TOOLS tools, agents through `mcphub connect`.

    Writes the configuration into FOLDER, which must be this target's alone. AT_ONCE sets how many servers may start
    at the same time (None leaves the default).
    """
    environment = base_environment(folder)
    if at_once is not None:
        environment["MCP_SERVER_CONNECTION_BATCH_SIZE"] = str(at_once)
    runtime = Path(environment["XDG_RUNTIME_DIR"])
    config = Path(environment["XDG_CONFIG_HOME"]) / "mcphub"
    ready = runtime / AGENT_SOCKET
    if len(os.fsencode(ready)) > LONGEST_SOCKET:
        raise ValueError(f"cannot place the agent socket: {ready} has more than {LONGEST_SOCKET} bytes; set TMPDIR")
    runtime.mkdir(mode=0o700, parents=True)
    config.mkdir(parents=True)
    commands = {f"s{number}": echo_argv(tools, f"s{number}") for number in range(servers)}
    entries = {key: {"command": argv[0], "args": argv[1:]} for key, argv in commands.items()}
    (config / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    return Target(
        name,
        client=(str(program), "connect"),
        daemon=(str(program), "serve"),
        ready=ready,
        environment=environment,
    )


def tooner(folder: Path, program: Path) -> Target:
    """A compiled (Go) stdio-to-stdio proxy of one server; it writes its files where it is started."""
    argv = (str(program), *echo_argv())
    return Target("tooner", client=argv, environment=base_environment(folder / "tooner"), folder=folder)

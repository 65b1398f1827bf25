"""Owns how each target of a run is started: programs, environment, and where a client attaches.

It must not start anything itself.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: The interpreter that this one was made from: a virtual environment's `site` or a version manager's shim would be
#: measured otherwise. The same one starts every echo server and the floor's bridge.
BASE_PYTHON = str(getattr(sys, "_base_executable", sys.executable))
#: Where Linux and `mcphub` put the sockets, below $XDG_RUNTIME_DIR.
AGENT_SOCKET = Path("mcphub/agent/agent.sock")
#: On Linux the address of a Unix socket holds 107 bytes.
LONGEST_SOCKET = 107
#: What agents bring to the loopback endpoint of the `mcphub` of a run; 22 characters at least.
TOKEN = "mcphub-bench-" + "t" * 22


@dataclass(frozen=True, slots=True)
class Target:
    """What to start and where to attach. `daemon` (if any) is started first, and ready once `ready` exists.

    A client of the era `era` speaks HTTP to `url` where that is set (with `token`; `sse`: as of 2024-11-05), else over
    the standard streams of `client`, or, where that is empty too, over the socket `ready`.
    """

    name: str
    client: tuple[str, ...] = ()
    daemon: tuple[str, ...] = ()
    ready: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    url: str = ""
    token: str = ""
    sse: bool = False
    era: str = "legacy"


def free_port() -> int:
    """A port of the loopback that nobody had a moment ago."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


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
    folder: Path,
    program: Path,
    *,
    servers: int = 1,
    tools: int = 5,
    at_once: int | None = None,
    name: str = "mcphub",
    port: int = 0,
    entries: Mapping[str, Mapping[str, object]] | None = None,
    settings: str = "",
) -> Target:
    """`mcphub serve` with SERVERS echo servers `s0`, `s1`, ... of TOOLS tools, agents through `mcphub connect`.

    Writes the configuration into FOLDER, which must be this target's alone. AT_ONCE sets how many servers may start
    at the same time (None leaves the default). With PORT agents are served over HTTP too, on the loopback. ENTRIES are
    further servers, as the configuration has them, SETTINGS more of `settings.toml`.
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
    mine: dict[str, object] = {key: {"command": argv[0], "args": argv[1:]} for key, argv in commands.items()}
    (config / "mcp.json").write_text(json.dumps({"mcpServers": mine | dict(entries or {})}))
    if port:
        settings += f'[http]\nlisten = "127.0.0.1:{port}"\n'
    if settings:
        (config / "settings.toml").write_text(settings)
    if port:
        state = Path(environment["XDG_STATE_HOME"]) / "mcphub"
        state.mkdir(parents=True)
        (state / "http-token").touch(mode=0o600)
        (state / "http-token").write_text(TOKEN)
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


# --- over HTTP -------------------------------------------------------------------------------------------------------


def endpoint(port: int) -> str:
    """The URL that every target has its endpoint at."""
    return f"http://127.0.0.1:{port}/mcp"


def mcphub_http(folder: Path, program: Path, era: str) -> Target:
    """`mcphub serve` with one echo server, agents over its HTTP endpoint on the loopback."""
    name, port = "mcphub" if era == "legacy" else f"mcphub, {era}", free_port()
    return replace(mcphub(folder, program, name=name, port=port), url=endpoint(port), token=TOKEN, era=era)


def asgi_relay(folder: Path, era: str) -> Target:
    """The floor under an HTTP endpoint: one hop, a bare ASGI application in front of one stdio server."""
    name, port = "asgi:relay" if era == "legacy" else f"asgi:relay, {era}", free_port()
    argv = (sys.executable, str(HERE / "asgi_relay.py"), str(port), "--", *echo_argv())
    return Target(name, daemon=argv, url=endpoint(port), era=era, environment=base_environment(folder / f"asgi-{era}"))


def echo_http_argv(port: int, *, sse: bool = False) -> tuple[str, ...]:
    """The command of an echo server that is an HTTP endpoint itself."""
    return (BASE_PYTHON, "-I", "-S", str(HERE / "echo_http.py"), str(port), *(("--sse",) if sse else ()))


def echo_http(folder: Path, *, sse: bool = False) -> Target:
    """The echo server as an HTTP endpoint."""
    name, port = "echo over SSE" if sse else "echo over HTTP", free_port()
    environment = base_environment(folder / ("sse" if sse else "json"))
    return Target(name, daemon=echo_http_argv(port, sse=sse), url=endpoint(port), environment=environment)


def mcp_proxy(folder: Path, program: Path) -> Target:
    """mcp-proxy of PyPI: one stdio server behind Streamable HTTP."""
    port = free_port()
    argv = (str(program), "--port", str(port), "--log-level", "ERROR", "--", *echo_argv())
    return Target("mcp-proxy (PyPI)", daemon=argv, url=endpoint(port), environment=base_environment(folder / "proxy"))


def mcp_proxy_npm(folder: Path, modules: Path) -> Target:
    """mcp-proxy of npm, in MODULES: one stdio server behind Streamable HTTP."""
    port = free_port()
    script = str(modules / "mcp-proxy/dist/bin/mcp-proxy.mjs")
    options = ("--host", "127.0.0.1", "--port", str(port), "--server", "stream", "--no-eventStore")
    argv = ("node", script, *options, "--", *echo_argv())
    return Target("mcp-proxy (npm)", daemon=argv, url=endpoint(port), environment=base_environment(folder / "ts"))


def supergateway(folder: Path, modules: Path) -> Target:
    """supergateway of npm, in MODULES: one stdio server behind Streamable HTTP, a process for each session."""
    port = free_port()
    options = ("--outputTransport", "streamableHttp", "--stateful", "--port", str(port), "--logLevel", "none")
    argv = ("node", str(modules / "supergateway/dist/index.js"), "--stdio", shlex.join(echo_argv()), *options)
    return Target("supergateway", daemon=argv, url=endpoint(port), environment=base_environment(folder / "super"))


def mcp_hub(folder: Path, modules: Path) -> Target:
    """mcp-hub of npm, in MODULES: many servers behind HTTP with SSE of 2024-11-05, which is all it speaks."""
    port, home = free_port(), folder / "mcp-hub"
    home.mkdir(parents=True)
    config, server = home / "servers.json", echo_argv()
    config.write_text(json.dumps({"mcpServers": {"s0": {"command": server[0], "args": server[1:]}}}))
    argv = ("node", str(modules / "mcp-hub/dist/cli.js"), "--port", str(port), "--config", str(config))
    return Target("mcp-hub", daemon=argv, url=endpoint(port), sse=True, environment=base_environment(home))

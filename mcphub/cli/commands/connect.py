"""Owns what the documentation says of `mcphub connect`, and `--print-url`, which attaches nobody.

It must not be on the way of a real one: cli/main.py goes straight to the bridge, which reads its own arguments.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Attach the program that started this one to mcphub: MCP on stdin and stdout, both protocol eras. Starts the daemon if
none runs. Nothing but MCP is written to stdout."""

#: Seconds that a daemon which is just starting may take until it answers people.
PATIENCE = 10.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--client", metavar="NAME", help="a label for `mcphub status`")
    parser.add_argument(
        "--workspace",
        metavar="DIR",
        help="the project whose servers the agent sees too (default: the current directory)",
    )
    parser.add_argument("--no-start", action="store_true", help="fail if no daemon runs")
    parser.add_argument(
        "--print-url",
        action="store_true",
        help="for hosts that take a URL: print where agents are served over HTTP, and end; the URL holds a secret. "
        "Without --workspace, the servers of no project",
    )
    parser.add_argument("--server", metavar="NAME", help="with --print-url: only this server, under its own tool names")


def run(args: argparse.Namespace) -> int:
    from mcphub.sessions import bridge

    if args.print_url:
        return _print_url(args)
    names = ("client", "workspace", "server")
    named = [f"--{name}={value}" for name in names if (value := getattr(args, name)) is not None]
    return bridge.main(named + (["--no-start"] if args.no_start else []))


def _print_url(args: argparse.Namespace) -> int:
    """Print the URL that the daemon gives: of the loopback, else of the Unix socket."""
    import os
    import sys
    import time

    from mcphub.cli.output import complain
    from mcphub.client import ControlClient
    from mcphub.config.runtime_dir import agent_socket
    from mcphub.errors import ControlError
    from mcphub.sessions.bridge import reach

    sock = reach(agent_socket(), not args.no_start)
    if sock is None:
        return 1
    sock.close()
    client = ControlClient(workspace=os.path.abspath(args.workspace) if args.workspace else "")
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            report = client.url(args.server or "")
            break
        except ControlError as error:
            if error.status or time.monotonic() > deadline:
                raise
            time.sleep(0.05)  # it takes agents already, and people in a moment
    if report["url"] is None:
        complain(
            "nothing is served over TCP; this URL is for hosts that take a Unix socket. For the others put "
            'listen = "127.0.0.1:7712" under [http] into settings.toml, and start the daemon again'
        )
    sys.stdout.write((report["url"] or f"unix://{report['socket']}#{report['path']}") + "\n")
    return 0

"""Owns what the documentation says of `mcphub connect`.

It must not be on the way of a real one: cli/main.py goes straight to the bridge, which reads its own arguments.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Attach the program that started this one to mcphub: MCP on stdin and stdout, both protocol eras. Starts the daemon if
none runs. Nothing but MCP is written to stdout."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--client", metavar="NAME", help="a label for `mcphub status`")
    parser.add_argument(
        "--workspace",
        metavar="DIR",
        help="the project whose servers the agent sees too (default: the current directory)",
    )
    parser.add_argument("--no-start", action="store_true", help="fail if no daemon runs")


def run(args: argparse.Namespace) -> int:
    from mcphub.sessions import bridge

    named = [f"--{name}={value}" for name in ("client", "workspace") if (value := getattr(args, name)) is not None]
    return bridge.main(named + (["--no-start"] if args.no_start else []))

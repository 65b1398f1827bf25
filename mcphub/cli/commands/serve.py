"""Owns the verb serve: hand over to the daemon.

It must not know what the daemon does; it is the one verb that leads to it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = "Run the daemon in the foreground until it is told to stop: `mcphub stop`, SIGTERM or Ctrl-C."


def arguments(parser: argparse.ArgumentParser) -> None:
    import argparse

    parser.add_argument(
        "--log-level", choices=["debug", "info", "warning", "error"], default="info", help="least level that is logged"
    )
    parser.add_argument(
        "--log-format",
        choices=["auto", "text", "json"],
        default="auto",
        help="form of the log on stderr; auto: text on a terminal, JSON elsewhere",
    )
    parser.add_argument(
        "--embed",
        action="append",
        default=[],
        type=_embedded,
        metavar="[NAME=]MODULE[:OBJECT]",
        help="a server that lives in the daemon: a Python callable, or a server object of the official SDK; may be "
        "given more than once",
    )
    # For `mcphub connect` and tests: one byte is written to this descriptor when the sockets answer.
    parser.add_argument("--ready-fd", type=int, default=None, metavar="N", help=argparse.SUPPRESS)


def _embedded(text: str) -> str:
    """The type of --embed: read by whoever imports it, and checked here in time."""
    from argparse import ArgumentTypeError

    from mcphub.config.embedded_place import place_of
    from mcphub.errors import ConfigError

    try:
        place_of(text)
    except ConfigError as error:
        raise ArgumentTypeError(str(error)) from None
    return text


def run(args: argparse.Namespace) -> int:
    import gc

    gc.disable()  # until it serves: nothing that start-up makes is garbage
    from mcphub import ahead

    return ahead.main(args)

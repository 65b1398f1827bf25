"""Owns the verb add-json: put a server into a file as a whole entry.

It must not know what an entry means; the verb add does the rest.
"""

from __future__ import annotations

import sys

from mcphub.cli.commands.add import add, scope_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = "Add a server by its entry, as it would stand below its name in mcp.json; otherwise as `mcphub add`."


def arguments(parser: argparse.ArgumentParser) -> None:
    scope_arguments(parser)
    parser.add_argument("name", metavar="NAME", help="what to call it")
    parser.add_argument("entry", metavar="JSON", help="the entry; - reads it from stdin, where nobody else sees it")


def run(args: argparse.Namespace) -> int:
    from mcphub.cli.usage import UsageError
    from mcphub.config import jsonc
    from mcphub.config.names import shown_name
    from mcphub.config.readfile import MAX_BYTES

    shown = shown_name(args.name)
    if args.entry == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise UsageError(f"cannot add server {shown}: the entry is larger than {MAX_BYTES >> 20} MiB")
    else:
        data = args.entry.encode("utf-8", "surrogateescape")
    try:
        entry = jsonc.parse(data).value
    except jsonc.JsoncError as error:
        place = f"line {error.line}, column {error.column}: " if error.line else ""
        raise UsageError(f"cannot add server {shown}: the entry: {place}{error.message}") from None
    if not isinstance(entry, dict):
        raise UsageError(f"cannot add server {shown}: expected an object, found {jsonc.kind_of(entry)}")
    return add(args, entry, {})

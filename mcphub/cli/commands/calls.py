"""Owns the verb calls: the outcome journal, from the daemon where one runs, else from its file.

It must not know how a call is recorded.
"""

from __future__ import annotations

from mcphub.cli import output
from mcphub.cli.usage import UsageError, server_name
from mcphub.client import ControlClient
from mcphub.errors import ConfigError, ControlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from mcphub.status import CallsReport, RecordedCall

DESCRIPTION = """\
What became of the calls that may have changed something, newest first: of each the server, the tool, the agent and a
keyed digest of its arguments, never a value. `unknown` means that no answer came (the connection was lost, the call was
cancelled, the daemon was killed): it may have had effects or not, and is never sent again. With an OPERATION, which an
agent finds in its error, all that is known of that call. Calls of tools that are known to read only are not recorded.
Works without a daemon too."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("operation", nargs="?", default="", metavar="OPERATION", help="only this call, with details")
    parser.add_argument("--unknown", action="store_true", help="only those whose outcome is not known")
    parser.add_argument("--server", type=server_name, metavar="NAME", help="only those of this server")
    parser.add_argument("--agent", default="", metavar="NAME", help="only those of agents with this in their name")
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="at most so many (default 50)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    if args.limit < 1:
        raise UsageError("cannot list calls: --limit must be 1 or more")
    report = _report(args)
    if args.json:
        print(output.json_text(report))
        return 0
    for problem in report["problems"]:
        output.complain(problem)
    if args.operation:
        print(details(report["calls"][0]), end="")
        return 0
    if not report["calls"]:
        output.complain("no call of an unknown outcome is recorded" if args.unknown else "no such call is recorded")
        return 0
    rows = [
        (one["operation"], one["began"], one["server"], one["tool"], one["agent"], one["text"])
        for one in report["calls"]
    ]
    print(output.table(("OPERATION", "SENT", "SERVER", "TOOL", "AGENT", "OUTCOME"), rows), end="")
    if report["more"]:
        output.complain(f"there are more: --limit {args.limit * 10} shows older ones")
    return 0


def _report(args: argparse.Namespace) -> CallsReport:
    try:
        client = ControlClient()
        return client.calls(args.operation, args.unknown, args.server or "", args.agent, args.limit)
    except ControlError as error:
        if error.status:
            raise
    from mcphub.config.places import places
    from mcphub.questions.calls import CallsAsked, calls_report, no_such_call
    from mcphub.store.call_journal import read_file

    asked = CallsAsked(args.operation, args.unknown, args.server or "", args.agent, args.limit)
    report = calls_report(read_file(places().calls), asked, live=False)
    if args.operation and not report["calls"]:
        raise ConfigError(no_such_call(args.operation))
    return report


def details(call: RecordedCall) -> str:
    """All that is known of one call, a line each."""
    lines = [
        ("operation", call["operation"]),
        ("outcome", call["text"]),
        ("server", call["server"]),
        ("tool", call["tool"]),
        ("agent", call["agent"] or "(no name)"),
        ("workspace", call["workspace"]),
        ("sent", call["began"]),
        ("ended", call["ended"] or ""),
        ("attempts", str(call["attempts"])),
        ("arguments", f"{call['arguments_bytes']} bytes, digest {call['arguments_digest']}"),
        ("trace", call["trace"]),
        ("eras", f"agent {call['agent_era']}, server {call['server_era']}"),
        ("to do", call["check"]),
    ]
    return "".join(f"{name:<10} {output.line(text)}\n" for name, text in lines if text)

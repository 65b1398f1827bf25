"""Owns the verb why: one server from its file to its connection, and what would change the answer.

It must not find anything out by itself while a daemon answers; without one, files alone are asked.
"""

from __future__ import annotations

import os

from mcphub.cli import output
from mcphub.cli.usage import server_name
from mcphub.client import ControlClient, current_workspace
from mcphub.errors import ControlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from mcphub.status import OriginStatus, WhyInstance, WhyReport

DESCRIPTION = """\
Say why a server runs or does not: which file and key it comes from and what it wins over, what policy says and by which
rule of which file, approval, switch, duplicates, the connection, and what would change the answer. Also for a name that
nobody has. Without a daemon: as far as files alone tell."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", type=server_name, metavar="NAME", help="the server")
    parser.add_argument("--workspace", metavar="DIR", help="ask for agents of this directory, not of this one")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    workspace = current_workspace(args.workspace)
    try:
        report = ControlClient(workspace=workspace).why(args.name)
    except ControlError as error:
        if error.status:
            raise
        from mcphub.cli.from_files import Files

        report = Files(workspace).why(args.name)
    if args.json:
        print(output.json_text(report))
    else:
        print(text(report, os.environ.get("HOME", "")), end="")
    return 0 if report["configured"] else 1


def text(report: WhyReport, home: str) -> str:
    """The report for a person, the answer first."""
    lines = [report["answer"]]
    if not report["live"]:
        lines.append("(no daemon answers: this is what the files say)")
    lines.append("")
    if report["configured"]:
        lines.append(f"  {'state':<12}{report['state']}")
    lines += [f"  {step['step']:<12}{_MARKS[step['verdict']]:<5}{step['text']}" for step in report["steps"]]
    others = [claim for claim in report["claims"] if claim["standing"] != "effective"]
    if others:
        lines += ["", "named by:"]
        for claim in report["claims"]:
            more = f": {claim['text']}" if claim["text"] else ""
            lines.append(f"  {claim['standing']:<12}{place(claim['origin'], home)}{more}")
    if report.get("instances"):
        lines += ["", "instances:", *map(_instance, report["instances"])]
    if report["suppresses"]:
        lines += ["", "runs in place of:", *(f"  {place(origin, home)}" for origin in report["suppresses"])]
    if report["next"]:
        lines += ["", "what would change it:", *(f"  - {step}" for step in report["next"])]
    return "".join(output.line(line) + "\n" for line in lines)


def _instance(one: WhyInstance) -> str:
    whose = "of agents that brought values of their own" if one["brings"] else "of all others"
    users = ", ".join(one["agents"]) or "nobody"
    reason = f": {one['reason']}" if one["reason"] else ""
    return f"  {one['state']:<12}{whose}, used by {users}{reason}"


_MARKS = {"yes": "ok", "no": "NO", "unknown": "?", "unasked": "-"}


def place(origin: OriginStatus, home: str) -> str:
    """Scope, file, line and key."""
    path = origin["path"]
    if home and path.startswith(home.rstrip("/") + "/"):
        path = "~" + path[len(home.rstrip("/")) :]
    where = f"{path}:{origin['line']}" if origin["line"] else path
    return f"{origin['scope']} {where} {origin['key']}".rstrip()

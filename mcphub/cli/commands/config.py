"""Owns the verb config: every layer and entry as an inventory, and what is wrong with files.

It must not change a file; add, remove, enable and disable do.
"""

from __future__ import annotations

import os

from mcphub.cli import output
from mcphub.cli.subverb import words_first
from mcphub.cli.usage import UsageError, add_actions
from mcphub.client import ControlClient, current_workspace
from mcphub.errors import ControlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from mcphub.status import FindingsReport, InventoryEntry, InventoryReport

DESCRIPTION = """\
show: every file that says something, highest first, with all of its entries, whether they count or not; secrets are
masked. With --json it is the inventory that `mcphub policy test --inventory` takes.
validate [FILE]: every problem and warning of a file of any kind, told by its name, or of all that are in force."""

ACTIONS = {
    "show": "every file that counts, highest first, with all of its entries",
    "validate": "every problem and warning of FILE, or of all files in force",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    add_actions(parser, ACTIONS)
    parser.add_argument("words", nargs="*", metavar="FILE", help="with validate: the files; none for all in force")
    parser.add_argument("--workspace", metavar="DIR", help="ask for agents of this directory, not of this one")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(reorder=lambda words: words_first(words, ("--workspace",)))


def run(args: argparse.Namespace) -> int:
    workspace = current_workspace(args.workspace)
    if args.action == "validate":
        return _validate(workspace, args.words, args.json)
    if args.words:
        raise UsageError("cannot run config show: it takes no file")
    try:
        report = ControlClient(workspace=workspace).inventory()
    except ControlError as error:
        if error.status:
            raise
        from mcphub.cli.from_files import Files

        report = Files(workspace).inventory()
    if args.json:
        print(output.json_text(report))
    else:
        print(shown(report, os.environ.get("HOME", "")), end="")
    return 0


def shown(report: InventoryReport, home: str) -> str:
    """The layers, each with its entries."""
    import shlex

    from mcphub.questions.grouping import grouped

    text = "" if report["live"] else "(no daemon answers: this is what the files say)\n"
    for layer in report["layers"]:
        path = layer["path"]
        if home and path.startswith(home.rstrip("/") + "/"):
            path = "~" + path[len(home.rstrip("/")) :]
        policy = "  (rules of policy)" if layer["policy"] else ""
        text += output.line(f"{layer['rank']}  {layer['scope']}  {path}{policy}") + "\n"
        rows = []
        for entry in layer["entries"]:
            what = shlex.join(entry["command"]) or entry["url"] or entry["kind"] or entry["detail"]
            state = state_text(entry) if entry["standing"] == "effective" else entry["standing"]
            rows.append((entry["name"], state, str(entry["line"] or ""), output.shortened(output.line(what), 80)))
        if rows:
            lines = output.table(("NAME", "STATE", "LINE", "WHAT"), rows).splitlines()
            text += "".join(f"   {line}\n" for line in lines)
        text += "".join(f"   problem: {output.line(one)}\n" for one in grouped(layer["problems"]))
    said = {problem for layer in report["layers"] for problem in layer["problems"]}
    rest = grouped(one for one in report["problems"] if one not in said)
    text += "".join(f"problem: {output.line(one)}\n" for one in rest)
    return text + "".join(f"warning: {output.line(one)}\n" for one in grouped(report["warnings"]))


def state_text(entry: InventoryEntry) -> str:
    """What became of an entry that counts: by the daemon, or as far as files tell."""
    if live := entry.get("live_state"):
        return live
    state = entry["state"]
    if state in ("policy", "enterprise"):
        return f"blocked ({state})"
    return state if state in ("would run", "broken", "blank") else f"disabled ({state})"


def _validate(workspace: str, words: list[str], as_json: bool) -> int:
    from mcphub.cli.commands.policy import show_findings
    from mcphub.cli.files import findings_of

    reports: list[FindingsReport] = [findings_of(path, workspace) for path in words]
    if not words:
        from mcphub.cli.from_files import Files

        files = Files(workspace)
        reports = [{"path": "", "kind": "all", "problems": files.problems(), "warnings": files.warnings()}]
    return show_findings(reports, as_json)

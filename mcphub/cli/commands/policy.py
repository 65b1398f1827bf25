"""Owns the verb policy: the rules in force, what they say of something, what is wrong with a file, what it would do.

It must not change anything, nor judge: a rehearsal only reports.
"""

from __future__ import annotations

import re

from mcphub.cli import output
from mcphub.cli.subverb import words_first
from mcphub.cli.usage import UsageError, add_actions
from mcphub.client import ControlClient, current_workspace
from mcphub.errors import ControlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from mcphub.status import BlockedServer, FindingsReport, PolicyReport, PolicyVerdict, RehearsalReport

DESCRIPTION = """\
list: every rule that is known, with its file, key and rank, and whether it counts.
explain NAME, explain URL, explain -- COMMAND ARGS...: what policy says of a server, which need not be configured.
validate [FILE]: every problem of a file of rules, or of all that are in force, with file, line and key.
test FILE [--inventory EXPORT]...: which servers of this machine the file would block if it alone governed, or which of
those in exports of `mcphub config show --json`. Only reports, and ends with 0."""

#: What no server is called, and what somebody writes who means an address.
_LIKE_A_URL = re.compile(r"(?i)(?:https?|wss?|ftp|file):|[/\\]{2}|[a-z0-9.-]+\.[a-z]{2,}(?::[0-9]+)?/")

ACTIONS = {
    "list": "every rule that is known, and whether it counts",
    "explain": "what policy says of a server: NAME, URL, or -- COMMAND ARGS...",
    "validate": "every problem of FILE, or of all rules in force",
    "test": "which servers FILE would block if it alone governed",
}
RULES = ("RANK", "SCOPE", "LIST", "RULE", "WHERE", "NOTE")


def arguments(parser: argparse.ArgumentParser) -> None:
    add_actions(parser, ACTIONS)
    parser.add_argument("words", nargs="*", metavar="NAME|URL|FILE", help="what it is about")
    parser.add_argument(
        "--inventory", action="append", metavar="FILE", help="with test: an export, in place of this machine"
    )
    parser.add_argument("--workspace", metavar="DIR", help="ask for agents of this directory, not of this one")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    from argparse import SUPPRESS

    parser.add_argument("--word", action="append", help=SUPPRESS)  # the words of a command, behind --
    parser.set_defaults(reorder=lambda words: words_first(words, ("--inventory", "--workspace"), "--word"))


def run(args: argparse.Namespace) -> int:
    if args.inventory and args.action != "test":
        raise UsageError(f"cannot run policy {args.action}: --inventory is for test")
    if args.word and args.action != "explain":
        raise UsageError(f"cannot run policy {args.action}: a command is for explain")
    workspace = current_workspace(args.workspace)
    match args.action:
        case "list":
            _words(args, 0)
            return _list(workspace, args.json)
        case "explain":
            _words(args, 0 if args.word else 1)
            return _explain(workspace, args.words, tuple(args.word or ()), args.json)
        case "validate":
            return _validate(workspace, args.words, args.json)
        case _:
            _words(args, 1)
            return _test(workspace, args.words[0], args.inventory or [], args.json)


def _words(args: argparse.Namespace, count: int) -> None:
    if len(args.words) != count:
        wanted = "nothing" if count == 0 else "one FILE" if args.action == "test" else "one NAME or URL, or -- COMMAND"
        raise UsageError(f"cannot run policy {args.action}: it takes {wanted}")


def _list(workspace: str, as_json: bool) -> int:
    try:
        report = ControlClient(workspace=workspace).policy()
    except ControlError as error:
        if error.status:
            raise
        from mcphub.cli.from_files import Files

        report = Files(workspace).policy()
    print(output.json_text(report) if as_json else listing(report), end="\n" if as_json else "")
    return 0


def listing(report: PolicyReport) -> str:
    """The rules as a table, and what is wrong above it."""
    from mcphub.questions.grouping import grouped

    text = "" if report["live"] else "(no daemon answers: this is what the files say)\n"
    if report["closed"]:
        text += "policy cannot be known in full, so only the organisation's own servers may run:\n"
        text += "".join(f"problem: {output.line(one)}\n" for one in grouped(report["closed"]))
    text += "".join(f"warning: {output.line(one)}\n" for one in grouped(report["warnings"]))
    rows = []
    for rule in report["rules"]:
        origin = rule["origin"]
        where = f"{origin['path']}:{origin['line']}" if origin["line"] else origin["path"]
        note = rule["note"] if rule["in_force"] else f"does not count: {rule['note']}"
        rows.append((str(rule["rank"]), origin["scope"], rule["list"], rule["rule"], f"{where} {origin['key']}", note))
    if rows:
        text += output.table(RULES, rows)
    elif not report["closed"]:
        text += "no rule of policy is in force: every server may run\n"
    return text


def _explain(workspace: str, words: list[str], command: tuple[str, ...], as_json: bool) -> int:
    if command and not command[0]:
        raise UsageError("cannot run policy explain: the command is empty")
    word = words[0] if words else ""
    url, name = (word, "") if "://" in word else ("", word)
    if not (word or command):
        raise UsageError("cannot run policy explain: the name is empty")
    if name and _LIKE_A_URL.match(name):
        text = f"{name[:200]!a} looks like a URL and is none; write https://HOST/PATH"
        raise UsageError(f"cannot run policy explain: {text}")
    try:
        report = ControlClient(workspace=workspace).policy_verdict(name, url, command)
    except ControlError as error:
        if error.status:
            raise
        from mcphub.cli.from_files import Files

        report = Files(workspace).verdict(name, url, command)
    print(output.json_text(report) if as_json else verdict_text(report), end="\n" if as_json else "")
    return 0


def verdict_text(report: PolicyVerdict) -> str:
    lines = [f"{report['about']}: {report['sentence']}"]
    if not report["live"]:
        lines.append("(no daemon answers: this is what the files say)")
    return "".join(output.line(one) + "\n" for one in lines)


def _validate(workspace: str, words: list[str], as_json: bool) -> int:
    from mcphub.cli.files import findings_of
    from mcphub.questions.findings import MANAGED, PREFERENCES, SETTINGS, file_kind

    reports: list[FindingsReport] = []
    if words:
        for path in words:
            kind = file_kind(path, b"")
            kind = kind if kind in (SETTINGS, PREFERENCES) else MANAGED
            reports.append(findings_of(path, workspace, kind=kind))
    else:
        from mcphub.cli.from_files import Files

        files = Files(workspace)
        policy, problems = files.policy(), files.policy_problems()
        report = {"path": "", "kind": "policy", "problems": problems, "warnings": policy["warnings"]}
        reports.append(report)  # type: ignore[arg-type]
    return show_findings(reports, as_json)


def show_findings(reports: list[FindingsReport], as_json: bool) -> int:
    """Print what was found, of many things that are alike the first; 1 where anything is a problem."""
    from mcphub.questions.grouping import grouped

    if as_json:
        print(output.json_text(reports[0] if len(reports) == 1 else reports))
    else:
        for report in reports:
            for problem in grouped(report["problems"]):
                print(f"problem: {output.line(problem)}")
            for warning in grouped(report["warnings"]):
                print(f"warning: {output.line(warning)}")
            if not (report["problems"] or report["warnings"]):
                print(f"{output.line(report['path']) or 'all files'}: nothing is wrong ({report['kind']})")
    return 1 if any(report["problems"] for report in reports) else 0


def _test(workspace: str, path: str, exports: list[str], as_json: bool) -> int:
    from mcphub.cli.files import layer_of, read_whole
    from mcphub.questions.findings import ENTERPRISE, MANAGED, PREFERENCES, file_kind
    from mcphub.questions.inventory import Known, read_inventory
    from mcphub.questions.rehearsal import rehearse

    data = read_whole(path)
    kind = file_kind(path, data)
    kind = kind if kind in (ENTERPRISE, PREFERENCES) else MANAGED
    inventories: dict[str, list[Known]] = {one: read_inventory(read_whole(one), one) for one in exports}
    if not exports:
        from mcphub.cli.from_files import Files

        inventories["this machine"] = Files(workspace).known()
    report = rehearse(layer_of(path, data, kind), inventories)
    print(output.json_text(report) if as_json else rehearsal_text(report), end="\n" if as_json else "")
    return 0


def rehearsal_text(report: RehearsalReport) -> str:
    """What would be blocked, and by what."""
    from mcphub.questions.grouping import grouped

    lines = [f"problem: {one}" for one in grouped(report["problems"])]
    lines += [f"warning: {one}" for one in grouped(report["warnings"])]
    blocked, unsure = report["blocked"], report["unsure"]
    lines.append(f"{report['policy']} would block {len(blocked)} of {report['judged']} servers")
    lines += [_blocked(one) for one in blocked]
    if unsure:
        lines.append(f"of {len(unsure)} it cannot be told from here:")
        lines += [_blocked(one) for one in unsure]
    return "".join(output.line(one) + "\n" for one in lines)


def _blocked(one: BlockedServer) -> str:
    origin = one["origin"]
    where = f"{one['inventory']}: {origin['scope']} {origin['path']}"
    return f"  {one['name']}  ({where})  {one['shown']}: {one['sentence']}"

"""Owns the verb approve: show a person exactly what would run, and ask on the terminal.

It must not take an answer from anywhere but the controlling terminal; there is no flag that answers, on purpose: an
agent that can run commands must not be able to approve what its own repository asks for.
"""

from __future__ import annotations

import os

from mcphub.cli import output
from mcphub.cli.usage import UsageError, server_name
from mcphub.client import ControlClient, current_workspace
from mcphub.config.names import lookup_fault, shown_name
from mcphub.errors import ControlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from mcphub.status import ApprovalItem, ToolChangesReport

DESCRIPTION = """\
Let servers run that this directory's own files ask for. Shows what each would run, and what has changed since it was
approved, and asks on the terminal. Without a name: list them with their states.
With --tools: show how the tools of a server differ from those that were first used or last approved, and take them."""

#: States that `--all` asks about; a rejected server is only taken up again by its name.
OPEN = ("waiting", "changed")


def arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("name", nargs="?", type=server_name, metavar="NAME", help="the server")
    which.add_argument("--all", action="store_true", help="ask about each one that waits")
    parser.add_argument("--tools", action="store_true", help="about the tools of the server NAME, any server")
    parser.add_argument("--json", action="store_true", help="print the report as JSON; with a name, after asking")


def run(args: argparse.Namespace) -> int:
    if args.tools and args.name is None:
        raise UsageError("cannot approve tools: name the server, as in `mcphub approve --tools NAME`")
    client = ControlClient(workspace=current_workspace())
    if args.tools:
        return _tools(client, args.name, args.json)
    report = client.approvals()
    if args.name is None and not args.all:
        if args.json:
            print(output.json_text(report))
        else:
            _list(report["items"])
        return 0
    if args.all:
        items = [item for item in report["items"] if item["state"] in OPEN]
        for item in report["items"]:
            if item["state"] == "broken":
                output.complain(f"{item['name']} cannot be approved yet: {item.get('problem', '')}")
    else:
        items = [item for item in report["items"] if item["name"] == args.name]
        if not items:
            raise ControlError(f"cannot approve {shown_name(args.name)}: {_nobody(args.name)}", status=404)
        if problem := items[0].get("problem"):
            raise ControlError(f"cannot approve {args.name} before this is mended: {problem}", status=409)
        if items[0]["state"] == "approved":
            output.complain(f"{args.name} is approved already")
            return 0
    if not items:
        output.complain("nothing waits for approval here")
    elif why := report.get("unwritable"):
        raise ControlError(f"cannot approve {_names(items)}: {why}", status=500)
    decided = []
    for item in items:
        if ask(item["name"], question(item)):
            decided.append(client.approve(item["name"], item["digest"]))
            if not args.json:
                print(f"{output.line(item['name'])} is approved")
        else:
            output.complain(f"{item['name']} is not approved")
    if args.json:
        print(output.json_text(decided))
    return 0 if len(decided) == len(items) else 1


def _names(items: list[ApprovalItem]) -> str:
    return ", ".join(item["name"] for item in items)


def _nobody(name: str) -> str:
    if fault := lookup_fault(name):
        return f"no server can have this name: {fault}"
    return "nothing here asks for a server of that name"


def question(item: ApprovalItem) -> str:
    """What a person is shown before being asked: everything that approval would allow, and who wants it."""
    import shlex

    origin = item["origin"]
    where = f"{origin['path']}:{origin['line']}" if origin["line"] else origin["path"]
    remote = not item["cwd"]  # a program of a project always starts somewhere
    lines = [
        f"{item['name']}  ({'changed since it was approved' if item['state'] == 'changed' else item['state']})",
        f"  asked for by  {where}  {origin['key']}",
    ]
    really = item.get("resolved", {})
    command = " ".join if remote else shlex.join
    lines += [f"  would {'ask' if remote else 'run'}     {command(item['command'])}"]
    lines += [f"  which is      {command(really['command'])}"] if "command" in really else []
    if not remote:
        lines.append(f"  in            {item['cwd']}")
        lines += [f"  which is      {really['cwd']}"] if "cwd" in really else []
    more = [
        ("with headers" if remote else "with", item["env_names"]),
        ("and those in", [item["env_file"]] if item["env_file"] else []),
        ("which is", [really["env_file"]] if "env_file" in really else []),
        ("takes over", ["all of the hub's environment"] if item["inherits"] == ["*"] else item["inherits"]),
        ("reads", item["reads"]),
        ("headers from", [item["helper"]] if item["helper"] else []),
        ("which is", [really["helper"]] if "helper" in really else []),
        ("signs in by", [oauth] if (oauth := item.get("oauth")) else []),
        ("which is", [really["oauth"]] if "oauth" in really else []),
        ("trusts", [really["ca"]] if "ca" in really else []),
    ]
    lines += [f"  {label:<12}  {', '.join(values)}" for label, values in more if values]
    if item.get("trusts_annotations"):
        lines += [
            "  believes      what its tools say of themselves (trustAnnotations): calls that only read by their word",
            "                are not recorded; those, and what may be done twice by it, are made again when lost",
        ]
    for one in item.get("idempotency_arguments", []):
        lines.append(f"  calls again   {one}  is the argument by which it must know a call that is made again")
    lines += [f"  sets          {one}" for one in item.get("settings", [])]
    lines += [f"  unpinned      {one}  may be other code the next time, without asking" for one in item["unpinned"]]
    inside = item.get("in_repository", [])
    lines += [f"  repository    {one}  is code in here: it may do something else without asking" for one in inside]
    if item.get("shell_text"):
        lines.append("  shell         runs a text, of which only plain commands were looked at: read all of it")
    lines += [f"  warning       {text}" for text in item["warnings"]]
    if item["diff"]:
        lines += ["  changed:", *(f"    {text}" for text in item["diff"])]
    question = "Let your agents use it?" if remote else "Let it run as you?"
    return "".join(output.line(text) + "\n" for text in lines) + f"{question} [y/N] "


def tools_question(report: ToolChangesReport) -> str:
    """What a person is shown of a server's tools: each that is not as it was, and how."""
    lines = []
    if report["problem"]:
        lines += [f"{report['name']}: {report['problem']}", f"  it has {report['tools']} tools now"]
    for change in report["changes"]:
        lines.append(f"{report['name']}: {change['tool']}  ({change['change']})")
        lines += [f"    {text}" for text in change["diff"]]
    if report["gone"]:
        lines.append(f"{report['name']}: gone: {', '.join(report['gone'])}")
    return "".join(output.line(text) + "\n" for text in lines) + "Let your agents use them as they are now? [y/N] "


def _tools(client: ControlClient, name: str, as_json: bool) -> int:
    report = client.tool_changes(name)
    if not report["changes"] and not report["problem"]:
        if as_json:
            print(output.json_text(report))
        output.complain(f"the tools of {name} are as they were")
        return 0
    if why := report.get("unwritable"):
        raise ControlError(f"cannot approve the tools of {name}: {why}", status=500)
    if not ask(f"the tools of {name}", tools_question(report)):
        output.complain(f"the tools of {name} are not approved")
        return 1
    decided = client.approve_tools(name, report["digest"])
    print(output.json_text(decided) if as_json else f"the tools of {output.line(name)} are approved")
    return 0


def ask(what: str, text: str) -> bool:
    """Ask on the controlling terminal; only y and yes mean yes. Raises ControlError where there is none."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        message = f"cannot approve {what}: there is no terminal to ask on. Run `mcphub approve` in a terminal"
        raise ControlError(message, status=403) from None
    import termios

    try:
        termios.tcflush(terminal, termios.TCIFLUSH)  # what was typed before the question does not answer it
        with os.fdopen(terminal, "r+b", buffering=0, closefd=False) as file:
            file.write(text.encode("utf-8", "backslashreplace"))
            answer = file.readline(1000)
    finally:
        os.close(terminal)
    return answer.strip().lower() in (b"y", b"yes")


def _really(item: ApprovalItem) -> list[str]:
    """What runs once variables are replaced."""
    return item.get("resolved", {}).get("command", item["command"])


def _list(items: list[ApprovalItem]) -> None:
    import shlex

    if not items:
        print("this directory asks for no servers")
        return
    rows = [(item["name"], item["state"], shlex.join(_really(item))) for item in items]
    print(output.table(("NAME", "STATE", "WOULD RUN"), rows), end="")
    for item in items:
        if problem := item.get("problem"):
            print(f"{output.line(item['name'])} cannot be approved yet: {output.line(problem)}")
    if any(item["state"] in OPEN for item in items):
        print("\n`mcphub approve NAME` shows the whole of one and asks; `mcphub approve --all` asks about each.")

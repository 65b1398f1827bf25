"""Owns the verb tools.

It must not know how tools are merged or searched.
"""

from __future__ import annotations

from mcphub.cli import output
from mcphub.client import ControlClient, current_workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from mcphub.status import ToolsReport, ToolStatus

DESCRIPTION = "List the merged tools as an agent in this directory sees them."


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", nargs="?", default="", metavar="QUERY", help="only tools that match these words")
    parser.add_argument("--schemas", action="store_true", help="with the input schema of each")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    report = ControlClient(workspace=current_workspace()).tools(args.query, args.schemas)
    if args.json:
        print(output.json_text(report))
        return 0
    tools = report["tools"]
    if not tools:
        output.complain("no tool matches" if args.query else "there are no tools; `mcphub status` says why")
    columns = _columns()
    widest = max((output.width(output.line(tool["name"])) for tool in tools), default=0)
    for tool in tools:
        name = output.line(tool["name"])
        text = f"{name}{' ' * (widest - output.width(name))}  {summary(tool)}".rstrip()
        print(output.shortened(text, columns) if columns else text)
        if "input_schema" in tool:
            print("    " + output.json_text(tool["input_schema"]).replace("\n", "\n    "))
    for line in not_as_they_were(report):
        output.complain(line)
    return 0


def not_as_they_were(report: ToolsReport) -> list[str]:
    """One line for each server with tools that are not as they were first seen."""
    withheld = sorted({tool["server"] for tool in report.get("withheld", ())})
    flagged = sorted({tool["server"] for tool in report["tools"] if tool.get("change")} - set(withheld))
    lines = [f"tools of {name} are withheld; look at them: mcphub approve --tools {name}" for name in withheld]
    return lines + [f"tools of {name} have changed; look at them: mcphub approve --tools {name}" for name in flagged]


def summary(tool: ToolStatus) -> str:
    """The first sentence-like line that the server says about its tool."""
    for text in (tool["description"], tool["title"]):
        for line in text.splitlines():
            if line.strip():
                return output.line(" ".join(line.split()))
    return ""


def _columns() -> int:
    """Columns of the terminal; 0 where stdout is none, and nothing is cut."""
    if not output.on_terminal():
        return 0
    import shutil

    return shutil.get_terminal_size().columns

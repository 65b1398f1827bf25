"""Owns the verb call: arguments in, the result's content out.

It must not know which server answers. A result's text keeps its bytes where stdout is not a terminal.
"""

from __future__ import annotations

import json
import sys

from mcphub.cli import output
from mcphub.cli.usage import UsageError
from mcphub.client import ControlClient, current_workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any, NoReturn, TextIO

    from mcphub.status import CallReport

DESCRIPTION = """\
Call one tool and print the text of its result. A tool that reports an error has its text on stderr and exit status 1.
Ctrl-C cancels the call."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the tool as `mcphub tools` names it")
    parser.add_argument(
        "arguments", nargs="?", default="{}", metavar="JSON", help="its arguments, an object; - reads stdin"
    )
    parser.add_argument("--json", action="store_true", help="print the whole report as JSON")


def run(args: argparse.Namespace) -> int:
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig") if args.arguments == "-" else args.arguments
        check_arguments(text)
    except ValueError as error:
        raise UsageError(f"cannot read the arguments of {args.tool}: {error}") from None
    report = ControlClient(workspace=current_workspace()).call(args.tool, text)
    failed = "error" in report or bool(report.get("result", {}).get("isError"))
    if args.json:
        print(output.json_text(report))
    elif "error" in report:
        refusal = report["error"]
        reason = f"{refusal.get('message')} ({refusal.get('code')})"
        output.complain(f"{report['tool']} failed: {reason}")
    else:
        _show(report, sys.stderr if failed else sys.stdout)
    return 1 if failed else 0


def check_arguments(text: str) -> None:
    """Raise ValueError unless the text is a JSON object (RFC 8259: NaN and Infinity are not JSON)."""

    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is not JSON")

    try:
        value = json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("it must be a JSON object, such as {\"path\": \"/tmp\"}")


def result_text(result: dict[str, Any]) -> str:
    """What a person reads of a tool result (MCP, server/tools): each item of the content, or the structured content."""
    items = result.get("content")
    parts = [_item_text(item) for item in items] if isinstance(items, list) else []
    if not parts and "structuredContent" in result:
        parts = [output.json_text(result["structuredContent"])]
    elif not isinstance(items, list):
        parts = [output.json_text(result)]
    return "".join(part if part.endswith("\n") else part + "\n" for part in parts)


def _item_text(item: Any) -> str:
    if not isinstance(item, dict):
        return output.json_text(item)
    resource = item.get("resource")
    if item.get("type") == "text" and isinstance(item.get("text"), str):
        return str(item["text"])
    if item.get("type") in ("image", "audio") and isinstance(item.get("data"), str):
        amount = output.size(len(item["data"]) * 3 // 4)
        return f"[{item['type']} {item.get('mimeType')}, {amount}; --json has the data]"
    if item.get("type") == "resource" and isinstance(resource, dict):
        if isinstance(resource.get("text"), str):
            return str(resource["text"])
        return f"[resource {resource.get('uri')} {resource.get('mimeType')}; --json has the data]"
    if item.get("type") == "resource_link":
        return f"[resource {item.get('uri')}]"
    return output.json_text(item)


def _show(report: CallReport, stream: TextIO | None) -> None:
    if stream is not None:
        text = result_text(report.get("result", {}))
        stream.write(output.block(text) if stream.isatty() else text)

"""The verb tools."""

from __future__ import annotations

import json

from anyio.from_thread import BlockingPortal

from mcphub.cli.commands.tools import not_as_they_were, summary
from mcphub.status import ToolsReport, WithheldTool
from tests.cli.conftest import Place
from tests.fakes.canned_hub import EVIL, CannedHub, tool


def test_the_list(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """Exposed name and what the server says first about it."""
    assert place.run("tools") == (
        "mcp__time__now      Does a thing.\nmcp__time__convert  Converts.\n",
        "",
        0,
    )
    assert place.run("tools", "convert") == ("mcp__time__convert  Converts.\n", "", 0)


def test_schemas(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """Under each tool, or in the report."""
    assert place.run("tools", "now", "--schemas")[0] == (
        'mcp__time__now  Does a thing.\n    {\n      "type": "object"\n    }\n'
    )
    report = json.loads(place.run("tools", "--json", "--schemas")[0])
    assert report == hub.tools("", "", True)
    assert json.loads(place.run("tools", "--json")[0]) == hub.tools("", "", False)


def test_tools_that_are_not_as_they_were(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """C172: whoever lists them is told, once a server, and how to look at them."""
    hub.tool_list[0]["change"] = hub.tool_list[1]["change"] = "new"
    said = "mcphub: tools of time have changed; look at them: mcphub approve --tools time\n"
    assert place.run("tools")[1:] == (said, 0)
    withheld = [WithheldTool(original_name=name, server="mail", reason="") for name in ("a", "b")]
    assert not_as_they_were(ToolsReport(revision=1, tools=[], withheld=withheld)) == [
        "tools of mail are withheld; look at them: mcphub approve --tools mail"
    ]


def test_nothing_found(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """An empty list is not silent, and not a failure."""
    assert place.run("tools", "zzz") == ("", "mcphub: no tool matches\n", 0)
    hub.tool_list = []
    assert place.run("tools") == ("", "mcphub: there are no tools; `mcphub status` says why\n", 0)


def test_a_terminal_gets_lines_that_fit(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """Cut at the right edge; escapes of servers are text."""
    hub.tool_list = [tool("long", EVIL + " word" * 100)]
    with place.terminal("tools", columns=60) as terminal:
        seen, code = terminal.end()
    assert code == 0
    text = seen.decode().rstrip("\n")
    assert text.isprintable()
    assert (len(text), text[-3:]) == (60, "...")


def test_the_summary_is_the_first_line_that_says_something() -> None:
    """Of the description, else the title, else nothing."""
    assert summary(tool("x", "\n\n  Reads   a\tfile.\nMore.")) == "Reads a file."
    assert summary(tool("x", " \n", "Title")) == "Title"
    assert summary(tool("x", "")) == ""

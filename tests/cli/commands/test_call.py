"""The verb call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from mcphub.cli.commands.call import check_arguments, result_text
from mcphub.status import CallReport
from tests.cli.conftest import Place
from tests.fakes.canned_hub import EVIL, CannedHub


def content(*items: dict[str, Any], **more: Any) -> CallReport:
    return CallReport(tool="t", server="time", result={"content": list(items), **more})


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def test_the_text_is_printed(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """Arguments from the command line, from stdin, or none; the workspace is the directory."""
    assert place.run("call", "echo", '{"text": "hi"}') == ("hi\n", "", 0)
    assert place.run("call", "echo", "-", stdin=b'\xef\xbb\xbf{\n"text": "\xe4\xb8\xad\\n"}\n') == ("中\n", "", 0)
    assert place.run("call", "echo") == ("\n", "", 0)
    assert hub.asked == [
        ("call", place.workspace, "echo", '{"text": "hi"}'),
        ("call", place.workspace, "echo", '{ "text": "中\\n"}'),
        ("call", place.workspace, "echo", "{}"),
    ]


def test_json_is_the_whole_report(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """With the exit status of the plain form."""
    hub.results["t"] = content(text("no"), isError=True)
    out, err, status = place.run("call", "t", "--json")
    assert (json.loads(out), err, status) == (hub.results["t"], "", 1)


def test_a_tool_that_fails_is_1_and_on_stderr(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """So that a pipe gets results only."""
    hub.results["t"] = content(text("cannot read /x"), isError=True)
    assert place.run("call", "t") == ("", "cannot read /x\n", 1)


def test_a_refusal_of_the_server_is_1(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """A JSON-RPC error is shown with its code."""
    hub.results["t"] = CallReport(tool="t", server="time", error={"code": -32602, "message": "bad\x1b"})
    assert place.run("call", "t") == ("", "mcphub: t failed: bad\\x1b (-32602)\n", 1)


def test_an_unknown_tool_is_1(place: Place, portal: BlockingPortal) -> None:
    """In the hub's words."""
    assert place.run("call", "none") == ("", "mcphub: there is no tool none\n", 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "Expecting property name"),
        ("[]", "must be a JSON object"),
        ("1", "must be a JSON object"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": Infinity}', "Infinity is not JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_arguments_are_checked_before_anything_is_sent(given: str, said: str) -> None:
    """Wrong usage, with the reason."""
    with pytest.raises(ValueError, match=said):
        check_arguments(given)


def test_stdin_must_be_text(place: Place) -> None:
    """Bytes that are no UTF-8 are wrong usage, not a crash."""
    out, err, status = place.run("call", "t", "-", stdin=b'{"a": "\xff"}')
    assert (out, status) == ("", 2)
    assert err.startswith("mcphub: cannot read the arguments of t: ")


def test_results_keep_their_bytes_in_a_pipe(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """A file that a tool returned is that file; what no encoding has is escaped."""
    hub.results["t"] = content(text(f"{EVIL}\r\n\ttail"), text("\ud800"))
    assert place.run("call", "t")[0] == f"{EVIL}\r\n\ttail\n\\ud800\n"


@pytest.mark.parametrize("failed", [False, True])
def test_results_are_escaped_on_a_terminal(
    place: Place, hub: CannedHub, portal: BlockingPortal, failed: bool
) -> None:
    """Line breaks and tabs stay, everything that steers is text."""
    hub.results["t"] = content(text(f"{EVIL}\n\ttail"), isError=failed)
    with place.terminal("call", "t") as terminal:
        seen, status = terminal.end()
    shown = "a\\x1b]0;owned\\x07\\u202eb\\U000e0041\\x9b31m\n\ttail\n"
    assert (seen.decode(), status) == (shown, int(failed))


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"content": [text("a"), text("b\n")]}, "a\nb\n"),
        ({"content": []}, ""),
        ({"content": [], "structuredContent": {"a": 1}}, '{\n  "a": 1\n}\n'),
        ({"content": [text("a")], "structuredContent": {"a": 1}}, "a\n"),
        (
            {"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA" * 512}]},
            "[image image/png, 1.5K; --json has the data]\n",
        ),
        ({"content": [{"type": "resource", "resource": {"uri": "file:///x", "text": "t"}}]}, "t\n"),
        (
            {"content": [{"type": "resource", "resource": {"uri": "file:///x", "mimeType": "a/b", "blob": "AA"}}]},
            "[resource file:///x a/b; --json has the data]\n",
        ),
        ({"content": [{"type": "resource_link", "uri": "file:///x"}]}, "[resource file:///x]\n"),
        ({"content": [{"type": "new", "x": 1}]}, '{\n  "type": "new",\n  "x": 1\n}\n'),
        ({"content": ["odd"]}, '"odd"\n'),
        ({"content": "odd"}, '{\n  "content": "odd"\n}\n'),
        ({"resultType": "input_required"}, '{\n  "resultType": "input_required"\n}\n'),
    ],
)
def test_what_a_person_reads_of_a_result(result: dict[str, Any], shown: str) -> None:
    """Every kind of content has a line; what is not known is shown as it is."""
    assert result_text(result) == shown

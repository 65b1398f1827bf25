"""The line with which an agent says who it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.sessions.attach import MARK, MAX_LINE, METHOD, Attach, may_grow, split
from mcphub.spec import Secret

INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n'


def line(params: Any = None, **members: Any) -> bytes:
    message = {"jsonrpc": "2.0", "method": METHOD} | ({} if params is None else {"params": params}) | members
    return json.dumps(message).encode() + b"\n"


@pytest.mark.parametrize(
    ("first", "attach"),
    [
        (line({"client": "vim", "workspace": "/w/p"}), Attach("vim", "/w/p")),
        (line({"client": "vim", "workspace": "/w/p"}).replace(b"\n", b"\r\n"), Attach("vim", "/w/p")),
        (line(), Attach()),
        (line({}), Attach()),
        (line({"view": "x", "lease": 5}), Attach()),
        (line({"env": {"A": "b", "N": "c\0d"}}), Attach(env={"A": Secret("b")})),
        (line({"workspace": "/w/../v//p/./q/"}), Attach(workspace="/v/p/q")),
        (line({"workspace": "//w"}), Attach(workspace="/w")),
        (line({"workspace": "/../.."}), Attach(workspace="/")),
        (line({"workspace": "/\u6f22 \n"}), Attach(workspace="/\u6f22 \n")),
        (line({"client": "x" * 5000}), Attach("x" * 100)),
        (line({"client": "c", "workspace": "w"}), Attach("c", "", "the workspace is not an absolute path")),
        (line({"workspace": "~/w"}), Attach("", "", "the workspace is not an absolute path")),
        (line({"workspace": "/w\0"}), Attach("", "", "the workspace is not an absolute path")),
        (line({"workspace": "/" + "w" * 5000}), Attach("", "", "the workspace is not an absolute path")),
    ],
)
@pytest.mark.parametrize("rest", [b"", INITIALIZE, INITIALIZE * 2, b'{"jsonrpc'])
def test_attach_lines(first: bytes, attach: Attach, rest: bytes) -> None:
    """C162: label and workspace are taken from the line, and what follows it is the agent's first message."""
    assert split(first + rest) == (attach, rest)


@pytest.mark.parametrize(
    "first",
    [
        line({"client": 5}),
        line({"workspace": ["/w"]}),
        line({"env": {"A": 5}}),
        line([]),
        line("x"),
        line().replace(b"}", b',"params":null}'),
        line(None, method=[METHOD]),
        b"{" + MARK + b"\n",
        b'{"method":' + MARK + b',"params":' + b"[" * 5000 + b"\n",
        b'{"method":' + MARK + b',"params":{"client":"\\ud800"}}\n',
        b'{"method":' + MARK + b',"params":{"client":"\xff"}}\n',
    ],
)
def test_attach_lines_that_cannot_be_read(first: bytes) -> None:
    """C165: a broken line grants nothing, is named, and is not taken for a message; nothing is raised."""
    attach, rest = split(first + INITIALIZE)
    assert attach is not None
    assert attach.problem.startswith("the attach line cannot be read: ")
    assert (attach.client, attach.workspace, rest) == ("", "", INITIALIZE)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        INITIALIZE,
        INITIALIZE + line({"client": "late"}),
        b"\n" + line({"client": "late"}),
        line({"client": "not whole"})[:-1],
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"x": METHOD}}).encode() + b"\n",
        b"\xff\xfe\n",
    ],
)
def test_connections_without_an_attach_line(first: bytes) -> None:
    """What is no attach line, or not the first line, is left as it came."""
    assert split(first) == (None, first)


@given(st.binary(max_size=200) | st.binary(max_size=50).map(lambda b: b'{"method":' + MARK + b + b"}\n"))
def test_any_first_bytes(first: bytes) -> None:
    """C165: whatever comes first, nothing is raised and no byte behind the first line is lost."""
    attach, rest = split(first)
    assert first.endswith(rest)
    assert (attach is None) <= (rest == first)
    may_grow(first)


@pytest.mark.parametrize(
    ("first", "grows"),
    [
        (b"", True),
        (b"  ", True),
        (b'{"jsonrpc"', True),
        (b' {"method":', True),
        (b"{" + b" " * (MAX_LINE - 2), True),
        (b"{" + b" " * MAX_LINE, False),
        (b"{}\n", False),
        (b"GET / HTTP/1.1", False),
        (b"[", False),
        (b"\xff", False),
    ],
)
def test_what_may_still_become_one(first: bytes, grows: bool) -> None:
    """A beginning is waited for only while it may be an attach line."""
    assert may_grow(first) == grows


def test_values_do_not_show() -> None:
    """C025: a variable that an agent offers may be a token."""
    attach, _ = split(line({"env": {"A": "tok-1"}}))
    assert attach is not None and attach.env == {"A": "tok-1"}
    assert "tok-1" not in repr(attach)

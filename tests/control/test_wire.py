"""The JSON of the control API."""

from __future__ import annotations

import json

import msgspec
import pytest

from mcphub.control.wire import (
    KINDS,
    ApproveBody,
    CallBody,
    ReconnectBody,
    Request,
    StopBody,
    flag,
    one_line,
    read_body,
    whole_number,
    write_error,
    write_report,
)
from mcphub.errors import ControlError
from mcphub.transport.peer import Peer


def test_bodies_are_read_by_their_types() -> None:
    """What is absent has its default; an empty body is an empty object."""
    assert read_body(b"", ReconnectBody) == ReconnectBody()
    assert read_body(b"", StopBody) == StopBody()
    assert read_body(b'{"name":"a","workspace":"/w"}', ReconnectBody) == ReconnectBody(name="a", workspace="/w")
    assert bytes(read_body(b'{"tool":"t"}', CallBody).arguments) == b"{}"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "truncated"),
        (b"[]", "object"),
        (b'{"name":"a","digest":"d"} {}', "trailing"),
        (b'{"name":"a"}', "digest"),
        (b'{"name":1,"digest":"d"}', "name"),
        (b'{"name":"a","digest":"d","yes":true}', "yes"),
        (b'{"name":"\xff","digest":"d"}', "utf-8"),
    ],
)
def test_a_wrong_body_is_refused_with_its_reason(body: bytes, said: str) -> None:
    """Nothing but a 400 that names the trouble comes of any bytes."""
    with pytest.raises(ControlError, match="cannot read the request body") as caught:
        read_body(body, ApproveBody)
    assert caught.value.status == 400
    assert said in str(caught.value).lower()


def test_deep_nesting_is_refused() -> None:
    """A body cannot exhaust the stack."""
    with pytest.raises(ControlError, match="nested too deeply") as caught:
        read_body(b'{"tool":"t","arguments":' + b"[" * 100_000, CallBody)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("raw", "line"),
    [(b'{"a":1}', b'{"a":1}'), (b' {\n  "a": "x\\n",\r\n "b": 1.0\n}\n', b'{   "a": "x\\n",   "b": 1.0 }')],
)
def test_arguments_become_one_line_and_stay_as_they_are(raw: bytes, line: bytes) -> None:
    """Line breaks of a pretty-printed body must not break the framing of a stdio server."""
    assert one_line(msgspec.Raw(raw)) == line
    assert json.loads(line) == json.loads(raw)


@pytest.mark.parametrize("raw", [b"[]", b"null", b"1", b'"{}"'])
def test_arguments_are_an_object(raw: bytes) -> None:
    """MCP knows no other arguments."""
    with pytest.raises(ControlError, match="must be a JSON object"):
        one_line(msgspec.Raw(raw))


def test_query_values() -> None:
    """Numbers and flags have one way to be written each; anything else is a 400."""
    assert (whole_number({}, "n", 5), whole_number({"n": "07"}, "n", 5)) == (5, 7)
    assert [flag({"f": text}, "f") for text in ("1", "true", "", "0", "false")] == [True, True, False, False, False]
    for text in ("-1", "1.5", "x", "²", "9999999999"):
        with pytest.raises(ControlError, match="whole number"):
            whole_number({"n": text}, "n", 5)
    with pytest.raises(ControlError, match="1 or 0"):
        flag({"f": "yes"}, "f")


def test_reports_are_one_line_even_with_file_names_that_are_not_text() -> None:
    """A directory name with a stray byte, or a line break, must not cost the report."""
    for value in ({"path": "/w/\udcff"}, {"path": "/w\n"}, {"path": "中"}):
        written = write_report(value)
        assert written.count(b"\n") == 1
        assert json.loads(written) == value


def test_errors_have_a_message_and_a_kind() -> None:
    """Programs branch on the kind, people read the message."""
    assert json.loads(write_error(404, "no")) == {"error": {"message": "no", "kind": "not_found"}}
    assert json.loads(write_error(418, "no"))["error"]["kind"] == "error"
    assert len(KINDS) > 5


def test_a_request_without_a_workspace_has_none() -> None:
    """Absent means the user's own servers only."""
    peer = Peer(0, 0, None)
    assert Request(peer, {}, {}, b"").workspace == ""
    assert Request(peer, {}, {"workspace": "/w"}, b"").workspace == "/w"

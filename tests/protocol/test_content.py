"""What carries URIs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.protocol.content import conceal, edit_params, edit_result, expose
from mcphub.protocol.jsonrpc import Raw

DEEP = b"[" * 2000 + b"]" * 2000


def rename(uri: str) -> str:
    return expose("s", uri)


def edited(method: str, result: Any) -> Any:
    data = result if isinstance(result, bytes) else json.dumps(result).encode()
    return json.loads(bytes(edit_result(method, data, rename)))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_the_exposed_form_is_reversible(uri: str) -> None:
    """Without its prefix an exposed URI is the original, byte for byte."""
    assert conceal(expose("s", uri)) == ("s", uri)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("file:///a", "mcphub://s/file:///a"),
        ("test://{id}/x{?q}", "mcphub://s/test://{id}/x{?q}"),
        ("ui://view/page", "ui://s/view/page"),
        ("mcphub://t/file:///a", "mcphub://s/mcphub://t/file:///a"),
        ("", "mcphub://s/"),
    ],
)
def test_the_prefix(uri: str, shown: str) -> None:
    """It is put in front, whatever the URI is; hosts test the scheme of `ui://`, which stays."""
    assert expose("s", uri) == shown
    assert conceal(shown) == ("s", uri)


@pytest.mark.parametrize("uri", ["", "file:///a", "mcphub:", "mcphub://", "mcphub://s", "mcphub:///x", "ui://", "ui://s"])
def test_what_is_not_exposed(uri: str) -> None:
    """Any other URI is a server's own."""
    assert conceal(uri) is None


def test_every_place_in_a_tool_result() -> None:
    """Links and embedded resources are renamed; text, and what looks like a URI elsewhere, stays."""
    found = edited(
        "tools/call",
        {
            "content": [
                {"type": "resource_link", "uri": "a:1", "name": "n", "x": {"uri": "stays"}},
                {"type": "resource", "resource": {"uri": "a:2", "text": "uri a:2"}},
                {"type": "text", "text": "a:1", "uri": "a:1"},
                {"type": "unknown", "uri": "a:1"},
            ],
            "structuredContent": {"uri": "a:1"},
        },
    )
    assert found["content"][0] == {
        "type": "resource_link",
        "uri": "mcphub://s/a:1",
        "name": "n",
        "x": {"uri": "stays"},
    }
    assert found["content"][1]["resource"] == {"uri": "mcphub://s/a:2", "text": "uri a:2"}
    assert [block["uri"] for block in found["content"][2:]] == ["a:1", "a:1"]
    assert found["structuredContent"] == {"uri": "a:1"}


def test_every_place_in_other_results() -> None:
    """Contents of a resource, and the messages of a prompt with one block or several."""
    assert edited("resources/read", {"contents": [{"uri": "a:1"}, {"uri": "a:1/sub", "text": ""}]}) == {
        "contents": [{"uri": "mcphub://s/a:1"}, {"uri": "mcphub://s/a:1/sub", "text": ""}]
    }
    block = {"type": "resource", "resource": {"uri": "a:1"}}
    found = edited("prompts/get", {"messages": [{"role": "user", "content": block}, {"content": [block, 5]}]})
    assert found["messages"][0]["content"]["resource"]["uri"] == "mcphub://s/a:1"
    assert found["messages"][1]["content"] == [{"type": "resource", "resource": {"uri": "mcphub://s/a:1"}}, 5]
    assert edited("completion/complete", {"contents": [{"uri": "a:1"}]}) == {"contents": [{"uri": "a:1"}]}


def test_what_holds_no_uri_is_not_touched() -> None:
    """It is the same object: nothing is copied."""
    result = b'{"content" : [] }'
    assert edit_result("tools/call", result, rename) is result


LINK = b'{"type":"resource_link","uri":"a:1"}'


@pytest.mark.parametrize(
    "odd",
    [
        b"5",
        b"null",
        b'"uri"',
        b"[]",
        b'{"type":5,"uri":"x"}',
        b'{"type":"resource_link","uri":5}',
        b'{"type":"resource_link","uri":null}',
        b'{"type":"resource","resource":5,"uri":1}',
        b'{"type":"resource","resource":{"uri":[]}}',
        b'{"type":"resource","resource":{"uri":1e999}}',
    ],
)
def test_one_odd_item_costs_itself_only(odd: bytes) -> None:
    """It stays as it is, and the item behind it is renamed all the same."""
    result = bytes(edit_result("tools/call", b'{"content":[%b,%b]}' % (odd, LINK), rename))
    assert odd in result and b'"mcphub://s/a:1"' in result
    contents = b'{"contents":[%b,{"uri":"a:1"}]}' % odd
    assert b'"mcphub://s/a:1"' in bytes(edit_result("resources/read", contents, rename))


@pytest.mark.parametrize(
    "result",
    [
        b'{"content":5,"uri":1}',
        b'{"content":null,"uri":1}',
        b'{"content":{"uri":"a"}}',
        b'{"uri":"a"}',
        b'["uri"]',
        b'"uri"',
        b'{"content":' + DEEP + b',"uri":1}',
        b'{"content":[{"type":"resource_link","uri":"\\ud800"}]}',
    ],
)
@pytest.mark.parametrize("method", ["tools/call", "resources/read", "prompts/get", "x"])
def test_a_result_that_is_not_as_the_spec_has_it(result: bytes, method: str) -> None:
    """It stays, byte for byte."""
    assert bytes(edit_result(method, result, rename)) == result


@pytest.mark.parametrize("params", [b"5", b"{}", b'{"uri":5}', b'{"uri":null}', b"[", b'{"uri":"\\ud800"}'])
def test_params_without_a_uri(params: bytes) -> None:
    """None says so."""
    assert edit_params(Raw(params), "uri", rename) is None


def test_params_with_a_uri() -> None:
    """Only the URI is another one."""
    found = edit_params(Raw(b'{"x":1.0,"uri":"a:1"}'), "uri", rename)
    assert found is not None and json.loads(found) == {"x": 1.0, "uri": "mcphub://s/a:1"} and b"1.0" in found

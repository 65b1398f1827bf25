"""What agents of older versions get."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_types.methods import validate_server_result

from mcphub.protocol.jsonrpc import Raw
from mcphub.protocol.older import items_for, result_for, with_text

OLD, OLDEST = "2025-03-26", "2024-11-05"
LINK = {"type": "resource_link", "uri": "mcphub://s/file:///z", "name": "z", "title": "Z"}
AUDIO = {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}
TEXT = {"type": "text", "text": "x", "annotations": {"priority": 1}}
LINK_TEXT = {"type": "text", "text": "z: mcphub://s/file:///z"}
NOTE = {"type": "text", "text": "[audio, audio/wav: left out, this protocol version has none]"}


def result(version: str, value: Any, method: str = "tools/call") -> Any:
    return json.loads(bytes(result_for(version, method, json.dumps(value).encode())))


@pytest.mark.parametrize(
    ("version", "content", "found"),
    [
        (OLD, [TEXT, LINK, AUDIO], [TEXT, LINK_TEXT, AUDIO]),
        (OLDEST, [TEXT, LINK, AUDIO], [TEXT, LINK_TEXT, NOTE]),
        (OLD, [{**LINK, "name": 5}, {"type": "resource_link"}, 5], [{**LINK, "name": 5}, {"type": "resource_link"}, 5]),
        (OLDEST, [{"type": "audio"}], [{"type": "audio"}]),
        (OLD, [{"type": "resource_link", "uri": "u"}], [{"type": "text", "text": "resource: u"}]),
    ],
)
def test_content(version: str, content: Any, found: Any) -> None:
    """A kind of content that a version does not have becomes text, of tools and of prompts; what is no content
    stays."""
    assert result(version, {"content": content, "isError": False}) == {"content": found, "isError": False}
    prompt = [{"role": "user", "content": one} for one in content]
    said = [{"role": "user", "content": one} for one in found]
    assert result(version, {"messages": prompt}, "prompts/get") == {"messages": said}


@pytest.mark.parametrize("version", [OLD, OLDEST])
def test_structured_results(version: str) -> None:
    """B79: They are text: that which is there, or else one more block."""
    given = {"content": [{"type": "text", "text": '{ "a": [1] }'}], "structuredContent": {"a": [1]}}
    assert result(version, given) == {"content": given["content"]}
    found = result(version, {"content": [TEXT], "structuredContent": {"a": 1.50}})
    assert found == {"content": [TEXT, {"type": "text", "text": '{"a": 1.5}'}]}
    assert result(version, {"structuredContent": {}}) == {"content": [{"type": "text", "text": "{}"}]}


@pytest.mark.parametrize(
    "value", [{"content": [TEXT]}, {"content": "audio"}, {"x": ["audio"]}, {"content": 5, "a": "structuredContent"}]
)
def test_nothing_to_do(value: Any) -> None:
    """Any other result stays as it is."""
    assert result(OLDEST, value) == value
    plain = memoryview(b'{ "content" : [] }')
    assert result_for(OLD, "tools/call", plain) is plain
    unreadable = b'{"audio":' + b"[" * 5000
    assert result_for(OLD, "tools/call", unreadable) is unreadable
    contents = b'{"contents":[{"uri":"x","text":"audio"}],"x":"audio"}'
    assert json.loads(bytes(result_for(OLD, "resources/read", contents))) == json.loads(contents)


def test_what_is_no_content() -> None:
    """Nothing is put into what is not a list."""
    assert bytes(with_text(Raw(b"5"), Raw(b"[1]"))) == b"5"


@pytest.mark.parametrize("version", [OLD, OLDEST])
def test_results_by_the_official_types(version: str) -> None:
    """They are ones of the agent's own version."""
    value = {"content": [TEXT, LINK, AUDIO], "structuredContent": {"a": 1}, "isError": False}
    validate_server_result("tools/call", version, result(version, value))


def test_lists() -> None:
    """Titles and output schemas go, of tools of the oldest version annotations too; what is within a schema stays. The
    same page is rendered once."""
    schema = {"type": "object", "title": "T", "properties": {"title": {"type": "string"}}}
    tool = {"name": "t", "title": "T", "inputSchema": schema, "outputSchema": schema, "annotations": {"title": "T"}}
    page = json.dumps(tool).encode() + b"," + json.dumps({"name": "u"}).encode()
    kept = {"name": "t", "inputSchema": schema}
    noted = {**kept, "annotations": {"title": "T"}}
    assert json.loads(b"[%b]" % items_for(OLD, "tools", page)) == [noted, {"name": "u"}]
    assert json.loads(b"[%b]" % items_for(OLDEST, "tools", page)) == [kept, {"name": "u"}]
    assert items_for(OLD, "tools", page) is items_for(OLD, "tools", page)
    resource = b'{"uri":"x:1","name":"x","title":"X","annotations":{"priority":1}}'
    found = {"uri": "x:1", "name": "x", "annotations": {"priority": 1}}
    assert json.loads(items_for(OLDEST, "resources", resource)) == found
    assert items_for(OLD, "tools", b"") == b""

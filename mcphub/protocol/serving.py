"""Owns mcphub's own face to agents: what `initialize` and `server/discover` say, and the shapes of its own answers.

It must not know any server, nor send anything. Nothing here depends on which servers are up, so that a handshake waits
for none of them (MCP spec 2026-07-28 server/discover, 2025-11-25 basic/lifecycle).
"""

from __future__ import annotations

import msgspec

from mcphub.protocol import jsonrpc, tasks
from mcphub.protocol.envelope import IMPLEMENTATION, MODERN_HEAD, RESULT_META, SUBSCRIPTION_KEY
from mcphub.protocol.versions import ALL, answer_to_initialize

#: Fixed, since a legacy agent sees it once: a server that appears later needs no capability that was not declared.
CAPABILITIES = (
    b'{"completions":{},"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},'
    b'"tools":{"listChanged":true}}'
)
#: Of the modern era alone: a legacy server's extension has no such place, and its tasks are not these.
MODERN_CAPABILITIES = b'{"extensions":{%b},%b' % (tasks.OFFER, CAPABILITIES[1:])
INSTRUCTIONS = (
    "mcphub serves the tools of several MCP servers. Each tool is named mcp__<server>__<tool>. "
    "A tool whose server is down answers with an error that says what a person can do."
)
#: The same for an agent that sees one server only.
ONE_SERVER = (
    "mcphub serves the MCP server {server} here, under the server's own tool names. "
    "While it is down, its tools answer with an error that says what a person can do."
)


def _tail(instructions: str) -> bytes:
    return b'"capabilities":%b,"instructions":%b' % (CAPABILITIES, jsonrpc.quote(instructions))


def _discover_result(tail: bytes) -> bytes:
    versions = msgspec.json.encode(ALL)
    tail = tail.replace(CAPABILITIES, MODERN_CAPABILITIES, 1)  # in front of what servers say
    return MODERN_HEAD + b',"supportedVersions":%b,%b,"ttlMs":60000,"cacheScope":"private"}' % (versions, tail)


_TAIL = _tail(INSTRUCTIONS)
DISCOVER_RESULT = _discover_result(_TAIL)


def _tail_for(server: str, instructions: str) -> bytes:
    if not server and not instructions:
        return _TAIL
    preamble = ONE_SERVER.format(server=server) if server else INSTRUCTIONS
    return _tail(f"{preamble}\n\n{instructions}" if instructions else preamble)


def discover_result(server: str = "", instructions: str = "") -> bytes:
    """The DiscoverResult for an agent that sees one server only, "" = all. `instructions` are the servers'."""
    return _discover_result(_tail_for(server, instructions)) if server or instructions else DISCOVER_RESULT


def initialize_result(asked: str, server: str = "", instructions: str = "") -> bytes:
    """The InitializeResult for an agent that asked for this version; the rest is as in `discover_result`."""
    return b'{"protocolVersion":"%b","serverInfo":%b,%b}' % (
        answer_to_initialize(asked).encode(),
        IMPLEMENTATION,
        _tail_for(server, instructions),
    )


def empty_result(modern: bool) -> bytes:
    """The result that says nothing."""
    return MODERN_HEAD + b"}" if modern else b"{}"


def tool_error(text: str, modern: bool, data: bytes = b"") -> bytes:
    """A tool result with `isError`: the model can read it and act on it (MCP spec, server/tools, error handling).
    `data` is what programs are told in its `_meta`: `envelope.error_data`."""
    body = b'"content":[{"type":"text","text":%b}],"isError":true}' % jsonrpc.quote(text)
    if data:
        return (MODERN_HEAD[:-1] + b"," if modern else b'{"_meta":{') + data[1:-1] + b"}," + body
    return (MODERN_HEAD + b"," if modern else b"{") + body


def subscription_meta(mid: bytes) -> bytes:
    """The `_meta` member of a notification that belongs to the listen request with this id (as JSON)."""
    return b'"_meta":{"%b":%b}' % (SUBSCRIPTION_KEY.encode(), mid)


def listen_acknowledged(mid: bytes, accepted: bytes) -> bytes:
    """The first frame of a subscription; `accepted` is the granted filter as a JSON object."""
    params = b'{"notifications":%b,%b}' % (accepted, subscription_meta(mid))
    return jsonrpc.notification_frame("notifications/subscriptions/acknowledged", params)


def listen_ended(mid: bytes) -> bytes:
    """The frames that end a subscription from our side: its result, then the cancellation (byte streams)."""
    meta = b'{%b,"%b":%b}' % (RESULT_META, SUBSCRIPTION_KEY.encode(), mid)
    result = b'{"resultType":"complete","_meta":%b}' % meta
    cancelled = jsonrpc.notification_frame(
        "notifications/cancelled", b'{"requestId":%b,"reason":"shutting down"}' % mid
    )
    return jsonrpc.result_frame(mid, result) + cancelled

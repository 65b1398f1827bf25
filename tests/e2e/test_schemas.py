"""What a tool's own schemas change for an agent: calls that are certainly wrong, and results that are."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.agent import META, Agent, Message, text
from tests.fakes.http_agent import HttpAgent
from tests.fakes.hub import Fake, Hub

pytestmark = pytest.mark.anyio

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
INPUT = {
    "$schema": DRAFT_7,
    "type": "object",
    "definitions": {"count": {"type": "integer"}},
    "properties": {
        "n": {"$ref": "#/definitions/count"},
        "after": {"type": "string", "pattern": "(?<=x)y"},
        "slow": {"type": "string", "pattern": "^(a+)+$"},
        "when": {"type": "string", "format": "no-such-format"},
        "far": {"$ref": "http://127.0.0.1:1/schema.json"},
        "often": {"type": "string", "default": "daily"},
    },
    "required": ["n", "often"],
    "additionalProperties": False,
}
OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TYPELESS = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
TEXT = [{"type": "text", "text": "five"}]
IMAGE = [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]
#: Tool, its outputSchema, its result, and what of the result breaks the schema.
RESULTS: list[tuple[str, Any, Message, str]] = [
    ("right", OUTPUT, {"content": TEXT, "structuredContent": {"n": 5}}, ""),
    ("wrong", OUTPUT, {"content": TEXT, "structuredContent": {"n": "5"}}, "n must be integer, not string"),
    ("none", OUTPUT, {"content": TEXT}, "structuredContent is missing"),
    ("failed", OUTPUT, {"content": TEXT, "isError": True}, ""),
    ("typeless", TYPELESS, {"content": TEXT, "structuredContent": {"n": "5"}}, "n must be integer, not string"),
    ("image", OUTPUT, {"content": IMAGE, "structuredContent": {"n": 5.5}}, "n must be integer, not number"),
    ("marked", OUTPUT, {"_meta": {"own": 1}, "content": TEXT, "structuredContent": {}}, "n is missing"),
    ("free", None, {"content": TEXT, "structuredContent": {"n": "5"}}, ""),
]
SCRIPT: dict[str, Any] = {
    "tools": [
        {"name": "work", "inputSchema": INPUT},
        *(
            {
                "name": name,
                "inputSchema": {"type": "object"},
                **({"outputSchema": schema} if schema is not None else {}),
                "actions": [{"answer": result}],
            }
            for name, schema, result, _ in RESULTS
        ),
    ]
}
SERVERS = {"old": Fake(SCRIPT), "new": Fake({**SCRIPT, "era": "modern"})}
ERAS = ["legacy", "modern"]


@pytest.fixture
async def calls(hub: Hub) -> AsyncIterator[dict[str, int]]:
    """How many calls each server had got before."""
    yield {name: count(hub, name) for name in SERVERS}


def count(hub: Hub, server: str) -> int:
    return len([m for m in hub.received(server) if isinstance(m, dict) and m.get("method") == "tools/call"])


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "n is missing"),
        ({"n": None}, "n must be integer, not null"),
        ({"n": "5"}, "n must be integer, not string"),
        ({"n": 5, "extra": "s3cret"}, "extra is not known"),
        ({"n": 5, "slow": "a" * 5000 + "!"}, "slow does not match the pattern ^(a+)+$"),
        ({"n": 5, "after": 5}, "after must be string or null, not integer"),
    ],
)
async def test_what_is_certainly_wrong_is_not_sent(
    hub: Hub, agent: Agent, calls: dict[str, int], server: str, era: str, arguments: Message, told: str
) -> None:
    """C151, H4, K5.4: the model gets a tool result that says what is wrong and where, never with a value; programs get
    its kind; the server gets nothing, and the next call at once."""
    start = time.perf_counter()
    response = await agent.call(f"mcp__{server}__work", arguments, era=era)
    assert time.perf_counter() - start < 10
    result = response["result"]
    assert result["isError"] is True and result.get("resultType") == ("complete" if era == "modern" else None)
    assert text(response) == f"The arguments do not fit the schema of work: {told}. Nothing was sent; correct them."
    meta = result["_meta"]
    facts = meta["dev.mcphub/error"]
    assert (facts["kind"], facts["server"], facts["tool"], facts["layer"]) == ("validation", server, "work", "agent")
    assert (META + "serverInfo" in meta) is (era == "modern")
    assert text(await agent.call(f"mcp__{server}__work", {"n": 5}, era=era)) == "called work"
    assert count(hub, server) == calls[server] + 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"n": 5},
        {"n": 5.0},
        {"n": 5, "after": "zy"},
        {"n": 5, "slow": "aaaa"},
        {"n": 5, "when": "whenever"},
        {"n": 5, "far": {"any": "thing"}},
        {"n": 10**30, "slow": "a" * 50_000 + "!"},
    ],
)
async def test_all_else_is_sent_as_it_is(hub: Hub, agent: Agent, calls: dict[str, int], arguments: Message) -> None:
    """C151: look-behind, unknown formats, remote references, members that a default stands for and what would take long
    are the server's to judge; it gets the very values."""
    assert text(await agent.call("mcp__old__work", arguments)) == "called work"
    assert count(hub, "old") == calls["old"] + 1
    sent = [m for m in hub.received("old") if isinstance(m, dict) and m.get("method") == "tools/call"][-1]
    assert json.dumps(sent["params"]["arguments"]) == json.dumps(arguments)


@pytest.mark.parametrize("missing", [{}, {"arguments": None}])
async def test_no_arguments_at_all(hub: Hub, agent: Agent, calls: dict[str, int], missing: Message) -> None:
    """C151: missing or null arguments are an empty object: refused where something is required, sent where not."""
    refused = await agent.request("tools/call", {"name": "mcp__old__work", **missing})
    assert "n is missing" in text(refused)
    taken = await agent.request("tools/call", {"name": "mcp__old__free", **missing})
    assert taken["result"]["structuredContent"] == {"n": "5"}
    assert count(hub, "old") == calls["old"] + 1


async def test_over_http(hub: Hub, calls: dict[str, int]) -> None:
    """C151, C152: agents over HTTP get the same, in both eras."""
    agent = HttpAgent(f"unix://{hub.place.agent_socket.parent / 'http.sock'}#/mcp")
    await agent.initialize()
    for ask in (agent.request, agent.modern):
        refused = await ask("tools/call", {"name": "mcp__old__work", "arguments": {"n": "5"}})
        assert "n must be integer, not string" in text(refused.document)
        flagged = await ask("tools/call", {"name": "mcp__old__wrong", "arguments": {}})
        assert flagged.document["result"]["_meta"]["dev.mcphub/warning"]["kind"] == "output_schema"
        assert flagged.document["result"]["structuredContent"] == {"n": "5"}
    assert count(hub, "old") == calls["old"] + 2


async def test_a_person_is_told_too(hub: Hub, calls: dict[str, int]) -> None:
    """C151: `mcphub call` goes the same way."""
    code, report = await hub.control("POST", "/v1/call", body={"tool": "mcp__old__work", "arguments": {"n": "5"}})
    assert code == 200 and report["result"]["isError"] is True
    assert "n must be integer, not string" in report["result"]["content"][0]["text"]
    assert count(hub, "old") == calls["old"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("server", SERVERS)
async def test_results_that_break_their_own_schema(hub: Hub, agent: Agent, server: str, era: str) -> None:
    """C152, H10, K5.4: they are delivered whole, with a warning in their `_meta`; errors are not looked at; nothing is
    merged or dropped; the connection stays as it is and counts them."""
    before = await hub.server(server)
    flagged = 0
    for name, _, result, told in RESULTS:
        response = await agent.call(f"mcp__{server}__{name}", {}, era=era)
        got = response["result"]
        meta = got.pop("_meta", {})
        warning = meta.pop("dev.mcphub/warning", None)
        if told:
            flagged += 1
            message = f"the result does not fit the tool's outputSchema: {told}"
            assert (warning["kind"], warning["message"]) == ("output_schema", message), name
            assert warning["layer"] == "server"
        else:
            assert warning is None, name
        assert {k: v for k, v in meta.items() if not k.startswith(META)} == result.get("_meta", {})
        assert got.pop("resultType", None) == ("complete" if era == "modern" else None)
        assert got == {k: v for k, v in result.items() if k != "_meta"}
    after = await hub.server(server)
    assert after["counters"]["results_unlike_schema"] == before["counters"].get("results_unlike_schema", 0) + flagged
    assert (after["state"], after["pid"], after["last_error"]) == ("connected", before["pid"], None)

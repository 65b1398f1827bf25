"""Servers that repeat what they were sent, and servers that forbid: what agents, people and the log are told."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from mcphub.auth.records import TokenSet, account_of, encoded
from mcphub.spec import HttpSpec, OAuthSpec, Origin, Scope, Secret, ServerSpec
from mcphub.store.vault_file import VaultFile
from tests.e2e.test_http_agents import print_url
from tests.fakes import http_agent
from tests.fakes.agent import LEGACY
from tests.fakes.http_agent import HttpAgent, modern
from tests.fakes.hub import Place, row, running
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import Reply, Request, RudeHttp, body, empty

pytestmark = pytest.mark.anyio

#: Longer than what is shown of an answer, as tokens are.
TOKEN = "eyJhbGciOiJFUzI1NiJ9." + "Q2hhcmFjdGVycw" * 40
KEY = "sk-live-" + "0123456789abcdef" * 20
INITIALIZE = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}


def kept(place: Place, name: str, url: str) -> None:
    """A sign-in in the vault whose token is good for an hour."""
    spec = ServerSpec(name, Origin(Scope.USER, "", name), HttpSpec(Secret(url), oauth=OAuthSpec()))
    account = account_of(spec)
    assert account is not None
    now = time.time_ns() / 1e9
    tokens = TokenSet(
        Secret(TOKEN), "https://as.example", "c", "https://as.example/token", url, obtained_at=now,
        expires_at=now + 3600, client_source="cimd", client_method="none",
    )  # fmt: skip
    vault = VaultFile(str(place.root / "state" / "mcphub" / "vault"), f"file:{place.root / 'key'}", {})
    vault.put("tokens", account.key, encoded(tokens))


def repeat(request: Request) -> Reply:
    """Its headers in the text of an error, in one of five ways, by the argument of the call."""
    how = request.params["arguments"]["how"]
    sent = f"{request.header('Authorization')} {request.header('X-Api-Key')}"
    if how == "page":
        return body(f"<h1>{sent}</h1>".encode(), "text/html", status=500)
    if how == "json":
        return body(json.dumps({"error": sent}).encode(), status=400)
    if how == "message":
        error = {"code": -32000, "message": sent, "data": {"headers": sent}}
        return body(json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "error": error}).encode(), status=400)
    if how == "ok":
        return body(sent.encode(), "text/plain")
    return empty(403)


async def test_what_a_server_repeats_and_forbids() -> None:
    """B83, S12, K6.3: a token of a sign-in or a header of the entry that a server repeats in an error is in nothing
    that anybody is told, whole or in part, whatever the transport. 1.1: a 403 that says nothing of scopes is an error
    of that call: the server stays connected, and nobody is sent to a sign-in; at the start it is a failure like
    another."""
    place = Place()
    settings = f'[vault]\nkey = "file:{place.root / "key"}"\n'
    signed, fixed, older, forbids = (
        RudeHttp(OrdinaryMcp(sessions=False)),
        RudeHttp(OrdinaryMcp(era="modern")),
        RudeHttp(OrdinaryMcp(era="sse"), path="/sse"),
        RudeHttp(lambda request: empty(403)),
    )
    try:
        async with signed, fixed, older, forbids:
            for server in (signed, fixed, older):
                server.on("tools/call", repeat, times=None)
            kept(place, "signed", signed.url)
            headers = {"Authorization": f"Bearer {KEY}", "X-Api-Key": KEY}
            servers: dict[str, Any] = {
                "signed": {"type": "http", "url": signed.url},
                "fixed": {"type": "http", "url": fixed.url, "headers": headers},
                "older": {"type": "sse", "url": older.url, "headers": headers},
                "forbids": {"type": "http", "url": forbids.url},
            }
            async with running(servers, settings=settings, place=place) as hub, await hub.agent() as agent:
                await agent.initialize()
                await hub.until_state("signed", "fixed", "older")
                await hub.until_state("forbids", state="failed")
                for name in ("signed", "fixed", "older"):
                    for how in ("page", "json", "message", "ok", "forbidden"):
                        if (name, how) == ("older", "ok"):
                            continue  # that transport's answer to a POST is not read
                        told = json.dumps(await agent.call(f"mcp__{name}__echo", {"how": how}))
                        assert TOKEN[:16] not in told and KEY[:16] not in told, (name, how)
                        assert TOKEN[-16:] not in told and KEY[-16:] not in told, (name, how)
                        assert ("***" in told) == (how != "forbidden"), (name, how, told)
                        assert ("HTTP 403" in told) == (how == "forbidden") and "sign-in" not in told, told
                report = await hub.until_state("signed", "fixed", "older")
                assert "HTTP 403" in row(report, "forbids")["last_error"]["message"]
                paths = [f"/v1/{verb}/{name}" for verb in ("why", "logs") for name in ("signed", "fixed", "older")]
                seen = json.dumps([(await hub.control("GET", path))[1] for path in ("/v1/status", *paths)])
                assert TOKEN[:16] not in seen + hub.stderr() and KEY[:16] not in seen + hub.stderr()
    finally:
        place.remove()


async def test_an_agents_own_credentials(place: Place) -> None:
    """B83: what an agent shows to mcphub, in whichever header, reaches no server of either era, nor what is told of
    it."""
    old, new = RudeHttp(OrdinaryMcp()), RudeHttp(OrdinaryMcp(era="modern"))
    async with old, new:
        servers = {name: {"type": "http", "url": one.url} for name, one in (("old", old), ("new", new))}
        async with running(servers, settings='[http]\nlisten = "127.0.0.1:0"\n', place=place) as hub:
            await hub.until_state(*servers)
            agent = HttpAgent(await print_url(hub))
            token, agent.path = agent.path.split("/")[2], "/mcp"
            mine = {"Authorization": f"Bearer {token}", "Cookie": f"a={KEY}", "X-Api-Key": KEY, "Mcp-Param-Key": KEY}
            reply = await agent.ask("POST", mine, http_agent.encoded("initialize", INITIALIZE, 0))
            session = {"Mcp-Session-Id": reply.headers["mcp-session-id"], "MCP-Protocol-Version": LEGACY}
            for name in servers:
                params = {"name": f"mcp__{name}__echo", "arguments": {"text": "x"}}
                head, data = modern("tools/call", params)
                for headers, sent in ((session, http_agent.encoded("tools/call", params, 1)), (head, data)):
                    answer = await agent.ask("POST", {**headers, **mine}, sent)
                    assert answer.response["result"]["content"][0]["text"] == "x", answer
            for request in (*old.requests, *new.requests):
                seen = repr(request.headers) + request.body.decode()
                assert token not in seen and KEY not in seen and request.header("Authorization") is None
            assert len(old.sent("tools/call")) == len(new.sent("tools/call")) == 2
            assert token not in json.dumps(await hub.status()) + hub.stderr()

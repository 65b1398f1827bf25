"""Owns what an ordinary MCP server over HTTP answers, in one era or both, as the background for rude answers.

It must not be rude by itself, nor know sockets: a request comes in, a reply goes out (spec 2026-07-28 and 2025-11-25,
basic/transports; HTTP+SSE of 2024-11-05).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.rude_http import Feed, Reply, Request, body, empty, encoded, event, stream

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
META = "io.modelcontextprotocol/"
INFO = {"name": "ordinary", "version": "1"}
ECHO = {
    "name": "echo",
    "description": "Says what it was told",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}
#: What Mcp-Name repeats, by method.
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


@dataclass
class OrdinaryMcp:
    """One server. `era`: `legacy`, `modern`, `both`, or `sse` for the transport of 2024-11-05.

    `sessions`: legacy requests need the session id that `initialize` gave. `results` adds or replaces results by
    method; a function gets the request's params. `endpoint` is what the first event of the old transport says.
    """

    era: str = "legacy"
    sessions: bool = True
    version: str = LEGACY[0]
    tools: list[dict[str, Any]] = field(default_factory=lambda: [ECHO])
    results: dict[str, Mapping[str, Any] | Callable[[dict[str, Any]], Mapping[str, Any]]] = field(default_factory=dict)
    endpoint: str = "/messages?s=1"
    #: the versions that `server/discover` names, and what `initialize` says the server can do
    named: tuple[str, ...] = (MODERN,)
    capabilities: dict[str, Any] = field(default_factory=lambda: {"tools": {"listChanged": True}})
    known: set[str] = field(default_factory=set)
    #: open streams for what nobody asked for: GET in the legacy era, the one stream of the old transport
    feeds: list[Feed] = field(default_factory=list)
    #: whether GET opens a stream (else 405)
    standing: bool = False
    _made: int = 0

    def __call__(self, request: Request) -> Reply:
        if self.era == "sse":
            return self._old(request)
        if request.method == "POST":
            if META + "protocolVersion" in request.params.get("_meta", {}):
                if self.era != "legacy":
                    return self._modern(request)
                return body(request.error(-32000, "Bad Request: Server not initialized"), status=400)
            if self.era == "modern":
                if "id" not in (request.message or {}):
                    return empty(202)
                return body(request.error(-32602, f"_meta is missing; this server speaks {MODERN}"), status=400)
            return self._legacy(request)
        if self.era == "modern":
            return empty(405, ("Allow", "POST"))
        if refused := self._without_session(request):
            return refused
        if request.method == "GET" and self.standing:
            return self._feed()
        if request.method == "DELETE":
            self.known.discard(request.header("Mcp-Session-Id") or "")
            return empty(200)
        return empty(405, ("Allow", "POST, DELETE"))

    def expire(self) -> None:
        """Forgets every session: what names one gets 404 from now on."""
        self.known.clear()

    def result(self, request: Request) -> Mapping[str, Any] | None:
        """The plain result for a method, None = no such method."""
        method, params = request.key, request.params
        if method in self.results:
            made = self.results[method]
            return made(params) if callable(made) else made
        if method == "tools/list":
            return {"tools": self.tools}
        if method == "tools/call":
            return {"content": [{"type": "text", "text": str(params.get("arguments", {}).get("text", ""))}]}
        return None

    def initialized(self, request: Request) -> dict[str, Any]:
        asked = request.params.get("protocolVersion")
        version = asked if asked in LEGACY else self.version
        return {"protocolVersion": version, "capabilities": self.capabilities, "serverInfo": INFO}

    # -- legacy

    def _legacy(self, request: Request) -> Reply:
        if request.key == "initialize":
            reply = body(request.result(self.initialized(request)))
            if not self.sessions:
                return reply
            self._made += 1
            session = f"session-{self._made}"
            self.known.add(session)
            return reply.with_headers(("Mcp-Session-Id", session))
        if refused := self._without_session(request):
            return refused
        if "id" not in (request.message or {}) or request.key == "response":
            return empty(202)
        if request.key == "ping":
            return body(request.result({}))
        result = self.result(request)
        return body(request.error(-32601, "Method not found") if result is None else request.result(result))

    def _without_session(self, request: Request) -> Reply | None:
        if not self.sessions:
            return None
        session = request.header("Mcp-Session-Id")
        if session is None:
            return body(request.error(-32000, "Bad Request: Mcp-Session-Id header is required"), status=400)
        if session not in self.known:
            return body(request.error(-32001, "Session not found"), status=404)
        return None

    def _feed(self, *first: bytes) -> Reply:
        feed = Feed()
        self.feeds.append(feed)
        return stream(*first, feed)

    # -- modern

    def _modern(self, request: Request) -> Reply:
        meta = request.params["_meta"]
        if wrong := self._mirrored(request):
            return body(request.error(-32020, wrong), status=400)
        if meta[META + "protocolVersion"] != MODERN:
            data = {"supported": [MODERN], "requested": meta[META + "protocolVersion"]}
            return body(request.error(-32022, "Unsupported protocol version", data), status=400)
        if META + "clientCapabilities" not in meta:
            return body(request.error(-32602, "clientCapabilities is missing"), status=400)
        cached: dict[str, Any] = {"ttlMs": 0, "cacheScope": "private"}
        result: Mapping[str, Any] | None
        if request.key == "server/discover":
            result = {"supportedVersions": [*self.named], "capabilities": {"tools": {"listChanged": True}}, **cached}
        elif request.key == "subscriptions/listen":
            tag = {META + "subscriptionId": request.message["id"]}
            accepted = {"notifications": request.params.get("notifications", {}), "_meta": tag}
            method = "notifications/subscriptions/acknowledged"
            return self._feed(event(encoded({"jsonrpc": "2.0", "method": method, "params": accepted})))
        else:
            result = self.result(request)
            if result is not None and request.key.endswith("/list"):
                result = {**cached, **result}
        if result is None:
            return body(request.error(-32601, "Method not found"), status=404)
        return body(request.result({"resultType": "complete", "_meta": {META + "serverInfo": INFO}, **result}))

    def _mirrored(self, request: Request) -> str:
        """What is wrong with the headers that repeat the body, "" = nothing."""
        wanted = {
            "MCP-Protocol-Version": request.params["_meta"][META + "protocolVersion"],
            "Mcp-Method": request.key,
        }
        if request.key in NAMED:
            wanted["Mcp-Name"] = request.params.get(NAMED[request.key])
        wrong = [name for name, value in wanted.items() if request.header(name) != value]
        return f"does not match the body: {', '.join(wrong)}" if wrong else ""

    # -- HTTP+SSE

    def _old(self, request: Request) -> Reply:
        if request.method == "GET":
            return self._feed(event(self.endpoint, name="endpoint"))
        if request.method != "POST" or request.path != self.endpoint.partition("?")[0] or not self.feeds:
            return empty(405 if request.method != "POST" else 404)
        if "id" in (request.message or {}) and request.key != "response":
            known = {"initialize": self.initialized(request), "ping": {}}
            result = known[request.key] if request.key in known else self.result(request)
            answer = request.error(-32601, "Method not found") if result is None else request.result(result)
            self.feeds[-1].send(event(answer, name="message"))
        return body(b"Accepted", "text/plain", status=202)


"""Owns one process that plays many remote MCP servers, is away and back at a word, and records who came when.

It must not know the gateway in front of it, nor import what `python -I -S` does not have.

    python -I -S fleet.py COUNT LATENCY

It prints the ports of COUNT servers as one line of JSON; every second one is a legacy server. Each is an endpoint of
Streamable HTTP with a stream that stays open, by which its clients see at once that it is gone. What it answers comes
LATENCY seconds later. A line on standard input is `away` (what is open is reset, what comes is taken and reset after
the latency, as a load balancer without servers does), `back`, or `tell`, which is answered by one line of JSON: the
steps so far, each 100 ms: attempts to connect that began, the most of them that were under way at once, requests for a
stream, and how many servers are connected at its end.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from typing import Any

STEP = 0.1
META = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
TOOL = {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}
CAPABILITIES = {"tools": {"listChanged": True}}
ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
GONE = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\r\n"
BEGINS = ("server/discover", "initialize")


class Record:
    """What happened, step by step."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.most: list[int] = []
        self.others: list[int] = []
        self.connected: list[int] = []
        self.under_way = 0
        self.listed: set[int] = set()
        self._begun = self._most = self._others = 0

    def begin(self) -> None:
        self._begun += 1
        self.under_way += 1
        self._most = max(self._most, self.under_way)

    def end(self) -> None:
        self.under_way -= 1

    def other(self) -> None:
        self._others += 1

    def step(self) -> None:
        """The end of one step."""
        self.others.append(self._others)
        self.begun.append(self._begun)
        self.most.append(self._most)
        self.connected.append(len(self.listed))
        self._begun, self._others, self._most = 0, 0, self.under_way


class Server:
    """One of them; `attempt` while somebody shakes hands with it."""

    def __init__(self, fleet: Fleet, number: int) -> None:
        self.fleet, self.number, self.legacy = fleet, number, number % 2 == 1
        self.open: set[Connection] = set()
        self.attempt = False
        self.sessions = 0

    def begin(self) -> None:
        if not self.attempt:
            self.attempt = True
            self.fleet.record.begin()

    def end(self) -> None:
        if self.attempt:
            self.attempt = False
            self.fleet.record.end()

    def answer(self, message: dict[str, Any], session: bytes) -> tuple[bytes, bool]:
        """What one request is answered with, and whether its stream stays open."""
        method, mid, params = message.get("method"), message.get("id"), message.get("params") or {}
        if mid is None or method is None:
            return ACCEPTED, False
        modern = META + "protocolVersion" in (params.get("_meta") or {})
        if modern and self.legacy:
            return self.reply({"id": mid, "error": {"code": -32600, "message": "Bad Request"}}, status=b"400"), False
        if session and self.legacy and int(session) != self.sessions:
            return GONE, False
        tail: dict[str, Any] = {"resultType": "complete"} if modern else {}
        cached = {"ttlMs": 60000, "cacheScope": "private"} if modern else {}
        if method == "initialize" and self.legacy:
            self.sessions += 1
            self.end()
            said: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES}
            said["serverInfo"] = self.info()
            head = b"Mcp-Session-Id: %d\r\n" % self.sessions
            return self.reply({"id": mid, "result": said}, head), False
        if method == "server/discover" and not self.legacy:
            self.end()
            said = {"supportedVersions": [MODERN], "capabilities": CAPABILITIES, **cached, **tail}
            return self.reply({"id": mid, "result": {**said, "_meta": {META + "serverInfo": self.info()}}}), False
        if method == "subscriptions/listen" and not self.legacy:
            tag = {META + "subscriptionId": mid}
            accepted = {"notifications": params.get("notifications", {}), "_meta": tag}
            note = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": accepted}
            return STREAM + b"data: %b\n\n" % json.dumps(note).encode(), True
        if method == "tools/list":
            self.fleet.record.listed.add(self.number)
            return self.reply({"id": mid, "result": {"tools": [TOOL], **cached, **tail}}), False
        if method == "tools/call":
            text = str(params.get("arguments", {}).get("text", ""))
            return self.reply({"id": mid, "result": {"content": [{"type": "text", "text": text}], **tail}}), False
        if method == "ping":
            return self.reply({"id": mid, "result": tail}), False
        return self.reply({"id": mid, "error": {"code": -32601, "message": "Method not found"}}), False

    def info(self) -> dict[str, str]:
        return {"name": f"far{self.number}", "version": "1"}

    @staticmethod
    def reply(message: dict[str, Any], head: bytes = b"", status: bytes = b"200") -> bytes:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        kind = b"Content-Type: application/json\r\n"
        return b"HTTP/1.1 %b Said\r\n%b%bContent-Length: %d\r\n\r\n%b" % (status, kind, head, len(body), body)


class Connection(asyncio.Protocol):
    """One connection to one of them."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.received = bytearray()
        self.late: list[asyncio.TimerHandle] = []
        self.doomed = self.attempts = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server.open.add(self)
        fleet = self.server.fleet
        if fleet.away:
            self.doomed = True
            self.late.append(fleet.loop.call_later(fleet.latency, self.transport.abort))

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.open.discard(self)
        if self.attempts:
            self.server.fleet.record.end()
        for handle in self.late:
            handle.cancel()
        self.late.clear()
        if not self.server.open:
            self.server.end()

    def data_received(self, data: bytes) -> None:
        if self.doomed:
            self._seen(data)
            return
        received = self.received
        received += data
        while (end := received.find(b"\r\n\r\n")) >= 0:
            head = bytes(received[:end])
            length = int(header(head, b"content-length") or b"0")
            if len(received) < end + 4 + length:
                return
            body = bytes(received[end + 4 : end + 4 + length])
            del received[: end + 4 + length]
            self._request(head, body)

    def _seen(self, data: bytes) -> None:
        """What came for nothing."""
        self.received += data
        if not self.attempts and any(b'"%b"' % one.encode() in self.received for one in BEGINS):
            self.attempts = True
            self.server.fleet.record.begin()
        elif data.startswith(b"GET") or b'"method":' in data:
            self.server.fleet.record.other()

    def _request(self, head: bytes, body: bytes) -> None:
        server, fleet = self.server, self.server.fleet
        message = json.loads(body) if body else {}
        # One that is connected may be asked the same to see whether it is there.
        if message.get("method") in BEGINS and server.number not in fleet.record.listed:
            server.begin()
        elif head.startswith(b"GET") or message.get("method") == "subscriptions/listen":
            fleet.record.other()
        self.late.append(fleet.loop.call_later(fleet.latency, self._say, head, message))

    def _say(self, head: bytes, message: dict[str, Any]) -> None:
        self.late.pop(0)
        session = header(head, b"mcp-session-id")
        if head.startswith(b"GET"):
            known = bool(session) and int(session) == self.server.sessions
            self.transport.write(STREAM + b": open\n\n" if known else GONE)
        elif head.startswith(b"DELETE"):
            self.transport.write(EMPTY)
        else:
            self.transport.write(self.server.answer(message, session)[0])


def header(head: bytes, name: bytes) -> bytes:
    """The value of a header, b"" = it is not there."""
    at = head.lower().find(b"\r\n" + name + b":")
    return head[at + len(name) + 3 :].split(b"\r\n", 1)[0].strip() if at >= 0 else b""


class Fleet:
    """All of them."""

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.away = False
        self.record = Record()
        self.loop = asyncio.get_running_loop()
        self.servers: list[Server] = []

    def go(self) -> None:
        """Away: whatever was under way has failed."""
        self.away = True
        for server in self.servers:
            server.end()
            server.sessions += 1  # it will not know the one that was
            for connection in list(server.open):
                for handle in connection.late:
                    handle.cancel()
                connection.late.clear()
                connection.transport.abort()
        self.record.listed.clear()

    def come(self) -> None:
        """Back: those that are waiting to be reset are reset."""
        for server in self.servers:
            for connection in list(server.open):
                connection.transport.abort()
        self.loop.call_soon(setattr, self, "away", False)

    def step(self) -> None:
        self.record.step()
        self.loop.call_later(STEP, self.step)


async def serve(count: int, latency: float) -> None:
    """Until standard input ends."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    fleet = Fleet(latency)
    ports = []
    for number in range(count):
        one = Server(fleet, number)
        fleet.servers.append(one)
        listener = await fleet.loop.create_server(lambda one=one: Connection(one), "127.0.0.1", 0)  # type: ignore[misc]
        ports.append(listener.sockets[0].getsockname()[1])
    print(json.dumps(ports), flush=True)
    fleet.step()
    over = asyncio.Event()

    def heard() -> None:
        data = os.read(0, 4096)
        if not data:
            over.set()
        for word in data.split():
            if word == b"away":
                fleet.go()
            elif word == b"back":
                fleet.come()
            else:
                record = fleet.record
                said = {name: getattr(record, name) for name in ("begun", "most", "others", "connected")}
                print(json.dumps(said), flush=True)

    fleet.loop.add_reader(0, heard)
    await over.wait()


if __name__ == "__main__":
    try:
        asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
    except KeyboardInterrupt:
        pass

"""Owns one server that lies when it is told to: over stdio, Streamable HTTP, HTTP+SSE or WebSocket, in either era.

It must not know who attacks it. `python -m tests.e2e.chaos.liar KIND ERA FOLDER NAME` (FOLDER `-` = $CHAOS_FOLDER); a
server at a URL writes its port to FOLDER/NAME.port, and ends with its standard input. FOLDER/NAME.mood holds its lie of
now: what it says, whether only to calls, and until when (monotonic seconds).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
TOOL = {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}
Message = dict[str, Any]
#: A lie is made of bytes of a message, or of pauses in seconds, or of these.
DIE, SILENCE = "die", "silence"
Step = bytes | float | str
#: Lies that any transport can tell, and those of HTTP alone.
LIES = (
    "wrong-id", "string-id", "twice", "stale", "garbage", "bytes", "neither", "half", "slow", "silent", "noise",
    "error", "big", "die", "asks", "odd-result",
)  # fmt: skip
HTTP_LIES = ("status-500", "status-503", "status-404", "html", "empty", "cut-stream", "half-body", "reset", "dribble")


class Liar:
    """What one server says."""

    def __init__(self, era: str, folder: Path, name: str) -> None:
        self.era, self.name = era, name
        self._mood = folder / f"{name}.mood"
        self._last = "nothing yet"
        with (folder / f"{name}.starts").open("a") as file:
            file.write(f"{os.getpid()}\n")

    def mood(self, method: str) -> str:
        """The lie of now, "" = none."""
        try:
            mood = json.loads(self._mood.read_text())
        except (OSError, ValueError):
            return ""
        if time.monotonic() > mood["until"] or (mood["calls"] and method != "tools/call"):
            return ""
        return str(mood["what"])

    def honest(self, message: Message) -> Message | None:
        """The right answer, None = none."""
        method, params, mid = message.get("method"), message.get("params") or {}, message.get("id")
        if mid is None or method is None:
            return None
        modern = META + "protocolVersion" in (params.get("_meta") or {})
        if method == "initialize" and self.era != "modern":
            return _result(mid, {**self._says(), "protocolVersion": "2025-11-25", "serverInfo": self._info()})
        if method == "server/discover" and self.era == "modern":
            return _result(mid, {**self._says(), "supportedVersions": [MODERN]}, self._info(), cached=True)
        if modern != (self.era == "modern") or method not in ("tools/list", "tools/call", "ping"):
            return {"jsonrpc": "2.0", "id": mid, "error": {"code": -32601, "message": "Method not found"}}
        info = self._info() if modern else None
        if method == "tools/list":
            return _result(mid, {"tools": [TOOL]}, info, cached=modern)
        if method == "ping":
            return _result(mid, {}, info)
        text = str(params.get("arguments", {}).get("text", ""))
        return _result(mid, {"content": [{"type": "text", "text": text}]}, info)

    def steps(self, message: Message) -> list[Step]:
        """What is said to one message, messages without line ends."""
        right = self.honest(message)
        lie = self.mood(str(message.get("method")))
        if lie and message.get("method") is None:
            lie = ""
        if lie == DIE:
            return [DIE]
        if right is None:
            return []
        data, mid = dumped(right), right["id"]
        before, self._last = self._last, data.decode()
        match lie:
            case "wrong-id":
                return [dumped({**right, "id": 10**9 + int(mid)})]
            case "string-id":
                return [dumped({**right, "id": str(mid)})]
            case "twice":
                return [data, data]
            case "stale":
                return [before.encode(), data] if before.startswith("{") else [data]
            case "garbage":
                return [b"this is no JSON {", data]
            case "bytes":
                return [b"\xff\xfe\x00garbage\x00", data]
            case "neither":
                return [dumped({"jsonrpc": "2.0", "id": mid})]
            case "half":
                return [data[: len(data) // 2], DIE]
            case "slow":
                return [0.3, data]
            case "silent":
                return [SILENCE]
            case "noise":
                note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
                return [*[dumped(note)] * 200, data]
            case "error":
                error = {"code": -32603, "message": f"{self.name} says that it is out of order"}
                return [dumped({"jsonrpc": "2.0", "id": mid, "error": error})]
            case "odd-result":
                return [dumped({"jsonrpc": "2.0", "id": mid, "result": [1, 2, 3]})]
            case "big" if message.get("method") == "tools/call":
                right["result"]["content"].append({"type": "text", "text": "x" * 1_000_000})
                return [dumped(right)]
            case "asks":
                ask = {"jsonrpc": "2.0", "id": f"q{mid}", "method": "sampling/createMessage", "params": {}}
                return [dumped(ask), data]
        return [data]

    def _says(self) -> Message:
        return {"capabilities": {"tools": {"listChanged": False}}}

    def _info(self) -> Message:
        return {"name": self.name, "version": "1"}


def _result(mid: Any, result: Message, modern: Message | None = None, *, cached: bool = False) -> Message:
    if modern is not None:
        result = {"resultType": "complete", "_meta": {META + "serverInfo": modern}, **result}
        if cached:
            result |= {"ttlMs": 0, "cacheScope": "private"}
    return {"jsonrpc": "2.0", "id": mid, "result": result}


def dumped(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


# --- stdio ------------------------------------------------------------------------------------------------------------


def on_stdio(liar: Liar) -> None:
    """Until the input ends."""
    for line in sys.stdin.buffer:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        steps = liar.steps(message)
        for at, step in enumerate(steps):
            if isinstance(step, float):
                time.sleep(step)
            elif step == DIE:
                os._exit(3)
            elif isinstance(step, bytes):
                half = steps[at + 1 : at + 2] == [DIE]
                _write(step if half else step + b"\n")


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


# --- at a URL ---------------------------------------------------------------------------------------------------------


async def on_http(liar: Liar, serve: Callable[[int], Awaitable[None]]) -> None:
    """Streamable HTTP, or HTTP+SSE where the era is `sse`."""
    from tests.fakes.ordinary_mcp import OrdinaryMcp
    from tests.fakes.rude_http import CLOSE, RESET, Reply, Request, RudeHttp, body, empty, event, raw, slowly, stream

    era = liar.era
    mcp = OrdinaryMcp(era=era, standing=True)

    def answer(request: Request) -> Reply:
        del server.requests[:-10]
        lie = liar.mood(request.key)
        message = request.message
        if not lie or request.method != "POST" or not isinstance(message, dict) or message.get("id") is None:
            return mcp(request)
        if lie.startswith("status-"):
            return empty(int(lie[7:]))
        if lie == "html":
            return body(b"<html><body>Welcome to the Wi-Fi of this place</body></html>", "text/html")
        if lie == "reset":
            return raw(RESET)
        if lie == "empty":
            return body(b"")
        if era == "sse":
            for step in liar.steps(message) if mcp.feeds else ():
                if isinstance(step, bytes):
                    mcp.feeds[-1].send(event(step.decode("utf-8", "replace"), name="message"))
                elif step == DIE:
                    mcp.feeds[-1].end()
            return body(b"Accepted", "text/plain", status=202)
        if lie == "half-body":
            return body(b'{"jsonrpc":"2.0","id":').with_headers(("Content-Length", "1000")).after(CLOSE)
        if lie == "cut-stream":
            return stream(event(b'{"jsonrpc":"2.0","method":"notifications/message"}'), CLOSE)
        if message.get("method") != "tools/call":
            return mcp(request)
        steps = liar.steps(message)
        if DIE in steps:
            return raw(RESET)
        if SILENCE in steps:
            return body(b"").after(60.0, RESET)
        said = [step for step in steps if isinstance(step, bytes)]
        waits = tuple(step for step in steps if isinstance(step, float))
        if lie == "dribble":
            return stream(*slowly(event(said[-1]), 40, 0.005))
        if len(said) == 1:
            return body(said[0]).after(*waits)
        return stream(*[event(one) if one.startswith(b"{") else b"data: " + one + b"\n\n" for one in said])

    async with RudeHttp(answer) as server:
        await serve(server.port)


async def on_ws(liar: Liar, serve: Callable[[int], Awaitable[None]]) -> None:
    import asyncio

    from websockets.asyncio.server import ServerConnection

    from tests.fakes.rude_websocket import RudeWebSocket

    async def answer(connection: ServerConnection, said: str) -> None:
        del server.messages[:-10], server.handshakes[:-10], server.closes[:-10]
        steps = liar.steps(json.loads(said))
        for at, step in enumerate(steps):
            if isinstance(step, float):
                await asyncio.sleep(step)
            elif step == DIE:
                connection.transport.abort()
                return
            elif isinstance(step, bytes) and steps[at + 1 : at + 2] != [DIE]:
                await connection.send(step.decode("utf-8", "replace"), text=True)

    async with RudeWebSocket(answer) as server:
        await serve(int(server.url.rpartition(":")[2].partition("/")[0]))


def main() -> None:
    kind, era, where, name = sys.argv[1:5]
    folder = Path(os.environ["CHAOS_FOLDER"] if where == "-" else where)
    liar = Liar(era, folder, name)
    if kind == "stdio":
        return on_stdio(liar)
    import asyncio

    async def serve(port: int) -> None:
        draft = folder / f"{name}.port.new"
        draft.write_text(str(port))
        draft.replace(folder / f"{name}.port")
        over = asyncio.Event()
        asyncio.get_running_loop().add_reader(0, lambda: over.set() if not os.read(0, 1) else None)
        await over.wait()

    asyncio.run(on_ws(liar, serve) if kind == "ws" else on_http(liar, serve))
    return None


if __name__ == "__main__":
    main()

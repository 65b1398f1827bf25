"""Owns the upstream of every measurement: the leanest stdio MCP server that Python can start, in both eras.

It must not know the gateways in front of it, nor import what `python -I -S` does not have.

    python -I -S echo_server.py [--name NAME] [--tools N] [--legacy] [--more] [--makes-tasks]

With `--legacy` it knows nothing of the modern era. Tools: `echo {text}` gives the text, as does `read {text}`, which
says that it only reads; `link {uri}` gives a link to it; `progress {text}` tells its progress once, to whoever asked
for it, and gives the text; `blob {size}` gives SIZE bytes of text; `rows {size}` gives about SIZE bytes of structured
rows; `sleep {ms}` answers later and out of order; `flood {seconds, kind}` writes lines that nobody asked for (kind
`progress`: notifications of an unknown token, `junk`: no JSON at all) and then answers; fillers up to N tools.

With `--more` there are, beyond N: `loose`, whose schema says nothing; `again`, which says that it is idempotent;
`shaped` and `unshaped`, with structured content, with and without an outputSchema; `moody`, which fails for the text
"fail"; all of them take {text} and give it; and `leave`, which ends the process. With `--makes-tasks` it says that it
has the extension for tasks, and makes none.
"""

from __future__ import annotations

import os
import select
import sys
import time
from heapq import heappop, heappush
from json import dumps, loads
from json.encoder import encode_basestring_ascii as quote

TYPE_CHECKING = False  # `typing` itself would be a tenth of this process's start
if TYPE_CHECKING:
    from typing import Any

#: Newest first. 2026-07-28 is served without a handshake, per request; the others by `initialize`.
VERSIONS = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"]
TASKS: dict[str, object] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
TEXT = {"text": {"type": "string"}}
MODERN_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = {"tools": {"listChanged": True}}
PROGRESS = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}\n'
FLOODS = {
    "progress": b'{"jsonrpc":"2.0","method":"notifications/progress",'
    b'"params":{"progressToken":"nobody","progress":1}}\n' * 500,
    "junk": b"x\n" * 16384,
}


def describe(name: str, properties: dict[str, Any], description: str) -> dict[str, Any]:
    """One entry of tools/list."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": description, "inputSchema": schema}


def tools(count: int, with_more: bool = False) -> list[dict[str, Any]]:
    """The eight working tools and as many plausible fillers as make COUNT; never fewer than `echo`, `blob`, `sleep`."""
    listed = [
        describe("echo", {"text": {"type": "string"}}, "Return the text."),
        describe("blob", {"size": {"type": "integer"}}, "Return SIZE bytes of text."),
        describe("sleep", {"ms": {"type": "number"}}, "Answer after MS milliseconds."),
        describe("rows", {"size": {"type": "integer"}}, "Return about SIZE bytes of structured rows."),
        describe(
            "flood",
            {"seconds": {"type": "number"}, "kind": {"type": "string", "enum": list(FLOODS)}},
            "Write lines that nobody asked for, then answer.",
        ),
        describe("link", {"uri": {"type": "string"}}, "Return a link to URI."),
        describe("progress", {"text": {"type": "string"}}, "Tell the progress once, then return the text."),
        describe("read", {"text": {"type": "string"}}, "Return the text.") | {"annotations": {"readOnlyHint": True}},
    ]
    more = [
        {"name": "loose", "description": "Return the text.", "inputSchema": {"type": "object"}},
        describe("again", TEXT, "Return the text.") | {"annotations": {"idempotentHint": True}},
        describe("shaped", TEXT, "Return the text.")
        | {"outputSchema": {"type": "object", "properties": TEXT, "required": ["text"]}},
        describe("unshaped", TEXT, "Return the text."),
        describe("moody", TEXT, "Return the text, or fail."),
        describe("leave", {}, "End."),
    ]
    filler = {
        "path": {"type": "string", "description": "The path to work on, absolute or relative."},
        "limit": {"type": "integer", "description": "At most so many entries are returned."},
    }
    for number in range(len(listed), count):
        text = f"Filler tool number {number}: does a plausible thing to a path, with a plausible limit."
        listed.append(describe(f"tool_{number:03d}", filler, text))
    return listed[: max(count, 3)] + (more if with_more else [])


def blob(size: int) -> str:
    """A tool result, left open at its end, with SIZE bytes of text."""
    return '{"content":[{"type":"text","text":"' + ("0123456789abcdef" * (size // 16 + 1))[:size] + '"}]'


def rows(size: int) -> str:
    """A tool result, left open at its end, with about SIZE bytes of small objects."""
    row = '{"id":%d,"name":"row %d","path":"/srv/data/%d.json","ok":true,"score":%d.5,"tags":["a","b"]}'
    first = 10_000  # ids of one width: the size is then what was asked for, up to one row
    count = size // (len(row % (first, first, first, first)) + 1) + 1
    body = ",".join([row % (number, number, number, number) for number in range(first, first + count)])
    return '{"content":[{"type":"text","text":"rows"}],"structuredContent":{"rows":[' + body + "]}"


class EchoServer:
    """Answers one message at a time; the work of a large result is done once and kept."""

    def __init__(
        self, name: str, count: int, legacy: bool = False, with_more: bool = False, makes_tasks: bool = False
    ) -> None:
        self.legacy = legacy
        self.discovered = CAPABILITIES | TASKS if makes_tasks else CAPABILITIES
        self.info = {"name": name, "version": "1.0.0"}
        self.listing = dumps({"tools": tools(count, with_more)})[:-1]
        self.large: dict[tuple[str, int], str] = {}

    def result_of(self, name: str, arguments: dict[str, Any]) -> str:
        """A tool's result, its closing brace still missing."""
        if name in ("echo", "progress", "read", "loose", "again"):
            return '{"content":[{"type":"text","text":' + quote(arguments.get("text", "")) + "}]"
        if name in ("shaped", "unshaped"):
            text = quote(arguments.get("text", ""))
            return '{"content":[{"type":"text","text":' + text + '}],"structuredContent":{"text":' + text + "}"
        if name == "moody":
            failed = ',"isError":true' if arguments["text"] == "fail" else ""
            return '{"content":[{"type":"text","text":' + quote(arguments["text"]) + "}]" + failed
        if name == "leave":
            raise SystemExit(1)
        if name == "link":
            return '{"content":[{"type":"resource_link","name":"x","uri":' + quote(arguments.get("uri", "")) + "}]"
        if name in ("blob", "rows"):
            key = (name, int(arguments["size"]))
            if key not in self.large:
                self.large.clear()
                self.large[key] = (blob if name == "blob" else rows)(key[1])
            return self.large[key]
        return '{"content":[{"type":"text","text":"ok"}]'

    def answer(self, message: dict[str, Any]) -> tuple[str | None, float, str]:
        """The reply without its line's end (None: a notification), the seconds it waits, and what flood comes first."""
        method, request_id = message.get("method"), message.get("id")
        if method is None or request_id is None:
            return None, 0.0, ""
        params = message.get("params") or {}
        meta = params.get("_meta") or {}
        modern = MODERN_KEY in meta and not self.legacy
        tail = ',"resultType":"complete"}' if modern else "}"
        delay, flood, first = 0.0, "", ""
        if method == "tools/call":
            name, arguments = str(params.get("name")), params.get("arguments") or {}
            if name == "sleep":
                delay = float(arguments.get("ms", 0)) / 1000.0
            elif name == "flood":
                delay, flood = float(arguments["seconds"]), arguments["kind"]
            elif name == "progress" and "progressToken" in meta:
                first = PROGRESS % dumps(meta["progressToken"])
            result = self.result_of(name, arguments) + tail
        elif method == "tools/list":
            result = self.listing + (',"ttlMs":60000,"cacheScope":"private"' if modern else "") + tail
        elif method == "initialize":
            asked = params.get("protocolVersion")
            version = asked if asked in VERSIONS[1:] else VERSIONS[1]
            result = dumps({"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": self.info})
        elif method == "server/discover" and not self.legacy:
            result = dumps(
                {
                    "supportedVersions": VERSIONS,
                    "capabilities": self.discovered,
                    "resultType": "complete",
                    "ttlMs": 60000,
                    "cacheScope": "private",
                    "_meta": {"io.modelcontextprotocol/serverInfo": self.info},
                }
            )
        elif method == "ping":
            result = "{" + tail.lstrip(",")
        else:
            error = '"error":{"code":-32601,"message":"Method not found"}'
            return f'{{"jsonrpc":"2.0","id":{dumps(request_id)},{error}}}', 0.0, ""
        return f'{first}{{"jsonrpc":"2.0","id":{dumps(request_id)},"result":{result}}}', delay, flood


def write(data: bytes) -> None:
    """All of DATA to standard output, blocking."""
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def pour(flood: str, seconds: float) -> None:
    """Write the lines of FLOOD for SECONDS, as fast as they are taken."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        write(FLOODS[flood])


def serve(server: EchoServer) -> None:
    """Until standard input ends: all lines of one read are answered by one write."""
    timers: list[tuple[float, str]] = []
    parts: list[bytes] = []
    while True:
        if timers:
            ready = select.select([0], [], [], max(0.0, timers[0][0] - time.monotonic()))[0]
            now = time.monotonic()
            while timers and timers[0][0] <= now:
                write(heappop(timers)[1].encode())
            if not ready:
                continue
        chunk = os.read(0, 1 << 20)
        if not chunk:
            return
        parts.append(chunk)
        if b"\n" not in chunk:
            continue
        lines = b"".join(parts).split(b"\n")
        rest = lines.pop()
        parts = [rest] if rest else []
        out: list[str] = []
        for line in lines:
            if not line:
                continue
            text, delay, flood = server.answer(loads(line))
            if text is None:
                continue
            if flood:
                pour(flood, delay)
            elif delay:
                heappush(timers, (time.monotonic() + delay, text + "\n"))
                continue
            out.append(text + "\n")
        if out:
            write("".join(out).encode())


def option(name: str, default: str) -> str:
    """The word after NAME on the command line; argparse would cost more than all the rest of the start."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


if __name__ == "__main__":
    try:
        flags = (flag in sys.argv for flag in ("--legacy", "--more", "--makes-tasks"))
        serve(EchoServer(option("--name", "echo"), int(option("--tools", "5")), *flags))
    except (KeyboardInterrupt, BrokenPipeError):
        pass

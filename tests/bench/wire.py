"""Owns the load generator: an MCP client of either era, its wire over two descriptors, and the closed loop of calls.

It must not know which gateway answers, nor how it was started. One thread, about 5 us of Python a call.
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import time
from pathlib import Path
from typing import Any

REQUEST_ID = re.compile(rb'"id"\s*:\s*(\d+)')
LEGACY_VERSION = "2025-11-25"
#: What every modern request carries.
MODERN_VERSION = "2026-07-28"
MODERN_META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "mcphub-bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
#: What stands for the call's own number, 16 hexadecimal digits, in the `_meta` of a closed loop: a span of its trace.
NUMBER = "<number of call>"
#: A call that nobody answers for this long fails its phase.
STALL_SECONDS = 30.0


class BenchError(Exception):
    """A target did not start, closed its stream, answered wrongly, or did not answer in time."""


def reply_id(line: bytes) -> int | None:
    """The id of a reply without parsing it: it stands before or behind the result, whatever the size between."""
    found = REQUEST_ID.search(line[:96]) or REQUEST_ID.search(line[-96:])
    return int(found.group(1)) if found else None


class Client:
    """An MCP client of one era: `start` queues a message, `flush` writes, `poll` gives finished (id, reply).

    How messages travel is its subclasses'. `aim` is told the method, and the tool's name, of what is started next.
    """

    version = LEGACY_VERSION
    #: What it calls itself in `initialize`.
    name = "mcphub-bench"

    def __init__(self, era: str = "legacy") -> None:
        self.era = era
        self.last_id = 0

    def aim(self, method: str, name: str = "") -> None:
        """What is started from now on: a wire that says it outside the message too needs to know."""

    def start(self, body: bytes) -> None:
        """Queue one message, given without its line end."""
        raise NotImplementedError

    def flush(self) -> None:
        """Write what is queued, as far as the peer takes it now."""
        raise NotImplementedError

    def poll(self, timeout: float = 5.0) -> list[tuple[int, bytes]]:
        """Wait at most TIMEOUT seconds, read once, and give the replies that are complete, in order of arrival."""
        raise NotImplementedError

    def close(self) -> None:
        """Give everything back; the target sees that the client has gone."""
        raise NotImplementedError

    def params(self, given: dict[str, Any]) -> dict[str, Any]:
        """GIVEN with the `_meta` of the client's era."""
        if self.era != "modern":
            return given
        return given | {"_meta": MODERN_META | given.get("_meta", {})}

    def request_parts(self, method: str, params: dict[str, Any]) -> tuple[bytes, bytes]:
        """A request, in the bytes before and after its id; `aim` is called for it."""
        self.aim(method, str(params.get("name", "")))
        body = json.dumps(self.params(params)).encode()
        return b'{"jsonrpc":"2.0","id":', b',"method":"%s","params":%s}' % (method.encode(), body)

    def request_line(self, method: str, params: dict[str, Any] | None = None, timeout: float = STALL_SECONDS) -> bytes:
        """One request, answered: the reply's bytes as they came. Raises BenchError after TIMEOUT seconds."""
        self.last_id += 1
        request_id = self.last_id
        before, after = self.request_parts(method, params or {})
        self.start(before + b"%d" % request_id + after)
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            self.flush()
            for found, line in self.poll(0.2):
                if found == request_id:
                    return line
        raise BenchError(f"no reply to {method} in {timeout:.0f} s")

    def request(self, method: str, params: dict[str, Any] | None = None, timeout: float = STALL_SECONDS) -> Any:
        """One request, answered: its result. Raises BenchError for an error object as well."""
        reply = json.loads(self.request_line(method, params, timeout))
        if "result" not in reply:
            raise BenchError(f"{method} was refused: {str(reply)[:300]}")
        return reply["result"]

    def handshake(self) -> None:
        """`initialize` and its notification, or `server/discover`."""
        if self.era == "modern":
            self.request("server/discover")
            return
        client = {"name": self.name, "version": "1"}
        self.request("initialize", {"protocolVersion": self.version, "capabilities": {}, "clientInfo": client})
        self.aim("notifications/initialized")
        self.start(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        self.flush()

    def list_tools(self) -> list[dict[str, Any]]:
        """Every page of tools/list."""
        listed: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            page = self.request("tools/list", {"cursor": cursor} if cursor else {})
            listed += page["tools"]
            cursor = page.get("nextCursor")
            if not cursor:
                return listed

    def count_tools(self) -> int:
        """How many tools are listed now, without the cost of parsing them (paged lists are parsed)."""
        line = self.request_line("tools/list")
        if b'"nextCursor"' in line[-400:] or b'"nextCursor"' in line[:400]:
            return len(self.list_tools())
        return line.count(b'"inputSchema"')

    def wait_for_tools(self, want: int, timeout: float) -> None:
        """Until WANT tools are listed. Raises BenchError, naming how many there were, after TIMEOUT seconds."""
        end = time.monotonic() + timeout
        while (count := self.count_tools()) < want:
            if time.monotonic() > end:
                raise BenchError(f"only {count} of {want} tools were listed after {timeout:.0f} s")
            pause = time.monotonic() + 0.01
            while (left := pause - time.monotonic()) > 0:  # news that arrive meanwhile are read, not reacted to
                self.poll(left)

class StreamClient(Client):
    """A client on two descriptors, which it owns: newline-delimited JSON."""

    def __init__(self, read_fd: int, write_fd: int, era: str = "legacy") -> None:
        super().__init__(era)
        self.read_fd, self.write_fd = read_fd, write_fd
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)
        self.out: list[bytes] = []
        self.parts: list[bytes] = []
        self.pending = memoryview(b"")
        self.poller = select.poll()
        self.poller.register(read_fd, select.POLLIN)

    def start(self, body: bytes) -> None:
        """Queue one message, given without its line end."""
        self.out.append(body)
        self.out.append(b"\n")

    def flush(self) -> None:
        """Write what is queued, as far as the peer takes it now."""
        if self.out:
            data = b"".join(self.out)
            self.out.clear()
            self.pending = memoryview(bytes(self.pending) + data if self.pending else data)
        while self.pending:
            try:
                written = os.write(self.write_fd, self.pending)
            except BlockingIOError:
                return
            except OSError as error:
                raise BenchError(f"cannot write to the target: {error}") from error
            self.pending = self.pending[written:]

    def poll(self, timeout: float = 5.0) -> list[tuple[int, bytes]]:
        """Wait at most TIMEOUT seconds, read once, and give the replies that are complete, in order of arrival."""
        if self.pending:
            both = select.poll()
            both.register(self.write_fd, select.POLLOUT)
            both.register(self.read_fd, select.POLLIN | (select.POLLOUT if self.write_fd == self.read_fd else 0))
            both.poll(timeout * 1000)
            self.flush()
        elif not self.poller.poll(timeout * 1000):
            return []
        try:
            chunk = os.read(self.read_fd, 1 << 20)
        except BlockingIOError:
            return []
        except ConnectionResetError:
            chunk = b""
        if not chunk:
            raise BenchError("the target closed the stream")
        if b"\n" not in chunk:
            self.parts.append(chunk)
            return []
        if self.parts:
            self.parts.append(chunk)
            chunk = b"".join(self.parts)
        lines = chunk.split(b"\n")
        rest = lines.pop()
        self.parts = [rest] if rest else []
        done = []
        for line in lines:
            if len(line) < 4000 and b'"method"' in line:
                self.take_message(line)
                continue
            found = reply_id(line)
            if found is not None:
                done.append((found, line))
        return done

    def take_message(self, line: bytes) -> None:
        """Answer a request of the other side, as a client that has nothing to offer; drop its notifications."""
        message = json.loads(line)
        if "id" in message and "method" in message:
            result: dict[str, Any] = {"roots": []} if message["method"] == "roots/list" else {}
            self.start(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())
            self.flush()

    def close(self) -> None:
        """Give the descriptors back; the target sees the end of its input."""
        for descriptor in {self.read_fd, self.write_fd}:
            os.close(descriptor)


def connect_unix(path: Path, era: str = "legacy") -> StreamClient:
    """A client on the Unix socket PATH."""
    peer = socket.socket(socket.AF_UNIX)
    try:
        peer.connect(str(path))
    except OSError as error:
        peer.close()
        raise BenchError(f"cannot connect to {path.name}: {error}") from error
    descriptor = peer.detach()
    return StreamClient(descriptor, descriptor, era)


def start_call(client: Client, tool: str, arguments: dict[str, Any]) -> int:
    """Send one call without waiting for it; gives its id."""
    before, after = client.request_parts("tools/call", {"name": tool, "arguments": arguments})
    client.last_id += 1
    client.start(before + b"%d" % client.last_id + after)
    client.flush()
    return client.last_id


def wait_reply(client: Client, request_id: int, timeout: float) -> bytes:
    """The reply to a call that `start_call` sent. Raises BenchError after TIMEOUT seconds."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        for found, line in client.poll(0.2):
            if found == request_id:
                return line
    raise BenchError(f"no reply to a call in {timeout:.0f} s")


def closed_loop(
    client: Client,
    tool: str,
    arguments: dict[str, Any],
    *,
    concurrency: int,
    seconds: float,
    most_calls: int,
    least_bytes: int,
    meta: dict[str, Any] | None = None,
) -> tuple[list[int], int]:
    """Keep CONCURRENCY calls in flight for SECONDS; gives each call's latency and the time passed, in ns.

    TOOL is a tool's name, or a method with a slash in it, whose params ARGUMENTS are. META goes with a tool's call;
    `NUMBER` in it is another number in each.
    Raises BenchError for an error, for a reply under LEAST_BYTES, and when nothing comes for `STALL_SECONDS`.
    """
    now = time.perf_counter_ns
    if "/" in tool:
        before, after = client.request_parts(tool, arguments)
    else:
        params = {"name": tool, "arguments": arguments} | ({"_meta": meta} if meta else {})
        before, after = client.request_parts("tools/call", params)
    head, numbered, tail = after.partition(NUMBER.encode())
    latencies: list[int] = []
    sent: dict[int, int] = {}
    last = client.last_id
    limit = last + most_calls
    first = b""
    begun = stall = now()
    end = begun + int(seconds * 1e9)
    for _ in range(min(concurrency, most_calls)):
        last += 1
        sent[last] = now()
        if numbered:
            after = head + b"%016x" % last + tail
        client.start(before + b"%d" % last + after)
    client.last_id = last
    client.flush()
    while sent:
        done = client.poll(1.0)
        if not done:
            if now() - stall > STALL_SECONDS * 1e9:
                raise BenchError(f"{len(sent)} calls of {tool} without a reply for {STALL_SECONDS:.0f} s")
            continue
        for found, line in done:
            at = stall = now()
            started = sent.pop(found, None)
            if started is None:
                continue
            latencies.append(at - started)
            if len(line) < least_bytes or b'"error"' in line[:200] or b'"isError":true' in line[-80:]:
                client.last_id = last
                raise BenchError(f"{tool} answered {line[:300]!r}")
            first = first or line
            if at < end and last < limit:
                last += 1
                sent[last] = now()
                if numbered:
                    after = head + b"%016x" % last + tail
                client.start(before + b"%d" % last + after)
        client.flush()
    client.last_id = last
    elapsed = now() - begun
    if "/" not in tool:
        check_result(tool, arguments, json.loads(first))
    return latencies, elapsed


def check_result(tool: str, arguments: dict[str, Any], reply: dict[str, Any]) -> None:
    """A fast wrong answer is not an answer: the first reply of a loop is compared. Raises BenchError."""
    result = reply.get("result", {})
    text = result.get("content", [{}])[0].get("text", "")
    right = not result.get("isError", False)
    if "text" in arguments:
        right = right and text == arguments["text"]
    elif tool.endswith("blob"):
        right = right and len(text) == arguments["size"]
    if not right:
        raise BenchError(f"{tool} answered {str(reply)[:300]}")

"""Owns the load generator's wire over HTTP: keep-alive connections of its own, one request on each at a time.

It must not know which gateway answers. Streamable HTTP in both eras (MCP spec 2025-11-25 and 2026-07-28), and HTTP with
SSE of 2024-11-05 for a peer that has nothing newer. One thread, about 20 us of Python a call.
"""

from __future__ import annotations

import functools
import re
import select
import socket
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from .wire import MODERN_VERSION, BenchError, Client, reply_id

CONNECT_SECONDS = 5.0
#: An idle connection is used again for so long; common servers close theirs after 5 s.
KEEP_SECONDS = 1.0
SESSION = re.compile(rb"(?im)^mcp-session-id:\s*(\S+)")
LENGTH = re.compile(rb"(?im)^content-length:\s*(\d+)")
CHUNKED = re.compile(rb"(?im)^transfer-encoding:.*chunked")
EVENTS = re.compile(rb"(?im)^content-type:\s*text/event-stream")


@dataclass(frozen=True, slots=True)
class Head:
    """What the head of an answer says. `length` None = in chunks; `session` b"" = none."""

    status: int
    length: int | None
    events: bool
    session: bytes


@functools.lru_cache(maxsize=256)
def read_head(data: bytes) -> Head:
    """A head without its empty line; answers of one kind and size have the same. Raises BenchError."""
    status = int(data[9:12])
    length: int | None = None
    if CHUNKED.search(data) is None:
        found = LENGTH.search(data)
        if found is None and status not in (202, 204):
            raise BenchError(f"the target answered with neither a length nor chunks: {data[:200]!r}")
        length = int(found[1]) if found is not None else 0
    session = SESSION.search(data)
    return Head(status, length, EVENTS.search(data) is not None, session[1] if session is not None else b"")


@dataclass(slots=True)
class Connection:
    """One socket with what was received on it; `request_id` is that of the request it carries."""

    sock: socket.socket
    received: bytearray = field(default_factory=bytearray)
    request_id: int | None = None
    used: float = 0.0
    broken: bool = False

    def feed(self) -> tuple[Head, bytes] | None:
        """Read once; head and body of the answer when it is whole. Raises BenchError when the target closed early."""
        try:
            chunk = self.sock.recv(1 << 20)
        except ConnectionResetError:
            chunk = b""
        if not chunk:
            self.broken = True
            raise BenchError("the target closed an HTTP connection before its answer")
        self.received += chunk
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = read_head(bytes(self.received[: end + 2]))
        begin = end + 4
        if head.length is not None:
            stop = begin + head.length
            if len(self.received) < stop:
                return None
            body = bytes(self.received[begin:stop])
        else:
            parts, stop, whole = unchunked(self.received, begin)
            if not whole:
                return None
            body = b"".join(parts)
        del self.received[:stop]
        return head, body


def unchunked(data: bytearray, at: int) -> tuple[list[bytes], int, bool]:
    """The chunks from AT on that are complete, where they end, and whether the last one was among them."""
    parts: list[bytes] = []
    while (line := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line].split(b";")[0], 16)
        if len(data) < line + 4 + size:
            break
        if not size:
            return parts, line + 4, True
        parts.append(bytes(data[line + 2 : line + 2 + size]))
        at = line + 4 + size
    return parts, at, False


def messages(events: bytes) -> list[bytes]:
    """The data of each event that is one line of JSON."""
    return [line[5:].strip() for line in events.split(b"\n") if line.startswith(b"data:") and b"{" in line]


class HttpClient(Client):
    """Streamable HTTP: a POST for each message, its answer a document or a stream of events."""

    def __init__(self, url: str, token: str = "", era: str = "legacy") -> None:
        super().__init__(era)
        where = urlsplit(url)
        assert where.hostname is not None and where.port is not None
        self.address = (where.hostname, where.port)
        self.path = where.path + (f"?{where.query}" if where.query else "")
        self.authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        self.session = b""
        self.head = b""
        self.free: list[Connection] = []
        self.busy: dict[int, Connection] = {}
        self.done: list[tuple[int, bytes]] = []
        self.poller = select.epoll()

    def aim(self, method: str, name: str = "") -> None:
        lines = [
            f"POST {self.path} HTTP/1.1\r\nHost: {self.address[0]}:{self.address[1]}\r\n"
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n",
            self.authorization,
        ]
        if self.session:
            lines.append(f"Mcp-Session-Id: {self.session.decode()}\r\n")
        if self.era == "modern":
            lines.append(f"MCP-Protocol-Version: {MODERN_VERSION}\r\nMcp-Method: {method}\r\n")
            lines.append(f"Mcp-Name: {name}\r\n" if name else "")
        elif method != "initialize":
            lines.append(f"MCP-Protocol-Version: {self.version}\r\n")
        self.head = "".join([*lines, "Content-Length: "]).encode()

    def start(self, body: bytes) -> None:
        connection = self.connection()
        connection.request_id = reply_id(body)
        self.busy[connection.sock.fileno()] = connection
        connection.sock.sendall(b"%s%d\r\n\r\n%s" % (self.head, len(body), body))

    def flush(self) -> None:
        """Nothing: what is started is on its way."""

    def connection(self) -> Connection:
        """One that carries nothing, a new one where there is none."""
        while self.free:
            kept = self.free.pop()
            if not kept.broken and time.monotonic() - kept.used < KEEP_SECONDS:
                return kept
            self.drop(kept)
        try:
            sock = socket.create_connection(self.address, CONNECT_SECONDS)
        except OSError as error:
            raise BenchError(f"cannot connect to port {self.address[1]}: {error}") from error
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.poller.register(sock.fileno(), select.EPOLLIN)
        return Connection(sock)

    def drop(self, connection: Connection) -> None:
        """Close it; closing takes it from the poller as well."""
        connection.sock.close()

    def poll(self, timeout: float = 5.0) -> list[tuple[int, bytes]]:
        done: list[tuple[int, bytes]] = []
        for descriptor, _ in self.poller.poll(timeout, 256):
            connection = self.busy.get(descriptor)
            if connection is not None:
                self.read(connection, descriptor, done)
                continue
            for idle in [one for one in self.free if one.sock.fileno() == descriptor]:
                self.free.remove(idle)  # closed by the server while nobody used it
                self.drop(idle)
        return done

    def read(self, connection: Connection, descriptor: int, done: list[tuple[int, bytes]]) -> None:
        """What has come on one busy connection; adds to DONE what is complete with it."""
        found = connection.feed()
        if found is None:
            return
        head, body = found
        del self.busy[descriptor]
        connection.used = time.monotonic()
        self.free.append(connection)
        if head.status >= 400:
            raise BenchError(f"HTTP {head.status}: {body[:300]!r}")
        self.session = self.session or head.session
        if connection.request_id is None:
            return
        if head.events:
            told = messages(body)
            body = told[-1] if told else b""
        if body:
            done.append((connection.request_id, body))

    def handshake(self) -> None:
        super().handshake()
        end = time.monotonic() + CONNECT_SECONDS
        while self.busy and time.monotonic() < end:  # a call must not overtake the notification
            self.poll(0.2)

    def close(self) -> None:
        for connection in [*self.free, *self.busy.values()]:
            self.drop(connection)
        self.free.clear()
        self.busy.clear()
        self.poller.close()


class SseClient(HttpClient):
    """HTTP with SSE of 2024-11-05: replies come on one stream, a POST has an empty answer."""

    version = "2024-11-05"

    def __init__(self, url: str, token: str = "") -> None:
        super().__init__(url, token)
        self.events = bytearray()
        self.chunks = bytearray()
        try:
            self.stream = socket.create_connection(self.address, CONNECT_SECONDS)
        except OSError as error:
            self.poller.close()
            raise BenchError(f"cannot connect to port {self.address[1]}: {error}") from error
        try:
            self.stream.sendall(
                b"GET %s HTTP/1.1\r\nHost: %s:%d\r\nAccept: text/event-stream\r\n\r\n"
                % (self.path.encode(), self.address[0].encode(), self.address[1])
            )
            self.path = self.endpoint()
        except (OSError, BenchError):
            self.stream.close()
            self.poller.close()
            raise
        self.poller.register(self.stream.fileno(), select.EPOLLIN)

    def endpoint(self) -> str:
        """Where messages are posted to: the stream's first event. Raises BenchError where it is no such stream."""
        while b"\r\n\r\n" not in self.chunks:
            self.receive()
        head, _, rest = bytes(self.chunks).partition(b"\r\n\r\n")
        if head[9:12] != b"200" or CHUNKED.search(head) is None:
            raise BenchError(f"no stream of events: {head[:80]!r}")
        self.chunks[:] = rest
        while True:
            for event in self.take():
                if b"event: endpoint" in event:
                    where = event[event.index(b"data:") + 5 :].split(b"\n")[0].strip().decode()
                    found = urlsplit(where)
                    return found.path + (f"?{found.query}" if found.query else "")
            self.receive()

    def receive(self) -> None:
        """Read once from the stream."""
        chunk = self.stream.recv(1 << 20)
        if not chunk:
            raise BenchError("the target closed its stream of events")
        self.chunks += chunk

    def take(self) -> list[bytes]:
        """The events that are complete."""
        parts, rest, _ = unchunked(self.chunks, 0)
        del self.chunks[:rest]
        self.events += b"".join(parts)
        if b"\n\n" not in self.events:
            return []
        *complete, left = bytes(self.events).replace(b"\r\n", b"\n").split(b"\n\n")
        self.events[:] = left
        return complete

    def poll(self, timeout: float = 5.0) -> list[tuple[int, bytes]]:
        done: list[tuple[int, bytes]] = []
        for descriptor, _ in self.poller.poll(timeout, 256):
            if descriptor == self.stream.fileno():
                self.receive()
                for event in self.take():
                    for message in messages(event):
                        found = reply_id(message)
                        if found is not None and not (len(message) < 4000 and b'"method"' in message):
                            done.append((found, message))
            elif (connection := self.busy.get(descriptor)) is not None:
                connection.request_id = None
                self.read(connection, descriptor, done)
        return done

    def close(self) -> None:
        super().close()
        self.stream.close()

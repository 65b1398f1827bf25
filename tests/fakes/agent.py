"""Owns a raw MCP agent on a Unix socket: newline-delimited JSON, both eras, nothing hidden from the test.

It must not read ahead: bytes leave the socket only while something is awaited, so an agent can be slow at will.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

import anyio
from anyio.abc import ByteStream

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META = "io.modelcontextprotocol/"
Message = dict[str, Any]

#: What it answers to a server's question unless the test puts in another result.
ANSWERS: dict[str, Message] = {"ping": {}, "roots/list": {"roots": []}, "elicitation/create": {"action": "cancel"}}


class Agent:
    """One attachment. `async with await Agent.open(path) as agent`, then `initialize()` or `modern(...)`.

    `notifications` and `asked` hold what came and was not taken yet, `lines` the raw lines when `keep_lines` is set.
    """

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.ids = itertools.count(1)
        self.responses: dict[int | str | None, list[Message]] = {}
        self.notifications: list[Message] = []
        self.asked: list[Message] = []
        self.answers = dict(ANSWERS)
        self.lines: list[bytes] = []
        self.keep_lines = False
        #: Takes lines that are no JSON, where a test expects some; None = there must be none.
        self.torn: list[bytes] | None = None
        self.ended = False
        #: of the process that it is behind, 0 = none
        self.pid = 0
        self._buffer = bytearray()
        self._searched = 0
        self._reading = anyio.Lock()

    @classmethod
    async def open(
        cls,
        path: Path | str,
        *,
        client: str = "",
        workspace: Path | str = "",
        connect: Callable[[Path | str], Awaitable[ByteStream]] = anyio.connect_unix,
    ) -> Agent:
        """Connects; says who it is where `client` or `workspace` is given."""
        agent = cls(await connect(path))
        if client or workspace:
            await agent.notify("dev.mcphub/attach", {"client": client, "workspace": str(workspace)})
        return agent

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await anyio.aclose_forcefully(self.stream)

    # -- out

    async def send_line(self, line: bytes) -> None:
        await self.stream.send(line + b"\n")

    async def send(self, message: Message) -> None:
        await self.send_line(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode())

    async def notify(self, method: str, params: Message | None = None) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})})

    async def start(self, method: str, params: Message | None = None, *, id: int | str | None = None) -> int | str:
        """Sends a request and returns its id at once; `response(id)` waits for the answer."""
        request_id = next(self.ids) if id is None else id
        message: Message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        await self.send({**message, **({"params": params} if params is not None else {})})
        return request_id

    async def request(
        self, method: str, params: Message | None = None, *, id: int | str | None = None, timeout: float = 20
    ) -> Message:
        """The whole response message, `result` or `error`."""
        return await self.response(await self.start(method, params, id=id), timeout=timeout)

    async def initialize(self, version: str = LEGACY, capabilities: Message | None = None) -> Message:
        """The legacy handshake; returns the result of `initialize`."""
        response = await self.request(
            "initialize",
            {
                "protocolVersion": version,
                "capabilities": capabilities or {},
                "clientInfo": {"name": "fake-agent", "version": "1"},
            },
        )
        await self.notify("notifications/initialized")
        result: Message = response["result"]
        return result

    async def start_modern(
        self, method: str, params: Message | None = None, *, meta: Message | None = None, id: int | str | None = None
    ) -> int | str:
        return await self.start(method, {**(params or {}), "_meta": {**modern_meta(), **(meta or {})}}, id=id)

    async def modern(
        self,
        method: str,
        params: Message | None = None,
        *,
        meta: Message | None = None,
        id: int | str | None = None,
        timeout: float = 20,
    ) -> Message:
        """A request of the modern era; `meta` adds to the required keys or replaces them."""
        return await self.response(await self.start_modern(method, params, meta=meta, id=id), timeout=timeout)

    async def call(
        self, tool: str, arguments: Message | None = None, *, era: str = "legacy", timeout: float = 20
    ) -> Message:
        """`tools/call` in either era: the whole response message."""
        params = {"name": tool, "arguments": arguments or {}}
        if era == "modern":
            return await self.modern("tools/call", params, timeout=timeout)
        return await self.request("tools/call", params, timeout=timeout)

    async def tools(self, *, era: str = "legacy") -> list[Message]:
        """Every page of `tools/list`."""
        found: list[Message] = []
        params: Message = {}
        while True:
            response = await (self.modern if era == "modern" else self.request)("tools/list", params)
            found += response["result"]["tools"]
            cursor = response["result"].get("nextCursor")
            if cursor is None:
                return found
            params = {"cursor": cursor}

    # -- in

    async def peek(self, size: int) -> bytes:
        """Some first bytes of what comes next, at most `size`; it comes all the same."""
        found = await self.stream.receive(size)
        self._buffer += found
        return found

    async def response(self, id: int | str | None, *, timeout: float = 20) -> Message:
        with anyio.fail_after(timeout):
            while not self.responses.get(id):
                await self._pull(lambda: bool(self.responses.get(id)))
        found = self.responses[id].pop(0)
        if not self.responses[id]:
            del self.responses[id]
        return found

    async def notification(
        self, method: str, where: Callable[[Message], bool] = lambda _: True, *, timeout: float = 20
    ) -> Message:
        """Takes the first notification of this kind, waiting for it."""

        def found() -> Message | None:
            return next((n for n in self.notifications if n["method"] == method and where(n)), None)

        with anyio.fail_after(timeout):
            while (message := found()) is None:
                await self._pull(lambda: found() is not None)
        self.notifications.remove(message)
        return message

    async def end(self, *, timeout: float = 20) -> None:
        """Waits until the other side has closed."""
        with anyio.fail_after(timeout):
            while not self.ended:
                try:
                    await self._pull(lambda: self.ended)
                except ConnectionError:
                    return

    async def _pull(self, done: Callable[[], bool]) -> None:
        """One line more, unless another task's pull brought what is wanted."""
        async with self._reading:
            if not done():
                await self._take(await self._line())

    async def _line(self) -> bytes:
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            try:
                self._buffer += await self.stream.receive(1 << 20)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                self.ended = True
                raise ConnectionError("the hub closed the agent's connection") from None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    async def _take(self, line: bytes) -> None:
        if self.keep_lines:
            self.lines.append(line)
        if self.torn is not None and not is_json(line):
            self.torn.append(line)
            return
        message = strict_json(line)
        assert isinstance(message, (dict, list)), line
        if isinstance(message, list):
            for element in message:
                self.responses.setdefault(element["id"], []).append(element)
        elif "method" not in message:
            self.responses.setdefault(message.get("id"), []).append(message)
        elif "id" not in message:
            self.notifications.append(message)
        else:
            self.asked.append(message)
            answer = self.answers.get(message["method"])
            error = {"code": -32601, "message": "Method not found"}
            body: Message = {"error": error} if answer is None else {"result": answer}
            await self.send({"jsonrpc": "2.0", "id": message["id"], **body})


def modern_meta(version: str = MODERN, capabilities: Message | None = None) -> Message:
    """The `_meta` that every modern request carries."""
    return {
        META + "protocolVersion": version,
        META + "clientCapabilities": capabilities or {},
        META + "clientInfo": {"name": "fake-agent", "version": "1"},
    }


def is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def strict_json(line: bytes) -> Any:
    """What the hub writes must be strict JSON in UTF-8: no NaN, no lone surrogate, no key twice."""

    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"the hub wrote {constant}")

    def once(pairs: list[tuple[str, Any]]) -> Message:
        keys = dict(pairs)
        assert len(keys) == len(pairs), f"the hub wrote a key twice: {line[:200]!r}"
        return keys

    value = json.loads(line.decode("utf-8"), parse_constant=refuse, object_pairs_hook=once)
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def text(response: Message) -> str:
    """The text of a tool call's only content block."""
    [block] = response["result"]["content"]
    found: str = block["text"]
    return found

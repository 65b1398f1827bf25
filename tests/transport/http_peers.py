"""Owns an open HTTP link for one test: what is sent on it, and all that its receiver was told.

It must not know what is tested.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio

from mcphub.channel import Channel
from mcphub.spec import HttpSpec, Origin, Scope, Secret, ServerSpec
from mcphub.transport.kinds import TRANSPORTS
from mcphub.transport.link import Link, Surroundings
from mcphub.transport.process import Launcher
from mcphub.transport.stderr import StderrRing
from mcphub.transport.wire import Batch

META = "io.modelcontextprotocol/"
MODERN: dict[str, Any] = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}
Message = dict[str, Any]


class Told:
    """Implements channel.Receiver. `frames` come with the `current` they were given under."""

    def __init__(self) -> None:
        self.frames: list[tuple[int | None, bytes]] = []
        self.unanswered_: list[tuple[int, str, str]] = []
        self.ends: list[str] = []
        self.channel: Channel | None = None
        self.on_frame: Callable[[bytes], None] | None = None
        self._news = anyio.Event()

    def frame(self, line: bytes | memoryview) -> None:
        assert self.channel is not None
        data = bytes(line)
        assert not set(data) & set(b"\r\n"), data
        self.frames.append((self.channel.current, data))
        self._changed()
        if self.on_frame is not None:
            self.on_frame(data)

    def too_long(self, head: bytes, message: str) -> None:
        raise AssertionError(message)

    def unanswered(self, request_id: int, kind: str, message: str) -> None:
        self.unanswered_.append((request_id, kind, message))
        self._changed()

    def lost(self, reason: str) -> None:
        self.ends.append(reason)
        self._changed()

    def _changed(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    @property
    def messages(self) -> list[Message]:
        return [json.loads(data) for _, data in self.frames]

    def kind(self, request_id: int) -> str:
        """What became of a request: `answered`, a kind of unanswered, "" = nothing yet."""
        for one, kind, _ in self.unanswered_:
            if one == request_id:
                return kind
        return "answered" if any(m.get("id") == request_id and "method" not in m for m in self.messages) else ""

    def text(self, request_id: int) -> str:
        return next(text for one, _, text in self.unanswered_ if one == request_id)

    async def until(self, done: Callable[[], Any], timeout: float = 10) -> None:
        try:
            with anyio.fail_after(timeout):
                while not done():
                    await self._news.wait()
        except TimeoutError:
            raise TimeoutError(f"told so far: {self.frames} {self.unanswered_} {self.ends}") from None


class Peer:
    """A link in use."""

    def __init__(self, link: Link, told: Told, notes: StderrRing, errors: list[BaseException]) -> None:
        self.link = link
        self.told = told
        self.errors = errors
        self._notes = notes
        self._last = 0

    @property
    def notes(self) -> list[str]:
        return self._notes.tail(100)

    def send(self, message: Message) -> None:
        self.link.channel.send(json.dumps(message).encode() + b"\n")

    def start(self, method: str, params: Message | None = None, *, modern: bool = False) -> int:
        """Send a request; its id."""
        self._last += 1
        params = {**(params or {}), **({"_meta": MODERN} if modern else {})}
        self.send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        return self._last

    async def ended(self, mid: int, timeout: float = 10) -> str:
        """What becomes of a request: `answered`, or a kind of unanswered."""
        await self.told.until(lambda: self.told.kind(mid), timeout)
        return self.told.kind(mid)

    async def ask(self, method: str, params: Message | None = None, *, modern: bool = False) -> str:
        return await self.ended(self.start(method, params, modern=modern))

    async def result(self, method: str, params: Message | None = None, *, modern: bool = False) -> Any:
        mid = self.start(method, params, modern=modern)
        assert await self.ended(mid) == "answered", self.told.unanswered_
        return next(m for m in self.told.messages if m.get("id") == mid and "method" not in m)

    def notify(self, method: str, params: Message | None = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})})

    def cancel(self, mid: int) -> None:
        self.notify("notifications/cancelled", {"requestId": mid, "reason": "x"})

    async def initialize(self, version: str = "2025-11-25") -> Message:
        """The legacy handshake, up to the answer to it."""
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        found: Message = await self.result("initialize", params)
        self.notify("notifications/initialized")
        return found


@asynccontextmanager
async def linked(
    url: str,
    headers: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    *,
    kind: type[HttpSpec] = HttpSpec,
    startup_timeout: float = 30.0,
    launcher: Launcher | None = None,
    hide: Callable[..., None] | None = None,
    **more: Any,
) -> AsyncIterator[Peer]:
    """An open link to a URL; `more` is what else its spec says. When it closes, the receiver was told so once, and no
    error of ours was reported."""
    spec = ServerSpec(
        "remote",
        Origin(Scope.USER, "/mcp.json", "remote"),
        kind(Secret(url), {name: Secret(value) for name, value in (headers or {}).items()}, url, **more),
        startup_timeout=startup_timeout,
    )
    errors: list[BaseException] = []
    around = Surroundings(cast(Launcher, launcher), Batch(), lambda: env or {}, report=errors.append, hide=hide)
    told, notes = Told(), StderrRing()
    with anyio.fail_after(30):
        async with TRANSPORTS[spec.transport.kind](spec, around, told, notes) as link:
            told.channel = link.channel
            yield Peer(link, told, notes, errors)
    assert len(told.ends) == 1
    assert errors == []

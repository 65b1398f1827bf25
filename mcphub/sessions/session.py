"""Owns one attached agent: who it is, its era, its calls in flight, and the wire it speaks on.

It must not know how a server is reached; what a message means is the gateway's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mcphub.catalog.library import Library
from mcphub.catalog.toolset import Toolset
from mcphub.channel import Data
from mcphub.connection import capability_sets
from mcphub.gateway.call import NOT_SAID, AgentCall, Older, Tasks
from mcphub.gateway.dispatch import Gateway
from mcphub.gateway.refusals import BAD_REQUEST
from mcphub.gateway.subscriptions import Listens
from mcphub.protocol import jsonrpc
from mcphub.protocol.envelope import NO_META, RequestMeta


class Outlet(Protocol):
    """What takes the frames for one agent: a wire, or an answer over HTTP."""

    def send(self, *parts: Data) -> None:
        """As channel.Channel.send."""


class Session:
    """One agent. Implements channel.Receiver and gateway.agent.Agent. `since` is in monotonic seconds; `news` is called
    when people would see another session."""

    def __init__(
        self,
        number: int,
        gateway: Gateway,
        *,
        client: str,
        workspace: str,
        pid: int | None,
        since: float,
        news: Callable[[], None] | None = None,
    ) -> None:
        self.number = number
        self.client = client
        self.workspace = workspace
        self.view = ""
        self.pid = pid
        self.since = since
        self.version = ""
        self.era = ""
        self.log_level = ""
        self.calls: dict[bytes, AgentCall] = {}
        self.listens = Listens()
        self.toolset = Toolset()
        self.told = ""
        self.library = Library()
        self.told_lists: dict[str, str] = {}
        self.last_meta: tuple[bytes, RequestMeta] = (b"", NO_META)
        self.plain_meta = NO_META
        self.capabilities: dict[str, Any] = {}
        self.declares = capability_sets.NOTHING
        self.offers = b""
        self.passing = False
        self.older: Older | None = None
        self.tasks: Tasks | None = None
        self.said = NOT_SAID
        self.paths: dict[str, Any] | None = None
        self.left = ""
        self._gateway = gateway
        self._news = news
        self._outlet: Outlet | None = None

    def use(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def send(self, *parts: Data) -> None:
        if self._outlet is not None:
            self._outlet.send(*parts)

    def introduced(self) -> None:
        if self._news is not None:
            self._news()

    def frame(self, line: bytes | memoryview) -> None:
        self._gateway.dispatch(self, line)

    def burst(self, lines: Sequence[bytes]) -> bool:
        """Several at once; False = nothing was done: they must come one by one."""
        return self._gateway.burst(self, lines)

    def too_long(self, head: bytes, message: str) -> None:
        mid = jsonrpc.id_in(head)
        text = f"cannot read the message: {message}"
        self.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_REQUEST, text, BAD_REQUEST))

    def unanswered(self, request_id: int, kind: str, message: str) -> None:
        """Nothing: an agent's channel is one stream, and ends as a whole."""

    def lost(self, reason: str) -> None:
        self.left = reason
        self._gateway.leave(self)

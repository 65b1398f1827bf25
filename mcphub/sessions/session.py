"""Owns one attached agent: who it is, its era, its calls in flight, and the wire it speaks on.

It must not know how a server is reached; what a message means is the gateway's.
"""

from __future__ import annotations

from mcphub.catalog.toolset import Toolset
from mcphub.channel import Channel, Data
from mcphub.gateway.call import AgentCall
from mcphub.gateway.dispatch import Gateway
from mcphub.gateway.subscriptions import Listens
from mcphub.protocol.envelope import NO_META, RequestMeta


class Session:
    """One agent. Implements channel.Receiver and gateway.dispatch.Agent. `since` is in monotonic seconds."""

    def __init__(
        self, number: int, gateway: Gateway, *, client: str, workspace: str, pid: int | None, since: float
    ) -> None:
        self.number = number
        self.client = client
        self.workspace = workspace
        self.pid = pid
        self.since = since
        self.version = ""
        self.era = ""
        self.log_level = ""
        self.calls: dict[bytes, AgentCall] = {}
        self.listens = Listens()
        self.toolset = Toolset()
        self.told = ""
        self.last_meta: tuple[bytes, RequestMeta] = (b"", NO_META)
        self.left = ""
        self._gateway = gateway
        self._channel: Channel | None = None

    def use(self, channel: Channel) -> None:
        self._channel = channel

    def send(self, *parts: Data) -> None:
        if self._channel is not None:
            self._channel.send(*parts)

    def frame(self, line: memoryview) -> None:
        self._gateway.dispatch(self, line)

    def lost(self, reason: str) -> None:
        self.left = reason
        self._gateway.leave(self)

"""Owns what an attached agent is to the gateway: what it said of itself, what it sees, what is in flight for it.

It must not know how an agent is attached. `sessions.session.Session` is one, and so is the answer to one HTTP request.
"""

from __future__ import annotations

from typing import Any, Protocol

from mcphub.catalog.library import Library
from mcphub.catalog.toolset import Toolset
from mcphub.channel import Data
from mcphub.gateway.call import AgentCall, Older, Said, Tasks
from mcphub.gateway.subscriptions import Listens
from mcphub.protocol.envelope import RequestMeta


class Agent(Protocol):
    """An attached agent as the gateway sees it; the fields are the gateway's to change."""

    workspace: str
    #: The one server that it sees, under its own names; "" = all, merged.
    view: str
    #: The legacy version agreed in `initialize`, "" before it.
    version: str
    client: str
    era: str
    log_level: str
    calls: dict[bytes, AgentCall]
    listens: Listens
    toolset: Toolset
    told: str
    library: Library
    #: The digest of each other list as it was last told or given, by method.
    told_lists: dict[str, str]
    last_meta: tuple[bytes, RequestMeta]
    #: What a legacy agent declared in `initialize`.
    capabilities: dict[str, Any]
    #: What a legacy server is told of that, or of what a modern agent declared first: a key of
    #: connection.legacy_sessions.
    declares: bytes
    #: What a modern server is told of that, as ClientCapabilities, b"" = nothing.
    offers: bytes
    #: What a request without `_meta` of its own carries: the level a legacy agent has set, for modern servers.
    plain_meta: RequestMeta
    #: It is one request of an agent over HTTP that has no connection of its own.
    passing: bool
    older: Older | None
    tasks: Tasks | None
    #: What the outcome journal was told of its last call that is in there.
    said: Said
    #: The ways of its bursts, by the exposed name of the tool (`gateway.bursts.Path`); None = its messages come singly.
    paths: dict[str, Any] | None

    def send(self, *parts: Data) -> None: ...

    def introduced(self) -> None:
        """It has said who it is, or what it can do."""

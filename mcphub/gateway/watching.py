"""Owns which agent watches which resource: one subscription a URI on each server, however many agents hold it.

It must not know sockets, nor what a resource holds. Legacy servers get `resources/subscribe` and `unsubscribe`, modern
ones a `subscriptions/listen` for each URI (MCP spec 2025-11-25 server/resources, 2026-07-28 patterns/subscriptions).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from mcphub.catalog.library import Lead, Library
from mcphub.channel import Data
from mcphub.connection.client import Client
from mcphub.connection.handshake import Ignored
from mcphub.connection.worker import Worker
from mcphub.protocol import jsonrpc, serving
from mcphub.protocol.envelope import SUBSCRIPTION_KEY
from mcphub.protocol.jsonrpc import Raw
from mcphub.spec import InstanceKey

UPDATED = "notifications/resources/updated"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
#: Resources that one agent may watch.
MAX_WATCHED = 200
#: Characters of a URI that can be watched.
MAX_URI = 8192
#: A subscription that a server ended is asked for again after so long, doubling up to the second, seconds.
PAUSE, PAUSE_MOST = 0.05, 60.0
#: How long a server may take to answer, seconds.
PATIENCE = 30.0
#: How long an agent waits for that, seconds; a sick server does not hold it.
TAKEN = 3.0

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str).decode


class _Meta(msgspec.Struct, gc=False):
    subscription: int = msgspec.field(name=SUBSCRIPTION_KEY)


class _Acknowledged(msgspec.Struct, gc=False):
    meta: _Meta = msgspec.field(name="_meta")


_acknowledged = msgspec.json.Decoder(_Acknowledged).decode


class Watcher(Protocol):
    """The agent, as far as it watches."""

    library: Library

    def send(self, *parts: Data) -> None: ...


#: Who holds a subscription: an agent and the id of its listen request as JSON, b"" = its legacy subscription.
_Holder = tuple[Watcher, bytes]


class _Watched(msgspec.Struct):
    """One URI of one server."""

    holders: dict[_Holder, None] = msgspec.field(default_factory=dict)
    #: The listen request upstream, 0 = none.
    listen: int = 0
    #: Whether the server has answered: from then on it tells of changes.
    taken: bool = False
    pause: float = PAUSE
    since: float = 0.0


class _Server(msgspec.Struct):
    #: The connection that knows of the subscriptions, None = none yet.
    client: Client | None = None
    #: Its end may have hidden changes.
    gap: bool = False
    uris: dict[str, _Watched] = msgspec.field(default_factory=dict)


#: Told that a subscription has begun, with the frames of it that came before.
_Begun = Callable[[Sequence[bytes]], None]


class _Beginning(msgspec.Struct, eq=False):
    """A subscription that its agent has not been told of yet, and the servers that have not taken it."""

    leads: set[Lead]
    begun: _Begun
    timer: asyncio.TimerHandle
    kept: list[bytes] = msgspec.field(default_factory=list)


class _Subscribed(Ignored):
    """The answer to a subscription: `taken` is called whatever it is, and whether it comes or not."""

    def __init__(self, deadline: float, taken: Callable[[], None], ended: Callable[[], None] | None = None) -> None:
        super().__init__(deadline, ended)
        self._taken = taken

    def answered(self, env: jsonrpc.Envelope) -> None:
        self._taken()
        super().answered(env)

    def unanswered(self, kind: str, message: str) -> None:
        self._taken()
        super().unanswered(kind, message)


class Watching:
    """The subscriptions of one hub, by server and its own URI."""

    def __init__(self, workers: Mapping[InstanceKey, Worker]) -> None:
        self._workers = workers
        self._servers: dict[InstanceKey, _Server] = {}
        self._held: dict[_Holder, dict[Lead, None]] = {}
        self._beginning: dict[_Holder, list[_Beginning]] = {}
        self._loop = asyncio.get_running_loop()

    # --- agents ------------------------------------------------------------------------------------------------------

    def watch(self, agent: Watcher, mid: bytes, uri: str) -> str | None:
        """Begin; returns the URI as it will be told of, None where nobody can tell of it. Holding it twice is once."""
        leads = agent.library.find(uri) if len(uri) <= MAX_URI else ()
        if len(leads) != 1:
            return None
        lead = leads[0]
        worker = self._workers.get(lead.key)
        held = sum(len(leads) for holder, leads in self._held.items() if holder[0] == agent)
        if worker is None or not offers(worker) or held >= MAX_WATCHED:
            return None
        server = self._servers.setdefault(lead.key, _Server())
        if server.client is None and worker.client is not None and not worker.client.over:
            server.client = worker.client
        watched = server.uris.get(lead.original)
        if watched is None:
            watched = server.uris[lead.original] = _Watched()
            self._subscribe(lead, worker, server, watched)
        watched.holders[agent, mid] = None
        self._held.setdefault((agent, mid), {})[lead] = None
        return agent.library.expose(lead.key.name, lead.original)

    def watch_all(self, agent: Watcher, mid: bytes, notifications: Any) -> list[str]:
        """What a listen request wants to watch, as far as it can be."""
        asked = notifications.get("resourceSubscriptions") if isinstance(notifications, dict) else None
        if not isinstance(asked, list):
            return []
        found = [self.watch(agent, mid, uri) for uri in asked[: 2 * MAX_WATCHED] if isinstance(uri, str)]
        return list(dict.fromkeys(uri for uri in found if uri is not None))

    def when_taken(self, agent: Watcher, mid: bytes, begun: _Begun) -> None:
        """Call `begun` once the servers watch all that this holder holds, or have had TAKEN seconds for it: what is
        changed after an agent was told that it has subscribed must be told of. Frames of a listen wait for it."""
        holder = (agent, mid)
        leads = {lead for lead in self._held.get(holder, ()) if self._is_awaited(lead)}
        if not leads:
            begun(())
            return
        timer = self._loop.call_later(TAKEN, lambda: self._begin(holder, one))
        one: _Beginning = _Beginning(leads, begun, timer)
        self._beginning.setdefault(holder, []).append(one)

    def begins(self, agent: Watcher, mid: bytes) -> bool:
        """Whether a listen request has not been acknowledged yet."""
        return (agent, mid) in self._beginning

    def _is_awaited(self, lead: Lead) -> bool:
        server = self._servers[lead.key]
        return server.client is not None and not server.client.over and not server.uris[lead.original].taken

    def _begin(self, holder: _Holder, one: _Beginning) -> None:
        one.timer.cancel()
        waiting = self._beginning[holder]
        waiting.remove(one)
        if not waiting:
            del self._beginning[holder]
        one.begun(one.kept)

    def _took(self, lead: Lead, client: Client) -> None:
        """The server has answered, whatever it said, or will not."""
        watched = self._watched(lead)
        if watched is None or self._servers[lead.key].client is not client:
            return
        watched.taken = True
        for holder in list(watched.holders):
            self._nothing_awaited(holder, lead)

    def _nothing_awaited(self, holder: _Holder, lead: Lead) -> None:
        for one in list(self._beginning.get(holder, ())):
            one.leads.discard(lead)
            if not one.leads:
                self._begin(holder, one)

    def unwatch(self, agent: Watcher, uri: str) -> None:
        """End a legacy subscription; one that there is not is none."""
        held = list(self._held.get((agent, b""), ()))
        # Not by the library: what it showed when the subscription began may be gone.
        found = [lead for lead in held if agent.library.expose(lead.key.name, lead.original) == uri]
        found = found or [lead for lead in held if lead.original == uri]
        if len(found) == 1:
            self._release((agent, b""), found[0])

    def end(self, agent: Watcher, mid: bytes) -> None:
        """A listen request is over."""
        for one in self._beginning.pop((agent, mid), ()):
            one.timer.cancel()
        for lead in list(self._held.get((agent, mid), ())):
            self._release((agent, mid), lead)

    def left(self, agent: Watcher) -> None:
        for _, mid in [holder for holder in self._held if holder[0] == agent]:
            self.end(agent, mid)

    def _release(self, holder: _Holder, lead: Lead) -> None:
        held = self._held[holder]
        del held[lead]
        if not held:
            del self._held[holder]
        server = self._servers[lead.key]
        watched = server.uris[lead.original]
        del watched.holders[holder]
        self._nothing_awaited(holder, lead)
        if watched.holders:
            return
        del server.uris[lead.original]
        self._unsubscribe(lead, server, watched)
        if not server.uris:
            del self._servers[lead.key]

    # --- servers -----------------------------------------------------------------------------------------------------

    def _subscribe(self, lead: Lead, worker: Worker, server: _Server, watched: _Watched) -> None:
        client = server.client
        if client is None or client.over or not offers(worker):
            return
        uri = jsonrpc.quote(lead.original)
        watched.taken = False
        if client.era == "legacy":
            answer = _Subscribed(self._loop.time() + PATIENCE, lambda: self._took(lead, client))
            client.start(answer, "resources/subscribe", b'"uri":' + uri)
            return
        watched.since = self._loop.time()
        answer = _Subscribed(float("inf"), lambda: self._took(lead, client), lambda: self._ended(lead, client))
        params = b'"notifications":{"resourceSubscriptions":[%b]}' % uri
        watched.listen = client.start(answer, "subscriptions/listen", params)

    def _unsubscribe(self, lead: Lead, server: _Server, watched: _Watched) -> None:
        client = server.client
        if client is None or client.over:
            return
        if client.era == "legacy":
            waiter = Ignored(self._loop.time() + PATIENCE)
            client.start(waiter, "resources/unsubscribe", b'"uri":' + jsonrpc.quote(lead.original))
        elif watched.listen:
            client.withdraw(watched.listen, "nobody watches it any more")

    def _ended(self, lead: Lead, client: Client) -> None:
        """The server has ended a listen request in order, or its stream broke."""
        watched = self._watched(lead)
        if watched is None or client.over:
            return
        watched.listen = 0
        lasted = self._loop.time() - watched.since
        watched.pause = PAUSE if lasted > PAUSE_MOST else min(watched.pause * 2, PAUSE_MOST)
        self._loop.call_later(watched.pause, self._again, lead, client)

    def _again(self, lead: Lead, client: Client) -> None:
        watched, worker = self._watched(lead), self._workers.get(lead.key)
        if watched is None or watched.listen or worker is None or worker.client is not client:
            return
        server = self._servers[lead.key]
        if server.client is client:
            self._subscribe(lead, worker, server, watched)
            self._tell(lead.key.name, watched, lead.original)

    def _watched(self, lead: Lead) -> _Watched | None:
        server = self._servers.get(lead.key)
        return server.uris.get(lead.original) if server is not None else None

    def renew(self) -> None:
        """Connections may be others now: what is watched there is subscribed to again, and told of once."""
        for key in list(self._servers):
            if key not in self._workers:
                self._follow(key)
        for key, server in self._servers.items():
            worker = self._workers.get(key)
            client = worker.client if worker is not None else None
            if worker is None or client is None or client is server.client or client.over:
                continue
            gap = server.gap or server.client is not None
            server.client, server.gap = client, False
            for uri, watched in server.uris.items():
                watched.listen, watched.pause = 0, PAUSE
                self._subscribe(Lead(key, uri), worker, server, watched)
                if gap:
                    self._tell(key.name, watched, uri)

    def _follow(self, key: InstanceKey) -> None:
        """An instance is gone, its entry was changed: who watched there watches at the one that took its place."""
        for uri, watched in list(self._servers[key].uris.items()):
            for holder in list(watched.holders):
                new = holder[0].library.keys.get(key.name)
                if new is None or new == key:
                    continue
                self._release(holder, Lead(key, uri))
                server = self._servers.setdefault(new, _Server(gap=True))
                server.uris.setdefault(uri, _Watched()).holders[holder] = None
                self._held.setdefault(holder, {})[Lead(new, uri)] = None
                if server.client is not None:
                    server.client, server.gap = None, True

    def acknowledged(self, worker: Worker, client: Client, params: Raw) -> bool:
        """A modern server watches from now on. False where this is no request of these."""
        server = self._servers.get(worker.key)
        try:
            listen = _acknowledged(params).meta.subscription
        except (msgspec.DecodeError, RecursionError):
            return False
        found = [uri for uri, one in server.uris.items() if one.listen == listen] if server is not None else []
        for uri in found:
            self._took(Lead(worker.key, uri), client)
        return bool(found)

    def updated(self, worker: Worker, params: Raw) -> bool:
        """A server's notification; it may name a part of what is watched. False where it cannot be read or is for
        nobody."""
        try:
            fields = _members(params)
            uri = _string(fields["uri"])
        except (msgspec.DecodeError, KeyError, RecursionError):
            return False
        server = self._servers.get(worker.key)
        if server is None:
            return False
        found = [watched for own, watched in server.uris.items() if uri.startswith(own)]
        if not found and len(server.uris) == 1:
            found = list(server.uris.values())  # nothing else explains it
        together = _Watched({holder: None for watched in found for holder in watched.holders})
        self._tell(worker.name, together, uri)
        return bool(found)

    def _tell(self, name: str, watched: _Watched, uri: str) -> None:
        for agent, mid in list(watched.holders):
            params = b'{"uri":%b' % jsonrpc.quote(agent.library.expose(name, uri))
            if mid:
                params += b"," + serving.subscription_meta(mid)
            frame = jsonrpc.notification_frame(UPDATED, params + b"}")
            if mid and (agent, mid) in self._beginning:
                self._beginning[agent, mid][-1].kept.append(frame)  # its acknowledgement comes first
            else:
                agent.send(frame)


def offers(worker: Worker) -> bool:
    """Whether the server said, when it was last connected, that its resources can be watched."""
    offered = worker.facts.capabilities.get("resources") if worker.facts is not None else None
    return isinstance(offered, dict) and offered.get("subscribe") is True

"""Owns which agent watches which resource: one subscription a URI on each server, however many agents hold it.

It must not know sockets, nor what a resource holds. Legacy servers get `resources/subscribe` and `unsubscribe`, modern
ones a `subscriptions/listen` for each URI (MCP spec 2025-11-25 server/resources, 2026-07-28 patterns/subscriptions).
A legacy agent's subscription goes where its calls go: over the session of its set, whose state they share.
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
from mcphub.gateway.standing import Owed, Standing
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
    #: What a legacy server is told of it.
    declares: bytes

    def send(self, *parts: Data) -> None: ...


#: Who holds a subscription: an agent and the id of its listen request as JSON, b"" = its legacy subscription.
_Holder = tuple[Watcher, bytes]
#: Over which of a server's connections: the session of this set, b"" = the worker's own.
_Lane = tuple[InstanceKey, bytes]


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
    """A server, over one of its connections."""

    #: The connection that knows of the subscriptions, None = none yet.
    client: Client | None = None
    #: When it was taken, and how long it is waited before a session is opened again that did not last.
    since: float = 0.0
    pause: float = PAUSE
    timer: asyncio.TimerHandle | None = None
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
        self._servers: dict[_Lane, _Server] = {}
        self._held: dict[_Holder, dict[Lead, _Lane]] = {}
        self._beginning: dict[_Holder, list[_Beginning]] = {}
        #: What was watched in another daemon, and cannot be yet in this one.
        self._later: dict[_Holder, list[str]] = {}
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
        worker.watched = True
        worker.wake_idle()
        lane = _lane(lead.key, worker, agent, mid)
        server = self._servers.setdefault(lane, _Server())
        if server.client is None:
            self._use(server, self._client_of(lane, worker))
        watched = server.uris.get(lead.original)
        if watched is None:
            watched = server.uris[lead.original] = _Watched()
            self._subscribe(lane, lead.original, worker, server, watched)
        watched.holders[agent, mid] = None
        self._held.setdefault((agent, mid), {})[lead] = lane
        return agent.library.expose(lead.key.name, lead.original)

    def watch_all(self, agent: Watcher, mid: bytes, notifications: Any) -> list[str]:
        """What a listen request wants to watch, as far as it can be."""
        asked = notifications.get("resourceSubscriptions") if isinstance(notifications, dict) else None
        if not isinstance(asked, list):
            return []
        found = [self.watch(agent, mid, uri) for uri in asked[: 2 * MAX_WATCHED] if isinstance(uri, str)]
        return list(dict.fromkeys(uri for uri in found if uri is not None))

    def watch_later(self, agent: Watcher, mid: bytes, uris: object) -> None:
        """These were watched in another daemon: go on as soon as somebody lists them, and tell of each once."""
        if isinstance(uris, list) and uris:
            self._later[agent, mid] = [uri for uri in uris if isinstance(uri, str)][:MAX_WATCHED]
            self._watch_now(agent, mid)

    def _watch_now(self, agent: Watcher, mid: bytes) -> None:
        left = []
        for uri in self._later.pop((agent, mid), ()):
            found = self.watch(agent, mid, uri)
            if found is None:
                left.append(uri)
                continue
            params = b'{"uri":%b%b}' % (jsonrpc.quote(found), b"," + serving.subscription_meta(mid) if mid else b"")
            agent.send(jsonrpc.notification_frame(UPDATED, params))
        if left:
            self._later[agent, mid] = left

    def standing(self, agent: Watcher, standing: Standing) -> Standing:
        """With what this agent watches, as it knows it, and what it has not been told to have begun."""
        exposed: dict[bytes, list[str]] = {}
        for (holder, mid), leads in self._held.items():
            if holder is agent:
                exposed[mid] = [agent.library.expose(lead.key.name, lead.original) for lead in leads]
        for (holder, mid), uris in self._later.items():
            if holder is agent:
                exposed.setdefault(mid, []).extend(uris)
        for mid, uris in exposed.items():
            if not mid:
                standing.watches = uris
            elif (listen := standing.listens.get(mid.decode())) is not None:
                listen["resourceSubscriptions"] = uris
        for holder, mid in self._beginning:
            if holder is agent and mid:
                standing.owed.append(Owed(mid.decode(), "subscriptions/listen", True))
        return standing

    def when_taken(self, agent: Watcher, mid: bytes, begun: _Begun) -> None:
        """Call `begun` once the servers watch all that this holder holds, or have had TAKEN seconds for it: what is
        changed after an agent was told that it has subscribed must be told of. Frames of a listen wait for it."""
        holder = (agent, mid)
        leads = {lead for lead, lane in self._held.get(holder, {}).items() if self._is_awaited(lane, lead.original)}
        if not leads:
            begun(())
            return
        timer = self._loop.call_later(TAKEN, lambda: self._begin(holder, one))
        one: _Beginning = _Beginning(leads, begun, timer)
        self._beginning.setdefault(holder, []).append(one)

    def begins(self, agent: Watcher, mid: bytes) -> bool:
        """Whether a listen request has not been acknowledged yet."""
        return (agent, mid) in self._beginning

    def _is_awaited(self, lane: _Lane, uri: str) -> bool:
        server = self._servers[lane]
        return server.client is not None and not server.client.over and not server.uris[uri].taken

    def _begin(self, holder: _Holder, one: _Beginning) -> None:
        one.timer.cancel()
        waiting = self._beginning[holder]
        waiting.remove(one)
        if not waiting:
            del self._beginning[holder]
        one.begun(one.kept)

    def _took(self, lane: _Lane, uri: str, client: Client) -> None:
        """The server has answered, whatever it said, or will not."""
        watched = self._watched(lane, uri)
        if watched is None or self._servers[lane].client is not client:
            return
        watched.taken = True
        for holder in list(watched.holders):
            self._nothing_awaited(holder, Lead(lane[0], uri))

    def _nothing_awaited(self, holder: _Holder, lead: Lead) -> None:
        for one in list(self._beginning.get(holder, ())):
            one.leads.discard(lead)
            if not one.leads:
                self._begin(holder, one)

    def unwatch(self, agent: Watcher, uri: str) -> None:
        """End a legacy subscription; one that there is not is none."""
        if uri in self._later.get((agent, b""), ()):
            self._later[agent, b""].remove(uri)
        held = list(self._held.get((agent, b""), ()))
        # Not by the library: what it showed when the subscription began may be gone.
        found = [lead for lead in held if agent.library.expose(lead.key.name, lead.original) == uri]
        found = found or [lead for lead in held if lead.original == uri]
        if len(found) == 1:
            self._release((agent, b""), found[0])

    def end(self, agent: Watcher, mid: bytes) -> None:
        """A listen request is over."""
        self._later.pop((agent, mid), None)
        for one in self._beginning.pop((agent, mid), ()):
            one.timer.cancel()
        for lead in list(self._held.get((agent, mid), ())):
            self._release((agent, mid), lead)

    def left(self, agent: Watcher) -> None:
        for _, mid in [holder for holder in (*self._held, *self._later) if holder[0] == agent]:
            self.end(agent, mid)

    def _release(self, holder: _Holder, lead: Lead) -> None:
        held = self._held[holder]
        lane = held.pop(lead)
        if not held:
            del self._held[holder]
        self._nothing_awaited(holder, lead)
        self._leave(holder, lane, lead.original)

    def _leave(self, holder: _Holder, lane: _Lane, uri: str) -> None:
        """It does not watch there any more; what nobody watches there is ended."""
        server = self._servers[lane]
        watched = server.uris[uri]
        del watched.holders[holder]
        if watched.holders:
            return
        del server.uris[uri]
        self._unsubscribe(uri, server, watched)
        if server.uris:
            return
        del self._servers[lane]
        if server.timer is not None:
            server.timer.cancel()
        if server.client is not None:
            server.client.watched = any(other.client is server.client for other in self._servers.values())
        if (worker := self._workers.get(lane[0])) is not None:
            worker.watched = any(key == lane[0] for key, _ in self._servers)

    # --- servers -----------------------------------------------------------------------------------------------------

    def _client_of(self, lane: _Lane, worker: Worker | None) -> Client | None:
        """The connection for it now, which may be opened for it; None = there is none."""
        own = worker.client if worker is not None else None
        if worker is None or own is None or own.over:
            return None
        if lane[1] and worker.sessions is not None:
            return worker.sessions.client_for(own, False, lane[1])
        return own

    def _use(self, server: _Server, client: Client | None) -> None:
        server.client, server.since = client, self._loop.time()
        if client is not None:
            client.watched = True  # which is use, though nothing is asked there

    def _subscribe(self, lane: _Lane, original: str, worker: Worker, server: _Server, watched: _Watched) -> None:
        client = server.client
        if client is None or client.over or not offers(worker):
            return
        uri = jsonrpc.quote(original)
        watched.taken = False
        if client.era == "legacy":
            answer = _Subscribed(self._loop.time() + PATIENCE, lambda: self._took(lane, original, client))
            client.start(answer, "resources/subscribe", b'"uri":' + uri)
            return
        watched.since = self._loop.time()
        answer = _Subscribed(
            float("inf"),
            lambda: self._took(lane, original, client),
            lambda: self._ended(lane, original, client),
        )
        params = b'"notifications":{"resourceSubscriptions":[%b]}' % uri
        watched.listen = client.start(answer, "subscriptions/listen", params)

    def _unsubscribe(self, uri: str, server: _Server, watched: _Watched) -> None:
        client = server.client
        if client is None or client.over:
            return
        if client.era == "legacy":
            waiter = Ignored(self._loop.time() + PATIENCE)
            client.start(waiter, "resources/unsubscribe", b'"uri":' + jsonrpc.quote(uri))
        elif watched.listen:
            client.withdraw(watched.listen, "nobody watches it any more")

    def _ended(self, lane: _Lane, uri: str, client: Client) -> None:
        """The server has ended a listen request in order, or its stream broke."""
        watched = self._watched(lane, uri)
        if watched is None or client.over:
            return
        watched.listen = 0
        lasted = self._loop.time() - watched.since
        watched.pause = PAUSE if lasted > PAUSE_MOST else min(watched.pause * 2, PAUSE_MOST)
        self._loop.call_later(watched.pause, self._again, lane, uri, client)

    def _again(self, lane: _Lane, uri: str, client: Client) -> None:
        watched, worker = self._watched(lane, uri), self._workers.get(lane[0])
        if watched is None or watched.listen or worker is None or client.over:
            return
        server = self._servers[lane]
        if server.client is client:
            self._subscribe(lane, uri, worker, server, watched)
            self._tell(lane[0].name, watched, uri)

    def _watched(self, lane: _Lane, uri: str) -> _Watched | None:
        server = self._servers.get(lane)
        return server.uris.get(uri) if server is not None else None

    def renew(self) -> None:
        """Connections may be others now: what is watched there is subscribed to again, and told of once."""
        for agent, mid in list(self._later):
            self._watch_now(agent, mid)
        for lane in list(self._servers):
            if lane[0] not in self._workers:
                self._follow(lane)
        self._move_over()
        for lane, server in list(self._servers.items()):
            worker = self._workers.get(lane[0])
            if worker is not None:
                worker.watched = True
                self._renew_one(lane, server, worker)

    def _renew_one(self, lane: _Lane, server: _Server, worker: Worker) -> None:
        """A session that is over is opened again, since it is watched; not at once where the last one did not last."""
        client = server.client
        if not lane[1] or client is None:
            self._take(lane, server, worker)
        elif client.over and server.timer is None and worker.client is not None:
            lasted = self._loop.time() - server.since
            server.pause = PAUSE if lasted > PAUSE_MOST else min(server.pause * 2, PAUSE_MOST)
            server.timer = self._loop.call_later(server.pause, self._retry, lane, server)

    def _retry(self, lane: _Lane, server: _Server) -> None:
        server.timer = None
        worker = self._workers.get(lane[0])
        if self._servers.get(lane) is server and worker is not None:
            self._take(lane, server, worker)

    def _take(self, lane: _Lane, server: _Server, worker: Worker) -> None:
        client = self._client_of(lane, worker)
        if client is None or client is server.client or client.over:
            return
        gap = server.gap or server.client is not None
        server.gap = False
        self._use(server, client)
        for uri, watched in list(server.uris.items()):
            watched.listen, watched.pause = 0, PAUSE
            self._subscribe(lane, uri, worker, server, watched)
            if gap:
                self._tell(lane[0].name, watched, uri)

    def _move_over(self) -> None:
        """Whose calls go over another connection now watches there: the server wants no further session, or wants
        one again."""
        for holder, held in list(self._held.items()):
            for lead, lane in list(held.items()):
                worker = self._workers.get(lead.key)
                if worker is None or worker.client is None:
                    continue
                new = _lane(lead.key, worker, *holder)
                if new != lane:
                    held[lead] = new
                    self._leave(holder, lane, lead.original)
                    self._join(holder, new, lead.original, worker)

    def _join(self, holder: _Holder, lane: _Lane, uri: str, worker: Worker) -> None:
        """What may have been missed on the way here is told of."""
        server = self._servers.setdefault(lane, _Server())
        if server.client is None:
            self._use(server, self._client_of(lane, worker))
        watched = server.uris.get(uri)
        if watched is None:
            watched = server.uris[uri] = _Watched()
            self._subscribe(lane, uri, worker, server, watched)
        watched.holders[holder] = None
        self._tell(lane[0].name, _Watched({holder: None}), uri)
        if watched.taken:
            self._nothing_awaited(holder, Lead(lane[0], uri))

    def _follow(self, lane: _Lane) -> None:
        """An instance is gone, its entry was changed: who watched there watches at the one that took its place."""
        key = lane[0]
        for uri, watched in list(self._servers[lane].uris.items()):
            for holder in list(watched.holders):
                new = holder[0].library.keys.get(key.name)
                if new is None or new == key:
                    continue
                self._release(holder, Lead(key, uri))
                to = _lane(new, self._workers.get(new), *holder)
                server = self._servers.setdefault(to, _Server(gap=True))
                server.uris.setdefault(uri, _Watched()).holders[holder] = None
                self._held.setdefault(holder, {})[Lead(new, uri)] = to
                if server.client is not None:
                    server.client, server.gap = None, True

    def acknowledged(self, worker: Worker, client: Client, params: Raw) -> bool:
        """A modern server watches from now on. False where this is no request of these."""
        try:
            listen = _acknowledged(params).meta.subscription
        except (msgspec.DecodeError, RecursionError):
            return False
        found = [(lane, uri) for lane, one in self._on(client) for uri, w in one.uris.items() if w.listen == listen]
        for lane, uri in found:
            self._took(lane, uri, client)
        return bool(found)

    def updated(self, worker: Worker, client: Client, params: Raw) -> bool:
        """A server's notification on this connection; it may name a part of what is watched. False where it cannot be
        read or is for nobody."""
        try:
            fields = _members(params)
            uri = _string(fields["uri"])
        except (msgspec.DecodeError, KeyError, RecursionError):
            return False
        uris = [one for _, server in self._on(client) for one in server.uris.items()]
        found = [watched for own, watched in uris if uri.startswith(own)]
        if not found and len(uris) == 1:
            found = [watched for _, watched in uris]  # nothing else explains it
        together = _Watched({holder: None for watched in found for holder in watched.holders})
        self._tell(worker.name, together, uri)
        return bool(found)

    def _on(self, client: Client) -> list[tuple[_Lane, _Server]]:
        """What is watched over this connection."""
        return [(lane, server) for lane, server in self._servers.items() if server.client is client]

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


def _lane(key: InstanceKey, worker: Worker | None, agent: Watcher, mid: bytes) -> _Lane:
    """Where this holder's calls go."""
    sessions = worker.sessions if worker is not None else None
    own = worker.client if worker is not None else None
    if mid and (own is None or own.era == "modern"):
        return key, b""
    if sessions is None or worker is None or not sessions.is_apart(worker.client, agent.declares):
        return key, b""
    return key, agent.declares

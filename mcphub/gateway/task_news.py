"""Owns which agent is told of which task: `taskIds` of listen requests, as one listen request of ours at each server.

It must not know sockets, nor what a task is about. A server need not tell of anything; what may have been missed while
a connection was away is asked for once (SEP-2663, task status notifications; MCP spec 2026-07-28, basic/patterns/
subscriptions).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mcphub.connection.client import Client
from mcphub.connection.handshake import Ignored
from mcphub.connection.worker import Worker
from mcphub.gateway.agent import Agent
from mcphub.gateway.standing import Standing
from mcphub.gateway.task_handles import TaskHandles, shown_task
from mcphub.protocol import jsonrpc, serving, tasks
from mcphub.protocol.envelope import SUBSCRIPTION_KEY, RequestMeta, hub_meta_member
from mcphub.protocol.jsonrpc import Envelope, Raw
from mcphub.spec import InstanceKey

#: Tasks that one listen request may be about.
MAX_TASKS = 200
#: A stream that a server ended is asked for again after so long, doubling up to the second, seconds.
PAUSE, PAUSE_MOST = 0.05, 60.0
#: How long a server may take to say how a task is, seconds.
PATIENCE = 30.0

#: In a session's standing: the agent's ids by the server's, by server.
_RESUMED = "dev.mcphub/tasks"
_RESUMING = RequestMeta(modern=True, tasks=True)

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str).decode


class _Meta(msgspec.Struct, gc=False):
    subscription: int = msgspec.field(name=SUBSCRIPTION_KEY)


class _About(msgspec.Struct, gc=False):
    meta: _Meta = msgspec.field(name="_meta")


_about = msgspec.json.Decoder(_About).decode


class _Stream(msgspec.Struct, eq=False):
    """A listen request of an agent's, as far as it is about tasks of one server."""

    agent: Agent
    mid: bytes
    meta: RequestMeta
    key: InstanceKey
    #: The agent's ids by the server's.
    handles: dict[str, str]
    client: Client | None = None
    #: Our listen request there, 0 = none.
    listen: int = 0
    pause: float = PAUSE
    since: float = 0.0


class _State(Ignored):
    """The answer to how a task is, for who may have missed it."""

    def __init__(self, deadline: float, news: TaskNews, stream: _Stream) -> None:
        super().__init__(deadline)
        self._news, self._stream = news, stream

    def answered(self, env: Envelope) -> None:
        if not env.error:
            self._news.tell(self._stream, memoryview(env.result))


class TaskNews:
    """The streams of one hub. `workers` is the supervisor's table."""

    def __init__(self, workers: Mapping[InstanceKey, Worker], handles: TaskHandles) -> None:
        self._workers = workers
        self._handles = handles
        self._streams: list[_Stream] = []
        #: What agents of another daemon want to be told of, who have not said here who they are.
        self._later: dict[tuple[Agent, bytes], Mapping[str, Any]] = {}
        self._loop = asyncio.get_running_loop()

    # --- agents ------------------------------------------------------------------------------------------------------

    def granted(self, agent: Agent, notifications: Any) -> list[str]:
        """Of the tasks that a listen request names those that this agent has."""
        asked = notifications.get("taskIds") if isinstance(notifications, dict) else None
        found = []
        for handle in asked[:MAX_TASKS] if isinstance(asked, list) else ():
            try:
                if isinstance(handle, str):
                    self._handles.opened(agent, handle)
                    found.append(handle)
            except tasks.UnknownTask:
                pass
        return list(dict.fromkeys(found))

    def listen(self, agent: Agent, mid: bytes, meta: RequestMeta, handles: Sequence[str]) -> None:
        """Tell of these from now on."""
        by_server: dict[InstanceKey, dict[str, str]] = {}
        for handle in handles:
            try:
                key, own = self._handles.opened(agent, handle)
            except tasks.UnknownTask:
                continue
            by_server.setdefault(key, {})[own] = handle
        for key, found in by_server.items():
            self._begin(_Stream(agent, mid, meta, key, found))

    def _begin(self, stream: _Stream) -> None:
        self._streams.append(stream)
        self._open(stream)

    def resume(self, agent: Agent, mid: bytes, notifications: Mapping[str, Any]) -> None:
        """What was told of in another daemon is told of in this one, though its agent has not said who it is here. What
        it can be asked is not known either: of questions it hears when it asks."""
        for server, own in notifications.get(_RESUMED, {}).items():
            if (key := self._handles.instance(agent, server)) is not None:
                self._begin(_Stream(agent, mid, _RESUMING, key, dict(own)))
        if "taskIds" in notifications:  # of one that was killed only what the agent asked for is known
            self._later[agent, mid] = notifications
            self._listen_now(agent, mid)

    def _listen_now(self, agent: Agent, mid: bytes) -> None:
        if handles := self.granted(agent, self._later[agent, mid]):
            del self._later[agent, mid]
            self.listen(agent, mid, _RESUMING, handles)

    def end(self, agent: Agent, mid: bytes) -> None:
        """A listen request is over."""
        self._later.pop((agent, mid), None)
        for stream in [one for one in self._streams if one.agent == agent and one.mid == mid]:
            self._streams.remove(stream)
            self._close(stream)

    def left(self, agent: Agent) -> None:
        for mid in [one.mid for one in self._streams if one.agent == agent]:
            self.end(agent, mid)
        for _, mid in [key for key in self._later if key[0] == agent]:
            self.end(agent, mid)

    def standing(self, agent: Agent, standing: Standing) -> Standing:
        """With what this agent is told of."""
        for stream in self._streams:
            if stream.agent == agent and (listen := standing.listens.get(stream.mid.decode())) is not None:
                listen.setdefault(_RESUMED, {})[stream.key.name] = stream.handles
        return standing

    # --- servers -----------------------------------------------------------------------------------------------------

    def _open(self, stream: _Stream) -> None:
        worker = self._workers.get(stream.key)
        client = worker.client if worker is not None else None
        if client is None or client.over or client.era != "modern":
            if worker is not None:
                worker.wake_idle()
            return
        gap = stream.client is not None
        stream.client, stream.since = client, self._loop.time()
        answer = Ignored(float("inf"), lambda: self._ended(stream, client))
        params = b'"notifications":{"taskIds":%b}' % msgspec.json.encode(list(stream.handles))
        stream.listen = client.start(answer, "subscriptions/listen", params)
        if gap:
            for own in stream.handles:
                params = b'"taskId":%b%b' % (jsonrpc.quote(own), hub_meta_member(stream.meta.capabilities))
                client.send_request(_State(self._loop.time() + PATIENCE, self, stream), "tasks/get", params)

    def _close(self, stream: _Stream) -> None:
        if stream.client is not None and not stream.client.over and stream.listen:
            stream.client.withdraw(stream.listen, "nobody wants to know any more")
        stream.listen = 0

    def _ended(self, stream: _Stream, client: Client) -> None:
        """The server has ended it in order, or it broke."""
        if stream not in self._streams or client.over or stream.client is not client:
            return
        stream.listen = 0
        lasted = self._loop.time() - stream.since
        stream.pause = PAUSE if lasted > PAUSE_MOST else min(stream.pause * 2, PAUSE_MOST)
        self._loop.call_later(stream.pause, self._again, stream)

    def _again(self, stream: _Stream) -> None:
        if stream in self._streams and not stream.listen:
            self._open(stream)

    def renew(self) -> None:
        """Connections may be others now."""
        for agent, mid in list(self._later):
            self._listen_now(agent, mid)
        for stream in list(self._streams):
            if stream.key not in self._workers:
                self._close(stream)
                new = self._handles.instance(stream.agent, stream.key.name)
                if new is not None and new in self._workers:
                    stream.key = new
                    self._open(stream)
                continue
            client = self._workers[stream.key].client
            if client is not None and client is not stream.client and not client.over:
                self._open(stream)

    def acknowledged(self, client: Client, params: Raw) -> bool:
        """Whether a server says this of one of these."""
        return self._of(client, params) is not None

    def told(self, client: Client, params: Raw) -> bool:
        """A server's `notifications/tasks`. False where it is for nobody."""
        stream = self._of(client, params)
        return stream is not None and self.tell(stream, memoryview(params))

    def _of(self, client: Client, params: Raw) -> _Stream | None:
        if not self._streams:
            return None
        try:
            listen = _about(params).meta.subscription
        except (msgspec.DecodeError, RecursionError):
            return None
        return next((one for one in self._streams if one.client is client and one.listen == listen), None)

    def tell(self, stream: _Stream, task: memoryview) -> bool:
        """Tell its agent how a task is; False where that cannot be told."""
        server, agent = stream.key.name, stream.agent
        try:
            handle = stream.handles[_string(_members(task)["taskId"])]
            shown = shown_task(task, handle, server, lambda uri: agent.library.expose(server, uri), stream.meta)
            fields = _members(shown)
        except (ValueError, KeyError, RecursionError):
            return False
        del fields["resultType"], fields["_meta"]
        body = b"".join([jsonrpc.quote(k) + b":" + bytes(v) + b"," for k, v in fields.items()])
        params = b"{%b%b}" % (body, serving.subscription_meta(stream.mid))
        if stream in self._streams:
            agent.send(jsonrpc.notification_frame(tasks.NOTIFICATION, params))
        return True

"""Owns the Streamable HTTP endpoint for agents of both eras: from a request to the gateway, and back, in ASGI.

It must not know sockets, nor what a message asks for. A modern agent's request is a session of its own that ends with
its answer; a legacy agent has a session by id, and its requests outlive their connections. Sources: MCP spec
2026-07-28, basic/transports/streamable-http; 2025-11-25, basic/transports.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.abc
import msgspec
from starlette.types import Receive, Scope, Send

from mcphub.gateway.dispatch import Gateway
from mcphub.gateway.refusals import BAD_REQUEST
from mcphub.httpserver.document import send_json
from mcphub.httpserver.interrupt import Interruptible
from mcphub.protocol import jsonrpc
from mcphub.protocol.envelope import error_data
from mcphub.protocol.jsonrpc import UNSET, NotAMessage
from mcphub.protocol.one_line import on_one_line
from mcphub.protocol.versions import BATCH_VERSION, LEGACY
from mcphub.sessions import http_answer, http_replay
from mcphub.sessions.http_answer import Answer, Header
from mcphub.sessions.http_quick import QuickAnswers
from mcphub.sessions.http_replay import Shelf
from mcphub.sessions.http_request import (
    EVENT_HEADER,
    HEADER_MISMATCH,
    SESSION_HEADER,
    SHOWN,
    VERSION_HEADER,
    Head,
    Message,
    Refused,
    arguments_differ,
    read_head,
    read_message,
)
from mcphub.sessions.http_session import Exchange, HttpSession, Presence
from mcphub.sessions.session import Session
from mcphub.sessions.workspaces import Workspaces
from mcphub.store.workspace_ids import WorkspaceIds

if TYPE_CHECKING:
    # The daemon listens before uvicorn, whose import is long, is there.
    from mcphub.httpserver.connection import Connection

#: Seconds without a request after which a legacy session ends.
IDLE = 3600.0
#: Seconds for which a workspace stays in use after the last request of a modern agent, which never says that it goes.
WORKSPACE_IDLE = 900.0
#: Legacy sessions at once; beyond it the one that was quiet for longest ends.
MAX_SESSIONS = 1000
#: Heads of requests that are kept, and characters of header values up to which one is.
MAX_HEADS_KEPT = 256
MAX_HEAD_KEPT = 2048

#: HTTP status of a document by its JSON-RPC error code; everything else is 200 (MCP spec, streamable-http).
_LEGACY_STATUS = {jsonrpc.PARSE_ERROR: 400, jsonrpc.INVALID_REQUEST: 400}
_MODERN_STATUS = {
    **_LEGACY_STATUS,
    HEADER_MISMATCH: 400,
    -32021: 400,
    jsonrpc.UNSUPPORTED_PROTOCOL_VERSION: 400,
    jsonrpc.METHOD_NOT_FOUND: 404,
}
_STOPPING = "mcphub is stopping; the request was not answered, and may have had effects"
_STOPPING_DATA = error_data("outcome_unknown")

CANCELLED = "notifications/cancelled"


class _CancelledParams(msgspec.Struct):
    requestId: int | str


class _Cancellation(msgspec.Struct):
    params: _CancelledParams


_cancellation = msgspec.json.Decoder(_Cancellation).decode

Log = Callable[[str, str], None]


def refusal(status: int, message: str) -> bytes:
    """The body of a refused request: a JSON-RPC error without an id."""
    code = jsonrpc.INTERNAL_ERROR if status >= 500 else jsonrpc.INVALID_REQUEST
    return jsonrpc.error_frame(b"null", code, message, _data(status))


def _data(status: int) -> bytes:
    if status < 500:
        return BAD_REQUEST
    return error_data("stopping" if status == 503 else "internal")


class HttpEndpoint:
    """The agents of one daemon that come over HTTP. `running` must be open while it is called.

    In a request's scope, `state["principal"]` says who asks, `state["pid"]` its process where that is known, and
    `state["token"]` what the request must bring, None = nothing.
    """

    def __init__(
        self,
        gateway: Gateway,
        workspaces: Workspaces,
        ids: WorkspaceIds,
        numbers: Iterator[int],
        log: Log,
        report: Callable[[BaseException], None],
        news: Callable[[], None],
    ) -> None:
        """`news` is called when there are other sessions; a request of a modern agent is none."""
        self.sessions: dict[str, HttpSession] = {}
        self._gateway = gateway
        self._workspaces = workspaces
        self._ids = ids
        self._numbers = numbers
        self._log = log
        self._report = report
        self._news = news
        self._loop = asyncio.get_running_loop()
        self._passing: dict[Session, Answer] = {}
        self._present: dict[str, Presence] = {}
        self._heads: dict[tuple[object, ...], Head] = {}
        self._open = 0
        self._all_written = anyio.Event()
        self._closing = False
        self._tasks: anyio.abc.TaskGroup | None = None
        self._interruptible = Interruptible(self._answer, refusal)
        self._quick = QuickAnswers(refusal, lambda: http_answer.KEEP_ALIVE)
        self._primed = QuickAnswers(refusal, lambda: http_replay.OPENS_AFTER)
        self._shelf = Shelf()

    def agents(self) -> list[Session]:
        """Everyone who is attached now: legacy sessions, and modern agents that wait for an answer."""
        return [one.agent for one in self.sessions.values()] + list(self._passing)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Hold what sessions hold, until the context ends; then sessions and presences end."""
        async with anyio.create_task_group() as self._tasks:
            try:
                yield
            finally:
                self._tasks.cancel_scope.cancel()

    async def finish(self, limit: float) -> None:
        """End every answer and stream in order, and wait until they are written, for so many seconds at most."""
        self._closing = True
        for answer in list(self._passing.values()):
            answer.end(_STOPPING, _STOPPING_DATA)
        for session in list(self.sessions.values()):
            session.end(_STOPPING, _STOPPING_DATA)
        if self._open:
            with anyio.move_on_after(limit):
                await self._all_written.wait()

    def close(self) -> None:
        """End whatever is still open."""
        self._interruptible.close()
        self._quick.close()
        self._primed.close()
        self._shelf.close()

    # --- requests ----------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope["state"]
        head = self._head(scope["method"], scope["path"], scope["headers"], state["token"])
        if self._closing and not isinstance(head, Refused):
            head = Refused(503, "mcphub is stopping", {"connection": "close"})
        if isinstance(head, Refused):
            await _refuse(send, head)  # before a byte of its body is read
            return
        state["head"] = head
        self._open += 1
        try:
            await self._interruptible(scope, receive, send)
        finally:
            self._one_less()

    def _one_less(self) -> None:
        self._open -= 1
        if self._closing and not self._open:
            self._all_written.set()

    def at_once(self, connection: Connection, body: bytes) -> bool:
        """Take a request in the callback that has read it; False where it must go the long way, and nothing was done.

        These are the requests of agents that are known already: there is nothing to wait for but the answer.
        """
        if self._closing:
            return False
        scope = connection.scope
        state = scope["state"]
        head = self._head(scope["method"], scope["path"], scope["headers"], state["token"])
        if isinstance(head, Refused) or head.method != "POST":
            return False
        directory = self._ids.directory(head.workspace) if head.workspace else ""
        if directory is None:
            return False
        body = on_one_line(body)
        message = read_message(body, head)
        if message.kind != "request" or message.refusal is not None:
            return False
        if message.modern:
            return self._modern_at_once(connection, head, directory, message, body, state["pid"])
        if message.method == "initialize":
            return False
        session = self._session(head, state["principal"])
        if isinstance(session, Refused):
            return False
        answer = Answer([message.mid], home=session)

        def over() -> None:
            # Where the client has hung up, the call runs on: in this era that is no cancellation.
            if answer.gone():
                session.over(answer)
            session.presence.__exit__()
            self._one_less()

        session.presence.__enter__()
        session.answers[answer] = None
        self._open += 1
        (self._primed if session.primes else self._quick).begin(connection, answer, _LEGACY_STATUS, over)
        self._gateway.dispatch(Exchange(session.agent, answer), memoryview(body))
        return True

    def _modern_at_once(
        self, connection: Connection, head: Head, directory: str, message: Message, body: bytes, pid: int | None
    ) -> bool:
        presence = self._present.get(directory)
        if presence is None or not presence.ready.is_set() or presence.over.is_set():
            return False
        if message.method == "server/discover" or self._unknown_server(head, directory) is not None:
            return False
        agent = self._agent(head, directory, pid)
        agent.era, agent.passing = "modern", True
        self._gateway.join(agent)
        if self._refused_by_headers(agent, head, message) is not None:
            self._gateway.leave(agent)
            return False
        answer = Answer([message.mid])
        agent.use(answer)

        def over() -> None:
            # Where the client has hung up, this is what it means to say: cancel.
            answer.gone()
            self._gateway.leave(agent)
            del self._passing[agent]
            presence.__exit__()
            self._one_less()

        presence.__enter__()
        self._passing[agent] = answer
        self._open += 1
        self._quick.begin(connection, answer, _MODERN_STATUS, over)
        self._gateway.dispatch(agent, memoryview(body))
        return True

    def _head(
        self, method: str, path: str, raw_headers: Iterable[tuple[bytes, bytes]], token: str | None
    ) -> Head | Refused:
        """As `read_head`; an agent sends the same head with every request, or nearly."""
        key = (method, path, token, *raw_headers)
        head: Head | Refused | None = self._heads.get(key)
        if head is None:
            head = read_head(method, path, raw_headers, token)
            if isinstance(head, Head) and sum(map(len, head.headers.values())) < MAX_HEAD_KEPT:
                if len(self._heads) >= MAX_HEADS_KEPT:
                    self._heads.clear()
                self._heads[key] = head
        return head

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope["state"]
        head: Head = state["head"]
        directory = self._ids.directory(head.workspace) if head.workspace else ""
        if directory is None:
            text = f"no workspace has the id {head.workspace[:SHOWN]!r}: `mcphub connect --print-url --workspace DIR`"
            await _refuse(send, Refused(404, text))
            return
        if head.method == "POST":
            body = on_one_line((await receive())["body"])
            message = read_message(body, head)
            if message.kind == "unreadable" or message.refusal is not None:
                await _refuse_message(send, message)
            elif message.modern:
                await self._modern(head, directory, message, body, state["pid"], send)
            elif message.method == "initialize" and message.kind == "request":
                await self._initialize(head, directory, message, body, state, send)
            else:
                session = self._session(head, state["principal"])
                if isinstance(session, Refused):
                    await _refuse(send, session, message.mid)
                else:
                    await self._legacy(session, message, body, send)
            return
        session = self._session(head, state["principal"])
        if isinstance(session, Refused):
            await _refuse(send, session)
        elif head.method == "DELETE":
            self._end_session(session)
            await _empty(send, 204)
        elif head.headers.get(EVENT_HEADER):
            await self._resume(session, head.headers[EVENT_HEADER], send)
        elif session.stream.read:
            await _refuse(send, Refused(409, "this session has its stream already: it takes one GET at a time"))
        else:
            with session.presence:
                await session.stream.write(send)

    # --- modern ------------------------------------------------------------------------------------------------------

    async def _modern(
        self, head: Head, directory: str, message: Message, body: bytes, pid: int | None, send: Send
    ) -> None:
        if message.kind == "notification":
            await _empty(send, 202)  # this era has none over HTTP; they are taken, and nothing is done
            return
        if message.kind != "request":
            text = "the body must be one request or notification: 2026-07-28 has neither batches nor client responses"
            await _refuse(send, Refused(400, text))
            return
        presence = await self._attend(directory, message)
        with presence:
            unknown = self._unknown_server(head, directory)
            if unknown is not None:
                await _refuse(send, unknown, message.mid)
                return
            agent = self._agent(head, directory, pid)
            agent.era, agent.passing = "modern", True
            answer = Answer([message.mid])
            agent.use(answer)
            self._passing[agent] = answer
            self._gateway.join(agent)
            try:
                refused = self._refused_by_headers(agent, head, message)
                if refused is not None:
                    await _refuse_message(send, msgspec.structs.replace(message, refusal=refused))
                    return
                self._gateway.dispatch(agent, memoryview(body))
                await answer.write(send, lambda code: _MODERN_STATUS.get(code, 200))
            finally:
                # Where the client has hung up, this is what it means to say: cancel.
                answer.gone()
                self._gateway.leave(agent)
                del self._passing[agent]

    def _refused_by_headers(self, agent: Session, head: Head, message: Message) -> tuple[int, str] | None:
        """What is wrong with the headers that repeat arguments of a tool call; None = nothing."""
        route = agent.toolset.routes.get(message.tool)
        if route is None:
            return None
        schema = dict(route.definition.members)[b'"inputSchema"']
        return arguments_differ(head, schema, message.arguments)

    async def _attend(self, directory: str, message: Message) -> Presence:
        """The presence of modern agents in a workspace, which is held by it."""
        presence = self._present.get(directory)
        if presence is None or presence.over.is_set():
            presence = self._present[directory] = Presence()
            assert self._tasks is not None
            self._tasks.start_soon(self._hold_workspace, directory, presence)
            await presence.ready.wait()
        elif message.method == "server/discover":
            await self._workspaces.tick()  # an agent begins, so look whether the files have changed
        return presence

    async def _hold_workspace(self, directory: str, presence: Presence) -> None:
        with self._guarded(presence):
            async with self._workspaces.using(directory):
                presence.ready.set()
                await presence.until_idle(WORKSPACE_IDLE)
                presence.over.set()
                if self._present.get(directory) is presence:
                    del self._present[directory]

    # --- legacy ------------------------------------------------------------------------------------------------------

    def _session(self, head: Head, principal: str) -> HttpSession | Refused:
        """The session that a request belongs to."""
        name = head.headers.get(SESSION_HEADER)
        if name is None:
            text = (
                "the Mcp-Session-Id header is missing: say `initialize` first (MCP up to 2025-11-25), or send `_meta` "
                "and the headers of 2026-07-28 on every request"
            )
            return Refused(400, text)
        session = self.sessions.get(name)
        if session is None or session.principal != principal or session.path != head.path:
            return Refused(404, "this session has ended, or never was: begin a new one with `initialize`")
        version = head.headers.get(VERSION_HEADER, LEGACY[0])
        if version not in LEGACY:
            known = ", ".join(LEGACY)
            return Refused(400, f"unsupported MCP-Protocol-Version {version[:SHOWN]!r}: a session has one of {known}")
        return session

    async def _initialize(
        self, head: Head, directory: str, message: Message, body: bytes, state: dict[str, object], send: Send
    ) -> None:
        pid = state["pid"]
        agent = self._agent(head, directory, pid if isinstance(pid, int) else None)
        session = HttpSession(agent, str(state["principal"]), head.path, self._shelf)
        assert self._tasks is not None
        self._tasks.start_soon(self._hold_session, session)
        await session.presence.ready.wait()
        unknown = self._unknown_server(head, directory)
        if unknown is not None:
            session.end()
            await _refuse(send, unknown, message.mid)
            return
        self._gateway.join(agent)
        answer = Answer([message.mid])
        self._gateway.dispatch(Exchange(agent, answer), memoryview(body))
        headers: list[Header] = []
        if agent.version and not self._closing:
            self._make_room()
            self.sessions[session.id] = session
            self._news()
            headers.append((b"mcp-session-id", session.id.encode()))
        else:
            session.end()
        await answer.write(send, lambda code: _LEGACY_STATUS.get(code, 200), headers)

    async def _hold_session(self, session: HttpSession) -> None:
        agent = session.agent
        why = ""
        with self._guarded(session.presence):
            try:
                async with self._workspaces.using(agent.workspace, str(agent.number)) as agent.workspace:
                    session.presence.ready.set()
                    why = await session.presence.until_idle(IDLE)
            finally:
                self._end_session(session)
        if why == "idle":
            self._log("info", f"the session of the agent {agent.client or agent.number} ended: idle for {IDLE:g} s")

    def _make_room(self) -> None:
        if len(self.sessions) >= MAX_SESSIONS:
            idle = [(s.presence.idle_since, s) for s in self.sessions.values()]
            oldest = min(((at, s.agent.number, s) for at, s in idle if at is not None), default=None)
            if oldest is not None:
                self._log("warning", f"{MAX_SESSIONS} sessions over HTTP are open; the one idle for longest ends")
                self._end_session(oldest[2])

    def _end_session(self, session: HttpSession) -> None:
        """Nothing is known of it any more; what it waits for is cancelled. Harmless for one that has ended."""
        if self.sessions.pop(session.id, None) is not None:
            self._news()
        self._gateway.leave(session.agent)
        session.end()

    async def _legacy(self, session: HttpSession, message: Message, body: bytes, send: Send) -> None:
        mids = [message.mid] if message.kind == "request" else []
        parts = _parts(body, session.agent.version) if message.kind == "batch" else []
        if message.kind == "batch":
            mids = [mid for mid in map(_answered_id, parts) if mid] if parts else [b"null"]
        answer = Answer(mids, batch=bool(parts), home=session)
        with session.presence:
            session.answers[answer] = None
            try:
                self._gateway.dispatch(Exchange(session.agent, answer), memoryview(body))
                if message.method == CANCELLED:
                    session.forget(_cancelled_id(body))
                if mids:
                    await answer.write(send, lambda code: _LEGACY_STATUS.get(code, 200))
                else:
                    await _empty(send, 202)
            finally:
                # As where it is answered at once: the call runs on.
                if answer.gone():
                    session.over(answer)

    async def _resume(self, session: HttpSession, event_id: str, send: Send) -> None:
        found = session.stream_of(event_id)
        if found is None:
            # Not a stream that ends at once: clients would come back for ever.
            known = "it was cancelled, is over for long, or is another session's"
            text = f"no stream with the event {event_id[:SHOWN]!r} is kept in this session: {known}"
            await _refuse(send, Refused(400, text))
            return
        answer, number = found
        with session.presence:
            await answer.resume(send, number)

    # --- both --------------------------------------------------------------------------------------------------------

    def _agent(self, head: Head, directory: str, pid: int | None) -> Session:
        agent = Session(
            next(self._numbers), self._gateway, client="", workspace=directory, pid=pid, since=self._loop.time()
        )
        agent.view = head.server
        return agent

    def _unknown_server(self, head: Head, directory: str) -> Refused | None:
        if not head.server or head.server in self._gateway.seen(directory, head.server):
            return None
        return Refused(404, f"no server is named {head.server[:SHOWN]!r} here: `mcphub status` lists them")

    @contextmanager
    def _guarded(self, presence: Presence) -> Iterator[None]:
        """What fails in a background task of one agent ends this agent, and is reported; nobody waits for it."""
        try:
            yield
        except Exception as e:
            self._report(e)
        finally:
            presence.over.set()
            presence.ready.set()


def _cancelled_id(body: bytes) -> bytes:
    """The id, as JSON, of the request that a cancellation speaks of; b"" where it cannot be told."""
    try:
        return jsonrpc.encode_id(_cancellation(body).params.requestId)
    except (msgspec.DecodeError, RecursionError):
        return b""


def _parts(body: bytes, version: str) -> list[bytes]:
    """The elements of a batch, none of one that is refused as a whole."""
    try:
        return jsonrpc.split_batch(body) if version == BATCH_VERSION else []
    except NotAMessage:
        return []


def _answered_id(part: bytes) -> bytes:
    """The id, as JSON, under which an element of a batch is answered; b"" where it is not."""
    try:
        env = jsonrpc.decode(part)
    except NotAMessage:
        return b"null"
    return b"" if env.method is None or env.id is UNSET else jsonrpc.encode_id(env.id)


async def _refuse(send: Send, refused: Refused, mid: bytes = b"null") -> None:
    code = jsonrpc.INTERNAL_ERROR if refused.status >= 500 else jsonrpc.INVALID_REQUEST
    body = jsonrpc.error_frame(mid, code, refused.message, _data(refused.status))
    await send_json(send, refused.status, body, refused.headers)


async def _refuse_message(send: Send, message: Message) -> None:
    code, text = message.refusal or (jsonrpc.PARSE_ERROR, "cannot parse the message")
    status = 400 if code == jsonrpc.INVALID_PARAMS else _MODERN_STATUS.get(code, 400)
    await send_json(send, status, jsonrpc.error_frame(message.mid, code, text, BAD_REQUEST))


async def _empty(send: Send, status: int) -> None:
    headers = [] if status == 204 else [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})

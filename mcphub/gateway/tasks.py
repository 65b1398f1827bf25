"""Owns the tasks that servers make of calls whose agents know of none: followed here, so that the agent gets a result.

It must not know sockets, nor keep a task for an agent that has a handle of it (task_handles). The call stays in flight
for its agent, while its server is asked for the task now and then, on whatever connection there is: a task outlives
one, and asking changes nothing. No task of the loop is made for it, only a timer (bridging, tasks; SEP-2663; MCP spec
2025-11-25, basic/utilities/tasks).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from mcphub.channel import Data
from mcphub.connection import capability_sets
from mcphub.connection.client import Client
from mcphub.connection.handshake import Ignored
from mcphub.connection.worker import Worker
from mcphub.gateway.askable import Undeclared
from mcphub.gateway.call import AgentCall, Caller, check_at
from mcphub.gateway.rounds import Rounds
from mcphub.gateway.turns import Turns
from mcphub.protocol import jsonrpc, tasks
from mcphub.protocol.envelope import error_data, request_meta, traced
from mcphub.protocol.jsonrpc import Envelope, Raw
from mcphub.spec import InstanceKey
from mcphub.store import call_record

#: How long a server may take to say how a task is, seconds; it is asked again then.
PATIENCE = 60.0
#: How often it is looked whether there is a connection again, seconds.
AGAIN = 1.0
#: Answers that are no help, one after the other, until a task counts as gone.
MOST_FAILURES = 5
#: How often it is tried to cancel a task while there is no connection.
CANCEL_TRIES = 60
#: Tasks that wait for an agent to come back with answers.
MOST_LEFT = 1000
#: Kinds of `unanswered` that say something of the answer itself, or of the time: another connection would not help.
_FINAL = frozenset(["timeout", "unreadable", "stopping"])
#: What it means for a call that has become a task where a request about that was not sent.
_OF_THE_TASK = {"overdue": "timeout", "unsent": "lost"}

_members = msgspec.json.Decoder(dict[str, Raw]).decode


class Following(msgspec.Struct, eq=False):
    """What is known of the task that a call became. It holds no call, so that no circle outlives one."""

    of: Tasks
    #: The server's own.
    id: str
    #: Of the legacy era.
    old: bool
    #: What was asked, and is answered or being so, by the server's keys.
    asked: set[str] = msgspec.field(default_factory=set)
    #: Answers that its server has not acknowledged, as a member with a leading comma.
    unsent: bytes = b""
    #: `tasks/result` is in flight, as the call's own request.
    ending: bool = False
    #: Its server says that it ended without a result.
    cancelled: bool = False
    interval: float | None = None
    #: When its server last said how it is, monotonic seconds.
    last: float = 0.0
    polls: int = 0
    failures: int = 0
    #: What it last said of itself, and the progress that was.
    said: str = ""
    step: int = 0
    timer: asyncio.TimerHandle | None = None
    #: The request in flight, 0 = none, and where.
    request: int = 0
    client: Client | None = None
    #: The connection on which it counts as a call.
    at: Client | None = None

    def over(self, call: AgentCall) -> None:
        """The call has ended before the task did."""
        self.of.drop(call, self)

    def brought(self, call: AgentCall, answers: Mapping[str, bytes]) -> None:
        """A legacy agent has answered what the task asks."""
        self.of.brought(call, self, answers)


class TaskCall(AgentCall, gc=False, eq=False):
    """A call of a tool that its legacy server takes as a task only."""

    def start(self, arguments: Data, more: bytes) -> None:
        if self.client.era == "legacy":
            # As long as it may be followed, its server should know it.
            more = b',"task":{"ttl":%d}%b' % (int((self.hard - self.began) * 1000), more)
        super().start(arguments, more)

    def answered(self, env: Envelope) -> None:
        run = self.task
        if run is not None:
            run.of.release(self)
            if env.error and run.cancelled:
                _settle(self, call_record.UNKNOWN, "task_cancelled")
                self.accounted = False
            env = env if env.error else Envelope(id=env.id, result=Raw(tasks.plain(memoryview(env.result))))
        elif self._became(env):
            return
        super().answered(env)

    def _became(self, env: Envelope) -> bool:
        """Whether it became one, which is followed."""
        if env.error or self.client.era != "legacy" or self.caller.tasks is None:
            return False
        return self.caller.tasks.made_old(self, memoryview(env.result))

    def unanswered(self, kind: str, message: str) -> None:
        run = self.task
        if run is not None:
            kind = _OF_THE_TASK.get(kind, kind)
        if run is not None and run.ending and kind not in _FINAL:
            run.of.lost(self, run)
        else:
            super().unanswered(kind, message)


class _Request:
    """A request about the task of a call. Implements correlate.Waiter."""

    __slots__ = ("_call", "_of", "_run", "_then", "deadline", "hard", "idle")

    def __init__(
        self, of: Tasks, call: AgentCall, run: Following, deadline: float, then: Callable[[Envelope], None]
    ) -> None:
        self.deadline = self.hard = deadline
        self.idle = PATIENCE  # an agent waits for it
        self._of, self._call, self._run, self._then = of, call, run, then

    def answered(self, env: Envelope) -> None:
        if self._call.task is self._run:
            self._run.request, self._run.client = 0, None
            self._then(env)

    def unanswered(self, kind: str, message: str) -> None:
        if self._call.task is self._run:
            self._run.request, self._run.client = 0, None
            self._of.lost(self._call, self._run)

    def progressed(self, params: Raw) -> None:
        pass


class Tasks:
    """The tasks that one hub follows. Implements gateway.call.Tasks."""

    def __init__(
        self,
        workers: Mapping[InstanceKey, Worker],
        rounds: Rounds,
        turns: Turns,
        handle: Callable[[Caller, str, str], str],
        patience: Callable[[InstanceKey], float],
    ) -> None:
        self._workers = workers
        self._rounds = rounds
        self._turns = turns
        self._handle = handle
        self._patience = patience
        #: Tasks whose agent has been asked: what ends those that it never comes back for, and when the next question to
        #: their server may be.
        self._left: dict[tuple[InstanceKey, str], tuple[asyncio.TimerHandle, float]] = {}
        self._loop = asyncio.get_running_loop()

    # --- beginnings --------------------------------------------------------------------------------------------------

    def made(self, call: AgentCall, result: memoryview) -> None:
        """A call's modern server answered that it became a task. The call has ended but for that."""
        try:
            if call.asked_for != "tools/call":
                raise tasks.NotATask(f"{call.asked_for} cannot become one")
            task = tasks.read(result)
            if call.meta.tasks:
                handle = self._handle(call.caller, call.server, task.id)
                shown = tasks.shown(result, handle, "task", call.client.counters)
                _settle(call, call_record.TASK)
                call.caller.send(jsonrpc.result_frame(call.mid, shown))
                return
        except tasks.NotATask as e:
            _settle(call, call_record.UNKNOWN, "unreadable")
            text = f"the server {call.server} made a task of {call.asked_for} that is none: {e}"
            call.error("unsupported_result", text)
            return
        self._follow(call, Following(self, task.id, False), task)

    def made_old(self, call: AgentCall, result: memoryview) -> bool:
        """Whether a call's legacy server answered that it became a task, which is followed then."""
        try:
            task = tasks.read_old_made(result)
        except tasks.NotATask:
            return False
        if task is None:
            return False
        if call.turns is not None:
            call.replied = True
            call.turns.ended(call)  # it holds nobody up while it is only asked for
        self._follow(call, Following(self, task.id, True), task)
        return True

    def _follow(self, call: AgentCall, run: Following, task: tasks.Task) -> None:
        self._hold(call, run)
        call.caller.calls[call.mid] = call
        if task.ended and not run.old:
            run.last = self._loop.time() - tasks.PAUSE_MOST  # how it ended is had by asking, at once
            self._tell(call, run, task)
            self._later(call, run)
        else:
            self._take(call, run, task)

    def resumed(self, call: AgentCall, task: str, asked: tuple[str, ...], more: bytes) -> None:
        """A modern agent comes back to the call of this task, which asked it something. `more` are its answers, as a
        member with a leading comma, b"" = it brings none."""
        try:
            answered = _members(_members(b"{%b}" % more[1:])["inputResponses"]).keys() if more else ()
        except (msgspec.DecodeError, RecursionError, KeyError):
            call.over()
            data = traced(error_data("invalid_params"), call.meta.trace)
            frame = jsonrpc.error_frame(call.mid, jsonrpc.INVALID_PARAMS, "`inputResponses` must be an object", data)
            call.caller.send(frame)
            return
        if call.accounts is not None and call.round is not None:
            call.accounts.resumed(call, call.round.arguments)
        self._hold(call, run := Following(self, task, False, {*asked, *answered}, more))
        timer, free = self._left.pop((call.key, task), (None, 0.0))
        if timer is not None:
            timer.cancel()
        run.last, run.interval = free, 0.0
        if more:
            self._update(call, run)
        else:
            self._later(call, run)

    def _hold(self, call: AgentCall, run: Following) -> None:
        """Follow it from now on."""
        call.task = run
        self._count(run, call.client)

    def release(self, call: AgentCall) -> None:
        """Follow it no more."""
        run, call.task = call.task, None
        self._count(run, None)

    def _count(self, run: Following, client: Client | None) -> None:
        """Between two requests, too, somebody waits for something there: its server must not be stopped as unused."""
        if run.at is not None:
            run.at.followed -= 1
        if client is not None:
            client.followed += 1
        run.at = client

    # --- how it is ---------------------------------------------------------------------------------------------------

    def _take(self, call: AgentCall, run: Following, task: tasks.Task) -> None:
        """Its server has said how it is."""
        run.last, run.interval, run.failures = self._loop.time(), task.interval, 0
        run.cancelled = task.status == "cancelled"
        self._tell(call, run, task)
        if run.old and (task.ended or (task.status == "input_required" and self._turns.is_free(call))):
            self._end_old(call, run)
        elif task.ended:
            self._end(call, task)
        elif task.inputs.keys() - run.asked:
            self._needs_input(call, run, {k: v for k, v in task.inputs.items() if k not in run.asked})
        elif task.inputs and run.unsent:
            self._update(call, run)  # nobody knows whether it got them, and it says that it did not
        else:
            self._later(call, run)

    def _tell(self, call: AgentCall, run: Following, task: tasks.Task) -> None:
        if not task.message or task.message == run.said or not call.meta.progress_token:
            return
        run.said = task.message
        highest = call.progress
        run.step = max(run.step, int(highest) if 0.0 <= highest < 1e15 else 0) + 1
        call.progressed(Raw(tasks.told(run.step, task.message)))

    def _later(self, call: AgentCall, run: Following) -> None:
        """Ask again when that may be done. That it is there is a sign of life, as progress is."""
        now = self._loop.time()
        at = max(now, run.last + (tasks.pause(run.interval, run.polls) if run.interval != 0.0 else 0.0))
        call.deadline = max(call.deadline, min(at + call.idle, call.hard))
        self._at(call, run, at)

    def _at(self, call: AgentCall, run: Following, at: float) -> None:
        run.timer = self._loop.call_at(min(at, call.deadline), self._poll, call, run)

    def _poll(self, call: AgentCall, run: Following) -> None:
        run.timer = None
        now = self._loop.time()
        if now >= call.deadline:
            self.drop(call, run)
            call.unanswered("timeout", "no answer in time")
            return
        client = self._client_of(call, run)
        if client is None:
            self._at(call, run, now + AGAIN)
            return
        run.polls += 1
        self._ask(call, run, client, "tasks/get", b"", lambda env: self._polled(call, run, env))

    def _polled(self, call: AgentCall, run: Following, env: Envelope) -> None:
        if env.error:
            error = jsonrpc.read_error(env.error)
            self._useless(call, run, error.message, final=error.code == jsonrpc.INVALID_PARAMS)
            return
        try:
            task = (tasks.read_old if run.old else tasks.read)(memoryview(env.result))
        except tasks.NotATask as e:
            self._useless(call, run, str(e))
        else:
            self._take(call, run, task)

    def _useless(self, call: AgentCall, run: Following, why: str, *, final: bool = False) -> None:
        run.failures += 1
        if final or run.failures >= MOST_FAILURES:
            self.drop(call, run, cancel=not final)
            call.unanswered("task", f"made a task of {call.tool}, and no longer tells of it: {why}")
            return
        run.last = self._loop.time()
        self._later(call, run)

    def lost(self, call: AgentCall, run: Following) -> None:
        """A request about it was not answered: it is asked again, over the next connection if this one has ended."""
        run.ending = False
        if not call.client.over:
            self._useless(call, run, "its server does not answer")
        else:
            self._at(call, run, self._loop.time() + AGAIN)

    def _client_of(self, call: AgentCall, run: Following) -> Client | None:
        """The connection that it is asked over; None = there is none now."""
        if not call.client.over:
            return call.client
        worker = self._workers.get(call.key)
        client = worker.client if worker is not None else None
        if worker is None or client is None or client.over:
            if worker is not None:
                worker.wake_idle()
            return None
        meta = call.meta
        if worker.sessions is not None:
            declares = capability_sets.declared_by(meta.capabilities) if meta.modern else call.caller.declares
            client = worker.sessions.client_for(client, meta.modern, declares)
        if (client.era == "legacy") != run.old:
            return None  # it is another server by now
        call.client = client
        self._count(run, client)
        return client

    def _ask(
        self,
        call: AgentCall,
        run: Following,
        client: Client,
        method: str,
        more: bytes,
        then: Callable[[Envelope], None],
    ) -> None:
        request = _Request(self, call, run, min(self._loop.time() + PATIENCE, call.hard), then)
        run.client = client
        run.request = client.send_request(request, method, _params(call, client, run, more))

    # --- questions ---------------------------------------------------------------------------------------------------

    def _needs_input(self, call: AgentCall, run: Following, inputs: Mapping[str, Raw]) -> None:
        """The agent is asked in its own way; meanwhile nothing is asked of the server."""
        caller = call.caller
        caller.calls.pop(call.mid, None)
        result = memoryview(tasks.asking(inputs))
        if not call.meta.modern and caller.older is not None:
            run.asked |= inputs.keys()
            caller.older.needs_input(call, result)
            if caller.calls.get(call.mid) is not call and call.task is run:
                self.drop(call, run)  # it could not be asked, and was told so
                _settle(call, call_record.UNKNOWN, "task_cancelled")
            return
        assert call.round is not None
        try:
            frame = jsonrpc.result_frame(call.mid, self._rounds.asking(call, call.round, result))
        except Undeclared as e:
            call.undeclared(e)
            self.drop(call, run)
            _settle(call, call_record.UNKNOWN, "task_cancelled")
            return
        except ValueError as e:
            self.drop(call, run)
            _settle(call, call_record.UNKNOWN, "task_cancelled")
            text = f"the server {call.server} asks for input in a way that cannot be carried: {e}"
            call.error("unsupported_result", text)
            return
        self._leave(call, run)
        _settle(call, call_record.INPUT)
        caller.send(frame)

    def _leave(self, call: AgentCall, run: Following) -> None:
        """Nothing is kept of it but what ends it if its agent never comes back."""
        self.release(call)
        key, client, meta = call.key, call.client, _params(call, call.client, run, b"")

        def give_up() -> None:
            self._left.pop((key, run.id), None)
            self._cancel(key, client, meta)

        timer = self._loop.call_later(self._patience(key) + PATIENCE, give_up)
        self._left[key, run.id] = timer, run.last + tasks.pause(run.interval, run.polls)
        if len(self._left) > MOST_LEFT:
            self._left.pop(next(iter(self._left)))[0].cancel()

    def brought(self, call: AgentCall, run: Following, answers: Mapping[str, bytes]) -> None:
        """A legacy agent has answered all that it was asked."""
        call.run_on(self._loop.time())
        run.unsent = b',"inputResponses":{%b}' % b",".join([jsonrpc.quote(k) + b":" + v for k, v in answers.items()])
        self._update(call, run)

    def _update(self, call: AgentCall, run: Following) -> None:
        """Its server ignores answers that it has already, so they can be sent again (SEP-2663, task update)."""
        client = self._client_of(call, run)
        if client is None:
            self._at(call, run, self._loop.time() + AGAIN)
            return

        def taken(env: Envelope) -> None:
            if env.error:
                self.drop(call, run)
                _settle(call, call_record.UNKNOWN, "task_cancelled")
                call.accounted = False
                call.answered(Envelope(error=env.error))
                return
            run.unsent = b""
            self._later(call, run)

        self._ask(call, run, client, "tasks/update", run.unsent, taken)

    # --- ends --------------------------------------------------------------------------------------------------------

    def _end_old(self, call: AgentCall, run: Following) -> None:
        """Have its result, which is the call's own request from here on, and so is what its server asks before that."""
        client = self._client_of(call, run)
        if client is None:
            self._at(call, run, self._loop.time() + AGAIN)
            return
        run.ending = True
        now = self._loop.time()
        call.deadline = max(call.deadline, min(now + call.idle, call.hard))
        call.up_id = client.send_request(call, "tasks/result", _params(call, client, run, b""))

    def _end(self, call: AgentCall, task: tasks.Task) -> None:
        self.release(call)
        if task.status == "completed" and task.result and tasks.is_final(task.result):
            call.answered(Envelope(result=task.result))
        elif task.status == "failed" and task.error:
            call.answered(Envelope(error=task.error))
        elif task.status == "cancelled":
            text = f"the server {call.server} ended the task of {call.tool} as cancelled"
            text = (f"{text}: {task.message}" if task.message else text) + check_at(call.operation_id())
            self._fail(call, "task_cancelled", text, "task_cancelled")
        else:
            text = f"the server {call.server} ended a task as {task.status}, without what it came to"
            self._fail(call, "unsupported_result", text, "unreadable")

    def _fail(self, call: AgentCall, kind: str, text: str, reason: str) -> None:
        """It is the server that has ended it; what came of the call is not known, for this reason of the journal's."""
        _settle(call, call_record.UNKNOWN, reason)
        call.accounted = False
        call.ended_there(kind, text)

    def drop(self, call: AgentCall, run: Following, *, cancel: bool = True) -> None:
        """It is followed no more, and nobody wants it."""
        self.release(call)
        if run.timer is not None:
            run.timer.cancel()
            run.timer = None
        if run.client is not None and not run.client.over:
            run.client.withdraw(run.request, "nobody waits for it")
        if cancel:
            self._cancel(call.key, call.client, _params(call, call.client, run, b""))

    def _cancel(self, key: InstanceKey, client: Client, params: bytes, tries: int = 0) -> None:
        era = client.era
        if client.over:
            worker = self._workers.get(key)
            client = worker.client if worker is not None and worker.client is not None else client
        if not client.over and client.era == era:
            client.send_request(Ignored(self._loop.time() + PATIENCE), "tasks/cancel", params)
        elif tries < CANCEL_TRIES and key in self._workers:
            self._loop.call_later(AGAIN, self._cancel, key, client, params, tries + 1)


def takes_tasks(worker: Worker) -> bool:
    """Whether it said, when it was last connected, that it makes tasks of calls to tools in the legacy era."""
    return worker.facts is not None and tasks.offers_old(worker.facts.capabilities)


def _params(call: AgentCall, client: Client, run: Following, more: bytes) -> bytes:
    """Of a request about it, as members without braces: what the agent can do is what it was when it called."""
    meta = msgspec.structs.replace(call.meta, progress_token=b"", log_level="")
    tail = request_meta(client.era == "modern", meta, 0, call.caller.offers)
    return b'"taskId":' + jsonrpc.quote(run.id) + more + tail


def _settle(call: AgentCall, outcome: int, reason: str = "") -> None:
    """Its account: what came of it is this, of store.call_record."""
    if call.accounted and call.accounts is not None:
        call.accounts.settled(call, outcome, reason)

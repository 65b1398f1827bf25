"""Owns one `tools/call` of an agent while it is in flight: its two ids, its deadline, and the shape of its answer.

It must not know sockets. A result stays bytes; a tool's isError is an answer, a JSON-RPC error a refusal, a lost reply
unknown, and none of them becomes another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from mcphub.catalog.definition import Definition
from mcphub.catalog.library import Library
from mcphub.catalog.toolset import Route
from mcphub.channel import NOT_ACTED_ON, Data
from mcphub.connection.client import Client
from mcphub.gateway import url_steps
from mcphub.gateway.askable import Undeclared, lacking, read_capabilities
from mcphub.gateway.idempotency import with_argument
from mcphub.protocol import jsonrpc, older, own_word
from mcphub.protocol.content import edit_result, holds_uri
from mcphub.protocol.envelope import (
    ERROR_TAIL,
    HUB_META_MEMBER,
    NO_META,
    RequestMeta,
    UnsupportedResult,
    add_to_data,
    error_data,
    hub_meta_member,
    plain_result,
    request_meta,
    result_parts,
    says_error,
    with_warning,
)
from mcphub.protocol.jsonrpc import Envelope, Raw
from mcphub.protocol.mrtr import MAX_ROUNDS, Round
from mcphub.protocol.mrtr import METHODS as ROUND_METHODS
from mcphub.protocol.serving import tool_error
from mcphub.protocol.tasks import is_made
from mcphub.spec import InstanceKey

#: What a sign of life adds to the progress that was told.
SIGN = 2.0**-20
#: What an agent is told to wait where nothing says how long it will take, milliseconds.
RETRY_AFTER = 1000
#: Results from this size on are passed on as views.
LARGE = 1 << 15
#: A call may live this many times its idle limit while it reports progress.
HARD_FACTOR = 6.0
#: Errors of the hub's own hop, which must never reach an agent.
_OWN_HOP = frozenset({-32020, -32022})
#: Of a server's errors, those that a modern agent would read as mcphub's: a method that is not found has an HTTP status
#: of its own, and mcphub has the method.
_NOT_OURS = frozenset({jsonrpc.METHOD_NOT_FOUND})
#: What agents are told where a request was refused on its way (kinds of `channel.Receiver.unanswered`). A status that
#: says no would say so again.
NOT_TAKEN = {
    "refused": "http_status",
    "session": "session_expired",
    "session_over": "not_taken",
    "unsent": "lost",
    "overdue": "overloaded",
}
#: The one version of the protocol in which a server may answer that a page must be opened first.
URL_ERROR_VERSION = "2025-11-25"
#: A modern server's error for a caller that did not declare what it wants to ask for.
_NEEDS_CAPABILITY = -32021

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_number = msgspec.json.Decoder(int | float).decode


class Said(NamedTuple):
    """What the outcome journal is told of each call of one agent to one tool: who and what, as `call_record.names`, the
    crc32 of that, and the agent's process, 0 = unknown."""

    route: Route | None = None
    client: str = ""
    names: bytes = b""
    check: int = 0
    pid: int = 0


NOT_SAID = Said()


class Caller(Protocol):
    """The agent, as far as a call needs it. `calls` holds its calls in flight by id as JSON."""

    calls: dict[bytes, AgentCall]
    library: Library
    #: What a legacy agent declared in `initialize`.
    capabilities: dict[str, Any]
    #: The version agreed there, "" before it.
    version: str
    #: What a legacy server is told of that.
    declares: bytes
    #: What a modern server is told of that, b"" = nothing.
    offers: bytes
    workspace: str
    client: str
    #: It is one request of an agent that has no connection of its own.
    passing: bool
    #: Who asks it what a modern server needs, if it is a legacy one.
    older: Older | None
    #: Who follows the tasks that its calls become.
    tasks: Tasks | None
    #: What the journal was told of its last call that is in there.
    said: Said

    def send(self, *parts: Data) -> None: ...


class Seat:
    """A caller that stands for an agent's requests, one after the other: the agent is who was asked last."""

    agent: Caller

    @property
    def waits(self) -> bool:
        """Nothing of the agent's is in flight for it: it has been asked."""
        raise NotImplementedError

    @property
    def asks(self) -> bool:
        """There is a question that its agent has not answered, or is about to be given."""
        raise NotImplementedError


class Questions(Protocol):
    """Who must know that a call has ended. `gateway.ask_user.AskUser`."""

    def ended(self, call: AgentCall) -> None: ...


class Turns(Protocol):
    """Who must know that a call is over because another agent's may wait for it. `gateway.turns.Turns`."""

    def ended(self, call: AgentCall) -> None: ...


class Rounds(Protocol):
    """Who makes an `input_required` result one for this agent. `gateway.rounds.Rounds`."""

    def asking(self, call: AgentCall, of: Round, result: memoryview) -> bytes: ...

    def pages(self, call: AgentCall, steps: Sequence[url_steps.Step]) -> bytes: ...


class Older(Protocol):
    """Who asks a legacy agent what a modern server needs. `gateway.legacy_rounds.LegacyRounds`."""

    def needs_input(self, call: AgentCall, result: memoryview) -> None: ...

    def completed(self, call: AgentCall) -> None: ...

    def sent_to(self, call: AgentCall, steps: Sequence[url_steps.Step]) -> list[url_steps.Step]: ...


class Tasks(Protocol):
    """Who follows what a server makes of a call before it has a result. `gateway.tasks.Tasks`."""

    def made(self, call: AgentCall, result: memoryview) -> None: ...

    def made_old(self, call: AgentCall, result: memoryview) -> bool: ...


class Pages(Protocol):
    """Who can send an agent's person to where a sign-in begins. `gateway.dispatch.Gateway`."""

    def invited(self, call: AgentCall) -> bytes: ...


class Accounts(Protocol):
    """Who keeps account of calls from when they are sent until they have ended. `gateway.accounts.Accounts`."""

    def sends(self, call: AgentCall, arguments: Data) -> None: ...

    def answered(self, call: AgentCall, error: bool, result: Raw = jsonrpc.EMPTY, plain: bytes = b"") -> None: ...

    def resumed(self, call: AgentCall, arguments: Data) -> None: ...

    def settled(self, call: AgentCall, outcome: int, reason: str = "") -> None: ...

    def unknown(self, call: AgentCall, kind: str) -> str: ...

    def operation_id(self, call: AgentCall) -> str: ...

    def goes_on(self, call: AgentCall, kind: str, message: str) -> bool: ...

    def ended(self, call: AgentCall, kind: str) -> None: ...

    def failed(self, call: AgentCall, how: str) -> str: ...

    def looked_at(self, call: AgentCall, result: Data) -> bytes: ...


class Results(Protocol):
    """Who looks at the results of tools that say what theirs are like. `gateway.validate.Checks`."""

    def unlike(self, tool: Definition, result: Data) -> str: ...


class Trouble(msgspec.Struct, eq=False):
    """What went wrong with a call that is, or was, sent again. `failures` so far; `sent`: when it was sent last, and
    `until` when its server must be there again, monotonic seconds; `estimate`: the seconds that an attempt takes;
    `due`: its delay is over; `over`: it is not sent any more; `doubt`: why some attempt may have been acted on, "" =
    none was; `changed`: its tool has another definition now, of which nothing that is known of the call holds."""

    failures: int = 0
    kind: str = ""
    doubt: str = ""
    message: str = ""
    sent: float = 0.0
    estimate: float = 0.0
    until: float = 0.0
    due: bool = False
    over: bool = False
    changed: bool = False
    timer: Any = None


class AgentCall(msgspec.Struct, gc=False, eq=False):
    """One call in flight. Implements correlate.Waiter.

    A struct only because one is made for each call, and in C. It is popped from `caller.calls` before anything else
    when it ends, so that no cycle outlives it.
    """

    caller: Caller
    client: Client
    mid: bytes
    route: Route | None
    meta: RequestMeta
    began: float
    #: Monotonic seconds; moved on by progress.
    deadline: float
    #: Seconds without progress that are allowed.
    idle: float
    #: The id of the request on the server's hop.
    up_id: int = 0
    #: Set once a question was asked because of this call.
    questions: Questions | None = None
    #: Set where calls of different agents to this server take turns.
    turns: Turns | None = None
    #: Set where the server may answer that it needs input first.
    rounds: Rounds | None = None
    round: Round | None = None
    #: Its server has answered it.
    replied: bool = False
    #: Set where the tool has an outputSchema.
    results: Results | None = None
    #: Set where its server can be signed in to, and its agent was not asked for that yet.
    pages: Pages | None = None
    #: What is known of its rounds, once there is something.
    asking: Any = None
    #: Kept where agent and server are of different eras: the request may have to be sent, or known, again.
    arguments: bytes = b""
    #: Since when its clock stands still, monotonic seconds, 0 = it runs.
    still: float = 0.0
    #: mcphub itself has told its agent of progress.
    signed: bool = False
    #: What its server asked for and its agent cannot do, "" = nothing.
    lacks: str = ""
    #: The task that it became at its server, while that is followed: `gateway.tasks.Following`.
    task: Any = None
    #: Who keeps account of it, None = nobody needs to.
    accounts: Accounts | None = None
    #: Its tool failed for its agent before, so that its result is worth a look.
    watched: bool = False
    #: An account is open that its answer closes; what an answer costs where nothing is open is one look at this.
    accounted: bool = False
    #: Its way through what limits calls, where that is looked at: `gateway.lanes.Passage`.
    lanes: Any = None
    #: When the task of the agent's that it is part of must be done, monotonic seconds.
    until: float = float("inf")
    #: How often it was sent.
    attempts: int = 0
    #: Its number in the outcome journal, 0 = it is not in there.
    operation: int = 0
    #: All that was sent of it is kept, so that it can be sent again.
    keeps: bool = False
    #: Set once its answer was lost and it may be, or was, sent again.
    trouble: Trouble | None = None
    #: How the circuit breaker let it through, where there is one. `gateway.circuits.Ticket`
    ticket: Any = None
    #: The value of the tool's idempotency argument, where mcphub and not the agent has chosen it; the same each time it
    #: is sent.
    filled: str = ""
    #: Its tool has such an argument, and this call goes without one: its server would not know it again.
    keyless: bool = False
    #: Who takes its result together with those of others: `gateway.bursts.Ends`.
    crowd: Any = None
    #: The highest progress that its agent was told.
    progress: float = float("-inf")

    @property
    def hard(self) -> float:
        return min(self.began + self.idle * HARD_FACTOR, self.until)

    @property
    def key(self) -> InstanceKey:
        assert self.route is not None
        return self.route.key

    @property
    def server(self) -> str:
        return self.key.name

    @property
    def tool(self) -> str:
        """What was asked of the server, for a person."""
        assert self.route is not None
        return self.route.definition.name

    @property
    def asked_for(self) -> str:
        """The method."""
        return "tools/call"

    @property
    def target(self) -> str:
        """What it is asked about, under the server's own name."""
        assert self.route is not None
        return self.route.definition.name

    @property
    def read_only(self) -> bool:
        """It is known to only read: what its server says of it counts where that is believed."""
        return self.route is not None and self.route.definition.reads

    def shaped(self, parts: tuple[Data, ...]) -> tuple[Data, ...]:
        """The result as the agent sees it; URIs of its content get their exposed form."""
        for part in parts:
            if holds_uri(part) is not None:
                break
        else:
            return parts
        library = self.caller.library
        if not library.prefixed:
            return parts
        server = self.server
        return (edit_result("tools/call", b"".join(parts), lambda uri: library.expose(server, uri)),)

    def error_data(self, data: Raw) -> bytes:
        return bytes(data)

    def answered(self, env: Envelope) -> None:
        caller, client = self.caller, self.client
        from_modern = client.era == "modern"
        if self.questions is None and self.turns is None:
            # The usual case in as few steps as can be: a small result that stays as it is.
            if (
                not self.meta.modern
                and self.results is None
                and not self.watched
                and (plain := plain_result(env.result, from_modern)) is not None
            ):
                if self.accounted:
                    assert self.accounts is not None
                    self.accounts.answered(self, False, env.result, plain)
                caller.calls.pop(self.mid, None)
                # The last letter alone first: that takes a third of the time, and is enough for most.
                if plain[-2] == 0x65 and plain.endswith(ERROR_TAIL) and self.accounts is not None:
                    plain = self.accounts.looked_at(self, plain)
                caller.send(b"".join((b'{"jsonrpc":"2.0","id":', self.mid, b',"result":', plain, b"}\n")))
                return
            self._accounted(env)
            caller.calls.pop(self.mid, None)
        else:
            self._accounted(env)
            self.replied = True
            self._over()
        if env.error:
            self._refused(env.error)
            return
        result = memoryview(env.result)
        try:
            parts = result_parts(result, from_modern, self.meta.modern, self.client.counters)
        except UnsupportedResult as e:
            if e.result_type == "input_required" and self.rounds is not None and self.round is not None:
                self._needs_input(self.rounds, self.round, result)
                return
            asks = e.result_type == "input_required" and not self.meta.modern and self.asked_for in ROUND_METHODS
            if asks and caller.older is not None:
                caller.older.needs_input(self, result)
                return
            if e.result_type == "task" and self.client.tasks and caller.tasks is not None:
                caller.tasks.made(self, result)
                return
            text = f"the server {self.server} gave an unsupported result type: {e.result_type}"
            self.error("unsupported_result", text)
            return
        if self.asking is not None and caller.older is not None:
            caller.older.completed(self)
        parts = self.shaped(parts)
        if not self.meta.modern and caller.version in older.VERSIONS:
            parts = (older.result_for(caller.version, self.asked_for, b"".join(parts)),)
        if self.results is not None:
            parts = self._compared(self.results, result, parts)
        if self.accounts is not None and (self.watched or parts[-1][-len(ERROR_TAIL) :] == ERROR_TAIL):
            parts = (self.accounts.looked_at(self, b"".join(parts)),)
        if self.lacks and says_error(whole := b"".join(parts)):
            parts = (with_warning(whole, "undeclared_capability", self._without(self.lacks)),)
        if len(parts) == 1 and len(parts[0]) < LARGE:
            caller.send(b"".join((b'{"jsonrpc":"2.0","id":', self.mid, b',"result":', parts[0], b"}\n")))
        else:
            caller.send(b'{"jsonrpc":"2.0","id":%b,"result":' % self.mid, *parts, b"}\n")

    def _accounted(self, env: Envelope) -> None:
        """Its account is closed by this answer, unless that says that the server has only begun."""
        if self.accounted and not (self.client.tasks and is_made(env.result)):
            assert self.accounts is not None
            self.accounts.answered(self, bool(env.error), env.result)

    def _compared(self, with_schema: Results, result: memoryview, parts: tuple[Data, ...]) -> tuple[Data, ...]:
        """The result, whole, with a warning where it breaks the tool's own outputSchema: no fault of the connection."""
        assert self.route is not None
        unlike = with_schema.unlike(self.route.definition, result)
        if not unlike:
            return parts
        self.client.counters["results_unlike_schema"] += 1
        message = f"the result does not fit the tool's outputSchema: {unlike}"
        return (with_warning(b"".join(parts), "output_schema", message),)

    def _needs_input(self, rounds: Rounds, of: Round, result: memoryview) -> None:
        try:
            self.caller.send(jsonrpc.result_frame(self.mid, rounds.asking(self, of, result)))
        except Undeclared as e:
            self.undeclared(e)
        except ValueError as e:
            text = f"the server {self.server} asks for input in a way that cannot be carried: {e}"
            self.error("unsupported_result", text)

    def undeclared(self, e: Undeclared) -> None:
        """Its server asks for what the agent did not say it can do."""
        data = self.told("undeclared_capability")
        data = b'{"requiredCapabilities":%b,%b' % (msgspec.json.encode(e.missing), data[1:])
        text = f"the server {self.server} cannot do {self.tool} without input: {e}"
        if self.task is not None:
            text += "; it had begun with it as a task, which was cancelled: whether it had effects is unknown, check "
            text += "before calling it again" + check_at(self.operation_id())
        self.caller.send(jsonrpc.error_frame(self.mid, _NEEDS_CAPABILITY, text, data))

    def over(self) -> None:
        """It has ended otherwise than by an answer: nothing waits for it any more."""
        if self.accounts is not None:
            self.accounts.ended(self, "local")
        self._over()

    def ended_there(self, kind: str, text: str) -> None:
        """Its server has ended it without an answer; mcphub says so instead, and its account has been closed."""
        self.replied = True
        self._over()
        self.error(kind, text)

    def _over(self) -> None:
        """It ends, whatever way."""
        self.caller.calls.pop(self.mid, None)
        if self.task is not None:
            self.task.over(self)
        if self.questions is not None:
            self.questions.ended(self)
        if self.turns is not None:
            self.turns.ended(self)

    def _refused(self, raw: Raw) -> None:
        e = jsonrpc.read_error(raw)
        if not jsonrpc.is_error_object(raw):
            self._unknown("unreadable", f"an error that is no JSON-RPC error object: {e.message}".rstrip(": "))
            return
        code = e.code
        e.data = Raw(own_word.without(bytes(e.data), self.client.counters))
        if code == url_steps.CODE:
            self._needs_page(e)
        elif code in _OWN_HOP:
            self.error("upstream_protocol", f"the server {self.server} refused mcphub's request: {e.message}")
        elif code == -32002 and self.meta.modern:
            self._server_error(jsonrpc.INVALID_PARAMS, e)
        elif self.meta.modern and (-32019 <= code <= -32000 or code in _NOT_OURS):
            # These codes have no fixed meaning (or are forbidden) in the modern era, or would be said of mcphub itself;
            # the original stays readable.
            self._server_error(jsonrpc.INTERNAL_ERROR, e, _as_upstream(e))
        elif code == _NEEDS_CAPABILITY and not self.meta.modern and self.client.era == "modern":
            text = f"the server {self.server} wants what this agent did not declare for {self.tool}: {e.message}"
            data = add_to_data(self._data_of(e), self.told("undeclared_capability"))
            self.caller.send(jsonrpc.error_frame(self.mid, code, text, data))
        else:
            # Written anew: what the server sent need not be an error object at all.
            self._server_error(code, e)

    def _server_error(self, code: int, e: jsonrpc.ErrorObject, data: bytes = b"") -> None:
        """The server's own error: its message, and unless `data` says so its data, with whose it is beside it."""
        more = {"repeated": again} if (again := self._repeated(f"{e.code}")) else {}
        data = add_to_data(data or self._data_of(e), self.told("server_error", **more))
        self.caller.send(jsonrpc.error_frame(self.mid, code, self._for_want_of(e).message, data))

    def _data_of(self, e: jsonrpc.ErrorObject) -> bytes:
        """An error's data as its agent gets it, as an object: whose it is must have a place beside it."""
        data = self.error_data(e.data)
        return data if data[:1] == b"{" or data in (b"", b"null") else _as_upstream(e)

    def _for_want_of(self, e: jsonrpc.ErrorObject) -> jsonrpc.ErrorObject:
        """The same error; where its server could not ask, it says what its agent lacks for that."""
        lacks = self.lacks
        if not lacks and self.client.era == "legacy":
            # Over HTTP a server knows what its agent can do, and does not ask at all.
            lacks = lacking(e.message, self._declared())
        if not lacks:
            return e
        return jsonrpc.ErrorObject(e.code, f"{e.message} ({self._without(lacks)})", e.data)

    def _without(self, capability: str) -> str:
        name = self.caller.client
        return f"{f'the agent {name}' if name else 'this agent'} does not support {capability}"

    def _declared(self) -> Mapping[str, Any]:
        return read_capabilities(self.meta.capabilities) if self.meta.modern else self.caller.capabilities

    def _needs_page(self, e: jsonrpc.ErrorObject) -> None:
        """A person must open a page first. A modern agent is asked, and its retry is another call."""
        text = f"the server {self.server} needs a page to be opened in a browser first: {e.message}"
        meta = self.meta
        able = meta.modern or self.caller.version == URL_ERROR_VERSION
        declared = self._declared()
        if not (able and url_steps.opens_pages(declared)):
            text += " (this agent did not declare elicitation.url, with which it could be shown to a person)"
        elif not (steps := url_steps.read_steps(e.data, self.server)):
            text += " (it named no page of the web, by http or https)"
        elif not meta.modern:
            if self.caller.older is not None:
                steps = self.caller.older.sent_to(self, steps)
            self.caller.send(jsonrpc.error_frame(self.mid, url_steps.CODE, text, url_steps.as_data(steps)))
            return
        elif self.asking is not None and self.asking.tries >= MAX_ROUNDS:
            text += f" (still, after the person was sent there {MAX_ROUNDS} times)"
        elif self.client.era == "legacy" and self.asked_for in ROUND_METHODS and self.rounds is not None:
            self.caller.send(jsonrpc.result_frame(self.mid, self.rounds.pages(self, steps)))
            return
        self.error("needs_page", text)

    def moved(self, client: Client) -> None:
        """The server's next session has it now, under the same id."""
        self.client = client

    def resend(self, client: Client, method: str, params: Raw) -> None:
        """Send it on another connection, which may be of the other era: the one it was for cannot be had."""
        self.client = client
        fields = _members(params)
        members = [jsonrpc.quote(k) + b":" + bytes(v) for k, v in fields.items() if k != "_meta"]
        meta = request_meta(client.era == "modern", self.meta, client.next_id(), self.caller.offers)
        self.kept(fields)
        self.up_id = client.send_request(self, method, b",".join(members) + meta)

    def kept(self, params: Mapping[str, Raw]) -> None:
        """Keep what is needed for sending it again: what its agent gave."""
        if not self.keeps:
            self.arguments = bytes(params.get("arguments", b"{}"))

    def start(self, arguments: Data, more: bytes) -> None:
        """Send it, with these members of a retry, which have a leading comma. Each way a `tools/call` is sent is this
        one."""
        route, client, meta = self.route, self.client, self.meta
        assert route is not None
        if self.accounts is not None:
            self.accounts.sends(self, arguments)
        if more:
            self.keeps = False  # a round that people have answered is not made twice
        if self.filled:
            arguments = with_argument(arguments, route.definition.idempotency_argument, self.filled)
        modern = client.era == "modern"
        if meta is not NO_META:
            more += request_meta(modern, meta, client.next_id(), self.caller.offers)
        elif modern:
            offers = self.caller.offers
            more += hub_meta_member(offers) if offers else HUB_META_MEMBER
        self.up_id = client.call_tool(self, route.quoted, arguments, more)

    def again(self, client: Client, more: bytes) -> None:
        """Send what was kept of it once more, on this connection, as the next round of the same call."""
        self.client = client
        self.start(self.arguments, more)

    def unanswered(self, kind: str, message: str) -> None:
        if self.accounts is not None and self.accounts.goes_on(self, kind, message):
            return
        self._over()
        # An attempt before the last may have been acted on; of what only reads nobody need know.
        doubt = self.trouble.doubt if self.trouble is not None and not self.read_only else ""
        if kind not in NOT_ACTED_ON:
            self._unknown(kind, message)
        elif doubt:
            self._unknown(doubt, message)
        else:
            self._not_taken(kind, message)
        self.arguments = b""  # it may be remembered for a while whose it was, but not this

    def _unknown(self, kind: str, message: str) -> None:
        """The server may have acted on it, and nobody can say what came of it."""
        if kind == "unreadable":
            text = f"the server {self.server} answered {self.tool} with what cannot be read: {message}"
        elif kind == "timeout" and self.still:
            text = f"the server {self.server} asked a question during {self.tool}, and nobody answered it in time"
        elif kind == "timeout" and self.deadline >= self.until:
            text = f"the server {self.server} did not answer {self.tool} by the deadline of the agent's task"
        elif kind == "timeout":
            text = f"the server {self.server} did not answer {self.tool} within {self._limit():g} s"
        elif kind == "stopping":
            text = f"mcphub was stopped before the server {self.server} answered {self.tool}"
        elif kind == "task":
            text = f"the server {self.server} {message}"
        else:
            text = f"the connection to the server {self.server} was lost during {self.tool}: {message}"
        if self.trouble is not None:
            text += f" (sent {self.attempts} times)" if self.attempts > 1 else " (sent once)"
        if self.read_only:
            kind = kind if kind in ("timeout", "unreadable", "stopping") else "lost"
            if self.trouble is not None and self.trouble.changed:
                self.error(kind, f"{text}; it only read: list the tools again before calling it", retryable=False)
            else:
                self.error(kind, f"{text}; the tool only reads, so it can be called again")
        else:
            text = f"{text}; whether it had effects is unknown, check before calling it again"
            self.error("outcome_unknown", text + check_at(self.recorded(kind)))

    def recorded(self, kind: str) -> str:
        """Its id in the outcome journal, where it is unknown for this reason from now on; "" = it is not in there."""
        return self.accounts.unknown(self, kind) if self.operation and self.accounts is not None else ""

    def _limit(self) -> float:
        """The limit that it ran into, seconds."""
        return self.idle * HARD_FACTOR if self.deadline >= self.hard else self.idle

    def _not_taken(self, kind: str, message: str) -> None:
        """The server has certainly not acted on it."""
        if kind == "needs_auth" and self.pages is not None and (frame := self.pages.invited(self)):
            self.caller.send(frame)
            return
        what = message if kind == "needs_auth" else f"could not be asked for {self.tool}: {message}"
        text = f"The server {self.server} {what}."
        more: dict[str, object] = {}
        if kind == "overdue":
            if self.deadline >= self.until:
                # It may have been sent once, and refused.
                why = "the deadline of its task has passed while it waited in mcphub"
                self._told_unsent("task_budget", f"The server {self.server} has not acted on {self.tool}: {why}.")
                return
            more["retryAfterMs"] = RETRY_AFTER
        kind = NOT_TAKEN.get(kind, kind)
        if self.trouble is not None and self.trouble.changed:
            more["retryable"] = False
        if kind == "rate_limited" and (wait := getattr(self.client.channel, "retry_after", 0.0)):
            more["retryAfterMs"] = round(wait * 1000)
        self._told_unsent(kind, text, **more)

    def stand_still(self, now: float, limit: float) -> None:
        """A person is asked, who has so many seconds; its own clock stops. Harmless where it stands still already."""
        self.still = self.still or now
        self.deadline = self.still + limit

    def run_on(self, now: float) -> None:
        """Nobody is asked any more. What it took does not count; that the server asked is a sign of life, as progress
        is, and moves the deadline no further than that."""
        if self.still:
            self.began += now - self.still
        self.still = 0.0
        self.deadline = min(now + self.idle, self.hard)

    def not_sent(self, kind: str, why: str) -> None:
        """It will not be sent: the server knows nothing of it, unless it was sent before."""
        if self.trouble is not None:
            self.gives_up(why)
            return
        if self.accounts is not None:
            self.accounts.ended(self, "not_sent")
        self._over()
        self._told_unsent(kind, f"{self.tool} was not sent to the server {self.server}: {why}; it can be called again")

    def turned_down(self, kind: str, text: str, **more: object) -> None:
        """End it, unsent, with a refusal that a model can read and act on; `more` as in `envelope.error_data`. Not for
        what was sent before: see `gives_up`."""
        if self.accounts is not None:
            self.accounts.ended(self, "not_sent")
        self._over()
        self._told_unsent(kind, text, **more)

    def _told_unsent(self, kind: str, text: str, **more: object) -> None:
        """Its server has not got it: a call of a tool is answered by a result, which its model sees."""
        if self.route is None:
            self.error(kind, text, **more)
            return
        text = with_sentence(text, self._repeated(kind))
        self.caller.send(jsonrpc.result_frame(self.mid, tool_error(text, self.meta.modern, self.told(kind, **more))))

    def gives_up(self, why: str) -> None:
        """It is not sent again, for this reason: the failure that it had is its end."""
        trouble = self.trouble
        assert trouble is not None
        trouble.over = True
        self.unanswered(trouble.kind, f"{trouble.message}; {why}")

    def error(self, kind: str, text: str, **more: object) -> None:
        """End it with an error of mcphub's own, of a kind of `mcphub.kinds`; `more` as in `envelope.error_data`."""
        text = with_sentence(text, self._repeated(kind))
        self.caller.send(jsonrpc.error_frame(self.mid, jsonrpc.INTERNAL_ERROR, text, self.told(kind, **more)))

    def told(self, kind: str, **more: object) -> bytes:
        """What programs are told of how it failed: the data of an error, or what is in a result's `_meta`."""
        if self.attempts > 1:
            more["attempts"] = self.attempts
        if self.meta.trace:
            more["traceId"] = self.meta.trace
        if operation := self.operation_id():
            more["operationId"] = operation
        return error_data(kind, self.server, tool=self.tool, **more)

    def operation_id(self) -> str:
        """Its id in the outcome journal, "" = it is not in there."""
        return self.accounts.operation_id(self) if self.operation and self.accounts is not None else ""

    def _repeated(self, how: str) -> str:
        """What its agent is to be told where it failed like this before."""
        return self.accounts.failed(self, how) if self.accounts is not None else ""

    def progressed(self, params: Raw) -> None:
        if not self.meta.progress_token:
            return
        try:
            fields = _members(params)
        except (msgspec.DecodeError, RecursionError):
            return
        if (self.keeps or not self.meta.modern) and not self._climbs(fields):
            return
        body = b",".join(
            [jsonrpc.quote(k) + b":" + bytes(v) for k, v in fields.items() if k not in ("progressToken", "_meta")]
        )
        frame = b'{"progressToken":%b%b}' % (self.meta.progress_token, b"," + body if body else b"")
        self.caller.send(jsonrpc.notification_frame("notifications/progress", frame))

    def _climbs(self, fields: Mapping[str, Raw]) -> bool:
        """Whether this is more than its agent was told before: an agent's progress never falls (MCP spec, basic/
        utilities/progress)."""
        try:
            now = float(_number(fields["progress"]))
        except (msgspec.DecodeError, KeyError, OverflowError):
            return True  # it says nothing that could fall
        before, self.progress = self.progress, max(self.progress, now)
        if now > before:
            return True
        # What a server does within one request is its own; a round, and what is sent again, begin anew for one token.
        rounds = not self.meta.modern and self.client.era == "modern"
        return not (rounds or self.signed or self.trouble is not None)

    def sign(self, message: str) -> None:
        """Tell its agent that it goes on, as the smallest progress there can be: its server's own goes on above it."""
        told = self.progress if self.progress > float("-inf") else 0.0
        self.progress, self.signed = max(told + SIGN, math.nextafter(told, float("inf"))), True
        params = b'{"progressToken":%b,"progress":%b,"message":%b}'
        params %= self.meta.progress_token, msgspec.json.encode(self.progress), jsonrpc.quote(message)
        self.caller.send(jsonrpc.notification_frame("notifications/progress", params))

    def cut_short(self) -> None:
        """mcphub ends before the answer has come."""
        doubt = self.trouble.doubt if self.trouble is not None else ""
        waits = not doubt and self.task is None and self.client.untouched(self.up_id)
        self.withdraw("mcphub is stopping")
        if waits:
            why = f"{self.tool} waited, and the server {self.server} has not acted on it"
            self._told_unsent("stopping", f"mcphub is stopping: {why}; call it again once mcphub runs")
        else:
            self._unknown("stopping", "")

    def withdraw(self, reason: str, kind: str = "cancelled") -> None:
        """Nobody wants it any more, its agent or, by the `kind` of Accounts.ended, mcphub: nothing more is sent for its
        id."""
        if self.accounts is not None:
            self.accounts.ended(self, kind)
        self._over()
        self.client.withdraw(self.up_id, reason)
        self.arguments = b""  # as in `unanswered`


def _as_upstream(e: jsonrpc.ErrorObject) -> bytes:
    """The data of an error that has the server's own in it, where that cannot be given as it is."""
    return b'{"dev.mcphub/upstream":%b}' % jsonrpc.error_object(e.code, e.message, bytes(e.data))


def check_at(operation: str) -> str:
    """Where a person finds what is known of a call, for the end of a text."""
    return f" (what was sent: mcphub calls {operation})" if operation else ""


def waits(call: AgentCall) -> bool:
    """Whether its agent has been asked, and has nothing in flight for it."""
    return isinstance(call.caller, Seat) and call.caller.waits


def asks(call: AgentCall) -> bool:
    """Whether its agent has, or is about to be given, a question of it as a round."""
    return isinstance(call.caller, Seat) and call.caller.asks


def whose(call: AgentCall) -> object:
    """The agent whose call it is: equal for its calls alone. One that has no connection is who it says it is."""
    caller = call.caller
    return who(caller.agent if isinstance(caller, Seat) else caller)


def who(agent: Caller) -> object:
    """Equal for the same agent alone."""
    return (agent.workspace, agent.client) if agent.passing and agent.client else agent


def with_sentence(text: str, more: str) -> str:
    """A text, and one sentence more where there is one."""
    return f"{text.removesuffix('.')}. {more}" if more else text

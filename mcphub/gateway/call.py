"""Owns one `tools/call` of an agent while it is in flight: its two ids, its deadline, and the shape of its answer.

It must not know sockets. A result stays bytes; a tool's isError is an answer, a JSON-RPC error a refusal, a lost reply
unknown, and none of them becomes another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from mcphub.catalog.definition import Definition
from mcphub.catalog.library import Library
from mcphub.catalog.toolset import Route
from mcphub.channel import NOT_ACTED_ON, Data
from mcphub.connection.client import Client
from mcphub.gateway import url_steps
from mcphub.gateway.askable import Undeclared, read_capabilities
from mcphub.protocol import jsonrpc, older
from mcphub.protocol.content import edit_result, holds_uri
from mcphub.protocol.envelope import (
    HUB_META_MEMBER,
    NO_META,
    RequestMeta,
    UnsupportedResult,
    error_data,
    hub_meta_member,
    plain_result,
    request_meta,
    result_parts,
    with_warning,
)
from mcphub.protocol.jsonrpc import Envelope, Raw
from mcphub.protocol.mrtr import MAX_ROUNDS, Round
from mcphub.protocol.mrtr import METHODS as ROUND_METHODS
from mcphub.protocol.serving import tool_error
from mcphub.spec import InstanceKey

#: Results from this size on are passed on as views.
LARGE = 1 << 15
#: A call may live this many times its idle limit while it reports progress.
HARD_FACTOR = 6.0
#: Errors of the hub's own hop, which must never reach an agent.
_OWN_HOP = frozenset({-32020, -32022})
#: Of a server's errors, those that a modern agent would read as mcphub's: a method that is not found has an HTTP status
#: of its own, and mcphub has the method.
_NOT_OURS = frozenset({jsonrpc.METHOD_NOT_FOUND})
#: The one version of the protocol in which a server may answer that a page must be opened first.
URL_ERROR_VERSION = "2025-11-25"
#: A modern server's error for a caller that did not declare what it wants to ask for.
_NEEDS_CAPABILITY = -32021

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_number = msgspec.json.Decoder(int | float).decode


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

    def send(self, *parts: Data) -> None: ...


class Seat:
    """A caller that stands for an agent's requests, one after the other: the agent is who was asked last."""

    agent: Caller

    @property
    def waits(self) -> bool:
        """Nothing of the agent's is in flight for it: it has been asked."""
        raise NotImplementedError


class Questions(Protocol):
    """Who must know that a call has ended. `gateway.ask_user.AskUser`."""

    def ended(self, call: AgentCall) -> None: ...


class Turns(Protocol):
    """Who must know that a call is over because another agent's may wait for it. `gateway.turns.Turns`."""

    def ended(self, call: AgentCall) -> None: ...


class Rounds(Protocol):
    """Who makes an `input_required` result one for this agent. `gateway.rounds.Rounds`."""

    def asking(self, of: Round, result: memoryview, declared: bytes) -> bytes: ...

    def pages(self, call: AgentCall, steps: Sequence[url_steps.Step]) -> bytes: ...


class Older(Protocol):
    """Who asks a legacy agent what a modern server needs. `gateway.legacy_rounds.LegacyRounds`."""

    def needs_input(self, call: AgentCall, result: memoryview) -> None: ...

    def completed(self, call: AgentCall) -> None: ...

    def sent_to(self, call: AgentCall, steps: Sequence[url_steps.Step]) -> None: ...

    def rises(self, call: AgentCall, progress: float) -> bool: ...


class Pages(Protocol):
    """Who can send an agent's person to where a sign-in begins. `gateway.dispatch.Gateway`."""

    def invited(self, call: AgentCall) -> bytes: ...


class Accounts(Protocol):
    """Who keeps account of calls from when they are sent until they have ended. `gateway.accounts.Accounts`."""

    def sends(self, call: AgentCall, arguments: Data) -> None: ...

    def answered(self, call: AgentCall, error: bool) -> None: ...

    def goes_on(self, call: AgentCall, kind: str, message: str) -> bool: ...

    def ended(self, call: AgentCall, kind: str) -> None: ...


class Results(Protocol):
    """Who looks at the results of tools that say what theirs are like. `gateway.validate.Checks`."""

    def unlike(self, tool: Definition, result: Data) -> str: ...


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
    #: Who keeps account of it, None = nobody needs to.
    accounts: Accounts | None = None
    #: An account is open that its answer closes; what an answer costs where nothing is open is one look at this.
    accounted: bool = False
    #: How often it was sent.
    attempts: int = 0
    #: Its number in the outcome journal, 0 = it is not in there.
    operation: int = 0

    @property
    def hard(self) -> float:
        return self.began + self.idle * HARD_FACTOR

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
        return self.route is not None and self.route.definition.read_only

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
        caller = self.caller
        if self.accounted:
            assert self.accounts is not None
            self.accounts.answered(self, bool(env.error))
        from_modern = self.client.era == "modern"
        if self.questions is None and self.turns is None:
            caller.calls.pop(self.mid, None)
            # The usual case in as few steps as can be: a small result that stays as it is.
            if (
                not self.meta.modern
                and self.results is None
                and (plain := plain_result(env.result, from_modern)) is not None
            ):
                caller.send(b"".join((b'{"jsonrpc":"2.0","id":', self.mid, b',"result":', plain, b"}\n")))
                return
        else:
            self.replied = True
            self._over()
        if env.error:
            self._refused(env.error)
            return
        result = memoryview(env.result)
        try:
            parts = result_parts(result, from_modern, self.meta.modern)
        except UnsupportedResult as e:
            if e.result_type == "input_required" and self.rounds is not None and self.round is not None:
                self._needs_input(self.rounds, self.round, result)
                return
            asks = e.result_type == "input_required" and not self.meta.modern and self.asked_for in ROUND_METHODS
            if asks and caller.older is not None:
                caller.older.needs_input(self, result)
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
        if len(parts) == 1 and len(parts[0]) < LARGE:
            caller.send(b"".join((b'{"jsonrpc":"2.0","id":', self.mid, b',"result":', parts[0], b"}\n")))
        else:
            caller.send(b'{"jsonrpc":"2.0","id":%b,"result":' % self.mid, *parts, b"}\n")

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
            self.caller.send(jsonrpc.result_frame(self.mid, rounds.asking(of, result, self.meta.capabilities)))
        except Undeclared as e:
            self.undeclared(e)
        except ValueError as e:
            text = f"the server {self.server} asks for input in a way that cannot be carried: {e}"
            self.error("unsupported_result", text)

    def undeclared(self, e: Undeclared) -> None:
        """Its server asks for what the agent did not say it can do."""
        data = error_data("undeclared_capability", self.server, tool=self.tool)
        data = b'{"requiredCapabilities":%b,%b' % (msgspec.json.encode(e.missing), data[1:])
        text = f"the server {self.server} cannot do {self.tool} without input: {e}"
        self.caller.send(jsonrpc.error_frame(self.mid, _NEEDS_CAPABILITY, text, data))

    def over(self) -> None:
        """It has ended otherwise than by an answer: nothing waits for it any more."""
        if self.accounts is not None:
            self.accounts.ended(self, "local")
        self._over()

    def _over(self) -> None:
        """It ends, whatever way."""
        self.caller.calls.pop(self.mid, None)
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
        if code == url_steps.CODE:
            self._needs_page(e)
        elif code in _OWN_HOP:
            self.error("upstream_protocol", f"the server {self.server} refused mcphub's request: {e.message}")
        elif code == -32002 and self.meta.modern:
            self.caller.send(jsonrpc.error_frame(self.mid, jsonrpc.INVALID_PARAMS, e.message, self.error_data(e.data)))
        elif self.meta.modern and (-32019 <= code <= -32000 or code in _NOT_OURS):
            # These codes have no fixed meaning (or are forbidden) in the modern era, or would be said of mcphub itself;
            # the original stays readable.
            data = b'{"dev.mcphub/upstream":%b}' % jsonrpc.error_object(code, e.message, bytes(e.data))
            self.caller.send(jsonrpc.error_frame(self.mid, jsonrpc.INTERNAL_ERROR, e.message, data))
        elif code == _NEEDS_CAPABILITY and not self.meta.modern and self.client.era == "modern":
            text = f"the server {self.server} wants what this agent did not declare for {self.tool}: {e.message}"
            self.caller.send(jsonrpc.error_frame(self.mid, code, text, self.error_data(e.data)))
        else:
            # Written anew: what the server sent need not be an error object at all.
            self.caller.send(jsonrpc.error_frame(self.mid, code, e.message, self.error_data(e.data)))

    def _needs_page(self, e: jsonrpc.ErrorObject) -> None:
        """A person must open a page first. A modern agent is asked, and its retry is another call."""
        text = f"the server {self.server} needs a page to be opened in a browser first: {e.message}"
        meta = self.meta
        able = meta.modern or self.caller.version == URL_ERROR_VERSION
        declared = read_capabilities(meta.capabilities) if meta.modern else self.caller.capabilities
        if not (able and url_steps.opens_pages(declared)):
            text += " (this agent did not declare elicitation.url, with which it could be shown to a person)"
        elif not (steps := url_steps.read_steps(e.data, self.server)):
            text += " (it named no page of the web, by http or https)"
        elif not meta.modern:
            if self.caller.older is not None:
                self.caller.older.sent_to(self, steps)
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
        """Keep what is needed for sending it again."""
        self.arguments = bytes(params.get("arguments", b"{}"))

    def start(self, arguments: Data, more: bytes) -> None:
        """Send it, with these members of a retry, which have a leading comma. Each way a `tools/call` is sent is this
        one."""
        route, client, meta = self.route, self.client, self.meta
        assert route is not None
        if self.accounts is not None:
            self.accounts.sends(self, arguments)
        modern = client.era == "modern"
        if meta is NO_META:
            offers = self.caller.offers
            tail = (hub_meta_member(offers) if offers else HUB_META_MEMBER) if modern else b""
            tail = more + tail if more else tail
        else:
            tail = more + request_meta(modern, meta, client.next_id(), self.caller.offers)
        self.up_id = client.call_tool(self, route.quoted, arguments, tail)

    def again(self, client: Client, more: bytes) -> None:
        """Send what was kept of it once more, on this connection, as the next round of the same call."""
        self.client = client
        self.start(self.arguments, more)

    def unanswered(self, kind: str, message: str) -> None:
        if self.accounts is not None and self.accounts.goes_on(self, kind, message):
            return
        self._over()
        if kind in NOT_ACTED_ON:
            self._not_taken(kind, message)
        else:
            self._unknown(kind, message)

    def _unknown(self, kind: str, message: str) -> None:
        """The server may have acted on it, and nobody can say what came of it."""
        if kind == "unreadable":
            text = f"the server {self.server} answered {self.tool} with what cannot be read: {message}"
        elif kind == "timeout":
            text = f"the server {self.server} did not answer {self.tool} within {self.idle:g} s"
        elif kind == "stopping":
            text = f"mcphub was stopped before the server {self.server} answered {self.tool}"
        else:
            text = f"the connection to the server {self.server} was lost during {self.tool}: {message}"
        if self.read_only:
            kind = kind if kind in ("timeout", "unreadable", "stopping") else "lost"
            self.error(kind, f"{text}; the tool only reads, so it can be called again")
        else:
            self.error("outcome_unknown", f"{text}; whether it had effects is unknown, check before calling it again")

    def _not_taken(self, kind: str, message: str) -> None:
        """The server has certainly not acted on it."""
        if kind == "needs_auth" and self.pages is not None and (frame := self.pages.invited(self)):
            self.caller.send(frame)
            return
        what = message if kind == "needs_auth" else f"could not be asked for {self.tool}: {message}"
        text = f"The server {self.server} {what}."
        if self.route is not None:
            self.caller.send(jsonrpc.result_frame(self.mid, tool_error(text, self.meta.modern)))
        else:
            self.error(kind, text)

    def begin(self, now: float) -> None:
        """It is sent only now, though it was made before."""
        self.began, self.deadline = now, now + self.idle

    def not_sent(self, kind: str, why: str) -> None:
        """It will not be sent: the server knows nothing of it."""
        if self.accounts is not None:
            self.accounts.ended(self, "not_sent")
        self._over()
        self.error(kind, f"{self.tool} was not sent to the server {self.server}: {why}; it can be called again")

    def error(self, kind: str, text: str) -> None:
        data = error_data(kind, self.server, tool=self.tool)
        self.caller.send(jsonrpc.error_frame(self.mid, jsonrpc.INTERNAL_ERROR, text, data))

    def progressed(self, params: Raw) -> None:
        if not self.meta.progress_token:
            return
        try:
            fields = _members(params)
        except (msgspec.DecodeError, RecursionError):
            return
        if not self.meta.modern and self.client.era == "modern" and not self._rises(fields):
            return  # a retry begins anew, for which the agent has the one token
        body = b",".join(
            [jsonrpc.quote(k) + b":" + bytes(v) for k, v in fields.items() if k not in ("progressToken", "_meta")]
        )
        frame = b'{"progressToken":%b%b}' % (self.meta.progress_token, b"," + body if body else b"")
        self.caller.send(jsonrpc.notification_frame("notifications/progress", frame))

    def _rises(self, fields: Mapping[str, Raw]) -> bool:
        try:
            now = float(_number(fields["progress"]))
        except (msgspec.DecodeError, KeyError, OverflowError):
            return True  # it says nothing that could fall
        return self.caller.older is None or self.caller.older.rises(self, now)

    def cut_short(self) -> None:
        """mcphub ends before the answer has come."""
        self.withdraw("mcphub is stopping")
        self._unknown("stopping", "")

    def withdraw(self, reason: str) -> None:
        """The agent no longer wants it: nothing more is sent for its id."""
        if self.accounts is not None:
            self.accounts.ended(self, "cancelled")
        self._over()
        self.client.withdraw(self.up_id, reason)


def waits(call: AgentCall) -> bool:
    """Whether its agent has been asked, and has nothing in flight for it."""
    return isinstance(call.caller, Seat) and call.caller.waits


def whose(call: AgentCall) -> object:
    """The agent whose call it is: equal for its calls alone. One that has no connection is who it says it is."""
    caller = call.caller
    agent = caller.agent if isinstance(caller, Seat) else caller
    return (agent.workspace, agent.client) if agent.passing and agent.client else agent

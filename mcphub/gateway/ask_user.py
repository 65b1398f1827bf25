"""Owns the questions of legacy servers: elicitation, sampling, roots; whom they ask, what comes back.

It must not know sockets. Ownership is never guessed: the call on whose stream the question came, else the only call in
flight there, else the oldest if one agent has them all. Where several agents have calls there it waits a little: a call
that asks waits for its answer, so those that are answered meanwhile were not it. What stays unclear is refused and
counted (bridging, ownership). Where it came on nobody's stream it may be any of that agent's calls there: it is open
until the last of them has ended. A legacy agent is asked by a request, a modern one by `gateway.parking`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from mcphub.connection.client import Client
from mcphub.gateway.askable import (
    CAPABILITY_OF,
    Capabilities,
    Undeclared,
    is_url_mode,
    is_web,
    named,
    read_capabilities,
    refuse_undeclared,
    secrets_in,
)
from mcphub.gateway.call import AgentCall, asks, check_at, waits, whose
from mcphub.gateway.pages import Pages
from mcphub.gateway.parking import Parking, TooMany
from mcphub.gateway.roots_allowed import RootsAllowed
from mcphub.gateway.signs import Signs
from mcphub.protocol import jsonrpc, mrtr
from mcphub.protocol.jsonrpc import Envelope, Raw
from mcphub.spec import InstanceKey

METHODS = CAPABILITY_OF
#: Questions that may be open for one server; more than any person could answer.
MAX_OPEN = 100
#: How long a question waits for it to become clear whose it is, seconds: less than servers wait for an answer, since
#: one that has given up answers its call, and the question would then be taken for another's.
UNCLEAR_LIMIT = 5.0
#: What a server is told where its question may be of a call that the same agent no longer wants.
OF_A_WITHDRAWN_CALL = "a call that was cancelled may be why this is asked: nobody is asked because of that"

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str).decode
_CANCEL = b'{"action":"cancel"}'


class _Question(msgspec.Struct):
    client: Client
    mid: bytes
    method: str
    #: Whose it is, or is told through.
    call: AgentCall
    #: It came on nobody's stream: any call of that agent which this connection had then may be why.
    loose: bool
    #: The last id in use when it came, and when that was, monotonic seconds.
    last: int
    since: float

    def holds(self, call: AgentCall) -> bool:
        """Whether it stops the clock of this call."""
        if self.call is call:
            return True
        if not self.loose or self.client is not call.client or call.up_id > self.last:
            return False
        return self.call.caller == call.caller and not call.meta.modern

    def held(self) -> list[AgentCall]:
        """The calls in flight whose clock it stops."""
        if not self.loose:
            return [self.call]
        return [call for call in self.client.waiting().values() if isinstance(call, AgentCall) and self.holds(call)]


class _Unclear(msgspec.Struct):
    """A question that may be one of several agents'."""

    server: str
    client: Client
    mid: bytes
    method: str
    params: Raw
    timer: asyncio.TimerHandle | None = None


class Refusal(ValueError):
    """Why a question is not passed on; the message is for the server."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Unclear(Refusal):
    """Several agents may be meant."""

    def __init__(self) -> None:
        text = "several agents have calls in flight here: whom this asks is unclear"
        super().__init__(jsonrpc.INVALID_PARAMS, text)


def owner(calls: Iterable[AgentCall], current: AgentCall | None) -> AgentCall | None:
    """Whose question it is, None where no call is in flight. Raises Unclear where it may be several agents'."""
    if current is not None:
        return current
    found = list(calls)
    if not found:
        return None
    if any(whose(call) != whose(found[0]) for call in found):
        raise Unclear
    # They are all its own: what it has in flight, rather than what waits for it. As rounds they get one each, so that
    # of calls which all ask none has the questions of the others.
    flying = [call for call in found if not waits(call)] or found
    return next((call for call in flying if not asks(call)), flying[0])


class AskUser:
    """The open questions of one hub."""

    def __init__(
        self,
        counters: Counter[str],
        parking: Parking,
        pages: Pages,
        allowed: RootsAllowed,
        patience: Callable[[InstanceKey], float],
        signs: Signs,
    ) -> None:
        self._signs = signs
        self._parking = parking
        self._patience = patience
        self._pages = pages
        self._allowed = allowed
        self._open: dict[bytes, _Question] = {}
        self._unclear: list[_Unclear] = []
        self._counters = counters
        self._loop = asyncio.get_running_loop()
        # An agent outlives a daemon: what it answers to the one before must be no answer to a question of this one.
        self._numbers = itertools.count(int(self._loop.time() * 1000))

    def ask(
        self,
        server: str,
        client: Client,
        mid: bytes,
        method: str,
        params: Raw,
        calls: Iterable[AgentCall],
        current: AgentCall | None,
    ) -> bool:
        """Pass one question on, now or a little later, or refuse it; False where the hub's own answer will do (roots)
        and it is nobody's, or may be several agents'."""
        found = list(calls)
        try:
            call = owner(found, current)
        except Unclear as e:
            if method == "roots/list":
                return self.unclear(server, client, mid, method, params)
            self._wait(_Unclear(server, client, mid, method, params), found, e)
            return True
        return self._put(server, client, mid, method, params, call, loose=current is None)

    def unclear(self, server: str, client: Client, mid: bytes, method: str, params: Raw, why: str = "") -> bool:
        """Refuse a question of which nothing that comes can tell whose it is; False where the hub's own answer will do
        (roots): an agent's directories are not told where another's call may be why. `why` is for the server."""
        if method == "roots/list":
            self._counters["refused_questions"] += 1
            return False
        self._refuse(_Unclear(server, client, mid, method, params), why or str(Unclear()))
        return True

    def _wait(self, one: _Unclear, calls: list[AgentCall], unclear: Unclear) -> None:
        """Keep a question until it is clear whose it is, if it may become so."""
        capability, client = METHODS[one.method], one.client
        if not any(_can_be_asked(call, capability) for call in calls):
            # Whoever it is meant for cannot be asked.
            if one.method == "elicitation/create":
                client.send(jsonrpc.result_frame(one.mid, _CANCEL))
            else:
                self._refuse(one, f"none of the agents with calls in flight here supports {capability}")
            return
        waiting = [other for other in self._unclear if other.client is client]
        if len(waiting) + 1 >= len({whose(call) for call in calls}):
            # As many agents as questions: all of these calls may wait for an answer. The last one gets none, so that
            # the end of its call tells whose the others are.
            self._refuse(one, str(unclear))
            return
        one.params = Raw(bytes(one.params))
        one.timer = self._loop.call_later(UNCLEAR_LIMIT, self._stays_unclear, one)
        self._unclear.append(one)
        for call in calls:
            call.questions = self

    def _stays_unclear(self, one: _Unclear) -> None:
        self._unclear.remove(one)
        self._refuse(one, str(Unclear()))

    def _refuse(self, one: _Unclear, why: str) -> None:
        self._counters["refused_questions"] += 1
        if not one.client.over:
            one.client.send(jsonrpc.error_frame(one.mid, jsonrpc.INVALID_PARAMS, why))

    def _look_again(self, ended: AgentCall) -> None:
        """A call is over: what waits to become clear may be."""
        client = ended.client
        calls = [w for w in client.waiting().values() if isinstance(w, AgentCall) and w is not ended]
        for one in [one for one in self._unclear if one.client is client]:
            call = None
            if ended.replied:  # else it may be that call's: its server was not done with it
                try:
                    call = owner(calls, None)
                except Unclear:
                    continue
            self._unclear.remove(one)
            _stop(one)
            if call is None:
                self._refuse(one, str(Unclear()))
            else:
                self._put(one.server, client, one.mid, one.method, one.params, call, loose=True)

    def _put(
        self,
        server: str,
        client: Client,
        mid: bytes,
        method: str,
        params: Raw,
        call: AgentCall | None,
        *,
        loose: bool,
    ) -> bool:
        """Ask the agent whose call it is."""
        try:
            capability = METHODS[method]
            if call is None:
                if method == "roots/list":
                    return False
                raise Refusal(jsonrpc.INVALID_PARAMS, f"{method} belongs to no call of an agent")
            if method == "sampling/createMessage" and not client.sampling:
                # It was not offered to this server: a model costs somebody money.
                raise Refusal(jsonrpc.METHOD_NOT_FOUND, f"sampling is not allowed for the server {server}")
            modern = call.meta.modern
            if modern and call.asked_for not in mrtr.METHODS:
                raise Refusal(jsonrpc.INVALID_PARAMS, f"an agent cannot be asked during {call.asked_for}")
            declared = _declared(call)
            if capability not in declared:
                if method == "roots/list":
                    return False
                call.lacks, call.questions = capability, self
                if method == "elicitation/create":
                    client.send(jsonrpc.result_frame(mid, _CANCEL))
                    return True
                raise Refusal(jsonrpc.METHOD_NOT_FOUND, f"the agent does not support {capability}")
            body = shown_question(server, method, params)
            refuse_undeclared([(method, params)], declared)
            warn_of_secrets(client, method, params)
            is_open = sum(question.client is client for question in self._open.values())
            if is_open + self._parking.count(client) >= MAX_OPEN:
                raise Refusal(jsonrpc.INVALID_PARAMS, "too many questions are open")
            if modern:
                self._as_round(call, client, mid, method, body)
                return True
        except (Refusal, Undeclared) as e:
            self._counters["refused_questions"] += 1
            if method == "roots/list":
                return False
            if isinstance(e, Undeclared) and call is not None:
                call.lacks, call.questions = " and ".join(named(e.missing)), self
            code = e.code if isinstance(e, Refusal) else jsonrpc.INVALID_PARAMS
            client.send(jsonrpc.error_frame(mid, code, str(e)))
            return True
        if page := _page_of(method, body):
            [own] = self._pages.give(call.caller, call.key, [page])
            body = msgspec.json.encode({**_members(body), "elicitationId": own})
        key = b'"mcphub-%d"' % next(self._numbers)
        now = self._loop.time()
        question = self._open[key] = _Question(client, mid, method, call, loose, client.next_id() - 1, now)
        for held in question.held():
            held.questions = self
            held.stand_still(now, self._patience(held.key))
            self._signs.begin(held)
        call.caller.send(b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}\n' % (key, method.encode(), body))
        return True

    def _as_round(self, call: AgentCall, client: Client, mid: bytes, method: str, body: bytes) -> None:
        if method == "elicitation/create":
            # A modern question has no id of its own (MCP spec 2026-07-28, client/elicitation).
            fields = _members(body)
            if fields.pop("elicitationId", None) is not None:
                body = msgspec.json.encode(fields)
        elif method == "roots/list":
            body = b""
        try:
            self._parking.ask(call, client, mid, method, body, self)
        except TooMany as e:
            self._counters["refused_questions"] += 1
            if method == "elicitation/create":
                client.send(jsonrpc.result_frame(mid, _CANCEL))
            else:
                client.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, str(e)))
            call.withdraw(str(e), "given_up")
            text = f"the server {call.server} asks for input during {call.tool}, and {e}"
            if call.read_only:
                call.error("too_many_parked", f"{text}; it only reads, so it can be called again", retryable=True)
            else:
                text = f"{text}; whether it had effects is unknown, check before calling it again"
                call.error("too_many_parked", text + check_at(call.operation_id()))

    def answered(self, agent: object, env: Envelope) -> bool:
        """An agent's reply; False where it answers no question of ours, or another agent's."""
        if not isinstance(env.id, str):
            return False
        key = jsonrpc.quote(env.id)
        question = self._open.get(key)
        if question is None or question.call.caller != agent:
            return False
        del self._open[key]
        self._goes_on(question)
        if env.error:
            self._gave_up(question, jsonrpc.read_error(env.error))
        elif bytes(memoryview(env.result)[:1]) != b"{":
            self._gave_up(question, jsonrpc.ErrorObject(-1, "the agent's answer is no object"))
        else:
            answer = memoryview(env.result)
            if question.method == "roots/list":
                kept, refused = self._allowed.kept(bytes(answer), question.call.caller.workspace)
                self._counters["refused_roots"] += refused
                answer = memoryview(kept)
            question.client.send(jsonrpc.result_frame(question.mid, answer))
        return True

    def _gave_up(self, question: _Question, error: jsonrpc.ErrorObject) -> None:
        if question.client.over:
            return
        if question.method == "elicitation/create":
            question.client.send(jsonrpc.result_frame(question.mid, _CANCEL))
        else:
            question.client.send(jsonrpc.error_frame(question.mid, error.code, error.message))

    def _goes_on(self, question: _Question) -> None:
        """It is closed: the clocks that no other question stops run again."""
        now, others = self._loop.time(), list(self._open.values())
        if any(other.loose and other.client is question.client and other.holds(question.call) for other in others):
            return
        own = {id(other.call) for other in others}
        for call in question.held():
            if id(call) not in own:
                call.run_on(now)

    def ended(self, call: AgentCall) -> None:
        """A call has ended, whatever way: its questions are withdrawn from the agent, but for those that may as well
        be another call's of its own."""
        self._parking.ended(call)
        for key in [key for key, question in self._open.items() if question.call is call]:
            question = self._open[key]
            heir = next((one for one in question.held() if one is not call), None)
            if question.loose and heir is not None and not question.client.over:
                question.call, heir.questions = heir, self
                heir.stand_still(question.since, self._patience(heir.key))
                continue
            del self._open[key]
            self._take_back(key, question, b"the call has ended")
            self._gave_up(question, jsonrpc.ErrorObject(-1, "the call has ended"))
        if self._unclear:
            self._look_again(call)

    def withdrawn(self, client: Client, params: Raw) -> None:
        """A server's `notifications/cancelled`: it no longer wants an answer."""
        try:
            mid = jsonrpc.encode_id(msgspec.json.decode(_members(params)["requestId"], type=int | str))
        except (msgspec.DecodeError, KeyError, RecursionError):
            return
        self._parking.withdrawn(client, mid)
        for one in [one for one in self._unclear if one.client is client and one.mid == mid]:
            self._unclear.remove(one)
            _stop(one)
        for key in [key for key, q in self._open.items() if q.client is client and q.mid == mid]:
            question = self._open.pop(key)
            self._take_back(key, question, b"the server no longer asks")
            self._goes_on(question)

    def _take_back(self, key: bytes, question: _Question, reason: bytes) -> None:
        params = b'{"requestId":%b,"reason":"%b"}' % (key, reason)
        question.call.caller.send(jsonrpc.notification_frame("notifications/cancelled", params))

    def left(self, agent: object) -> None:
        """An agent has left: its questions get the answer of somebody who is gone."""
        for key in [key for key, question in self._open.items() if question.call.caller == agent]:
            self._gave_up(self._open.pop(key), jsonrpc.ErrorObject(-1, "the agent has left"))


def _page_of(method: str, body: bytes) -> str:
    """The id of the page that a question sends a person to, "" = none."""
    if method != "elicitation/create":
        return ""
    try:
        fields = _members(body)
        return _string(fields["elicitationId"]) if is_url_mode(fields) else ""
    except (msgspec.DecodeError, KeyError):
        return ""


def _stop(one: _Unclear) -> None:
    if one.timer is not None:
        one.timer.cancel()


def _can_be_asked(call: AgentCall, capability: str) -> bool:
    return capability in _declared(call) and (not call.meta.modern or call.asked_for in mrtr.METHODS)


def _declared(call: AgentCall) -> Capabilities:
    """What its agent can do, as far as the call says."""
    return read_capabilities(call.meta.capabilities) if call.meta.modern else call.caller.capabilities


def warn_of_secrets(client: Client, method: str, params: Raw) -> None:
    """A form that asks for a secret is shown as any other, and a person finds in the log who asked."""
    if method == "elicitation/create" and (names := secrets_in(params)):
        client.note("secret_forms", f"asks in a form for what looks like a secret, which no server may: {names}")


def shown_question(server: str, method: str, params: Raw) -> bytes:
    """A question's params as the agent sees them: it must know who asks; other servers' context is not this one's."""
    try:
        fields = _members(params or b"{}")
        if method == "elicitation/create":
            fields["message"] = Raw(jsonrpc.quote(f"[{server}] {_string(fields['message'])}"))
            if is_url_mode(fields) and not is_web(_string(fields["url"])):
                raise Refusal(jsonrpc.INVALID_PARAMS, "only URLs with http or https are shown to a person")
        elif method == "sampling/createMessage":
            fields.pop("includeContext", None)
    except (msgspec.DecodeError, KeyError, RecursionError) as e:
        raise Refusal(jsonrpc.INVALID_PARAMS, f"{method}: wrong or missing member: {e}") from None
    return msgspec.json.encode(fields)

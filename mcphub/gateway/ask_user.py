"""Owns the questions of legacy servers to legacy agents: elicitation, sampling, roots; whom they ask, what comes back.

It must not know sockets. Ownership is never guessed: the call on whose stream the question came, else the only call in
flight there, else the oldest if one agent has them all; anything else is refused and counted (bridging, ownership).
Where it came on nobody's stream it may be any of that agent's calls there: it is open until the last of them has ended.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterable

import msgspec

from mcphub.connection.client import Client
from mcphub.gateway.askable import CAPABILITY_OF, Undeclared, is_url_mode, is_web, refuse_undeclared
from mcphub.gateway.call import AgentCall
from mcphub.protocol import jsonrpc
from mcphub.protocol.jsonrpc import Envelope, Raw

METHODS = CAPABILITY_OF
#: How long a person may take, seconds; the call's own clock stands still meanwhile.
HUMAN_LIMIT = 900.0
#: Questions that may be open for one server; more than any person could answer.
MAX_OPEN = 100

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str).decode
_CANCEL = b'{"action":"cancel"}'


class _Question(msgspec.Struct):
    client: Client
    mid: bytes
    method: str
    #: Whose it is, or is told through.
    call: AgentCall
    #: It came on nobody's stream: any call of that agent on this connection may be why.
    loose: bool
    #: How long a person may take, monotonic seconds.
    until: float

    def holds(self, call: AgentCall) -> bool:
        """Whether it stops the clock of this call."""
        if self.call is call:
            return True
        return self.loose and self.client is call.client and self.call.caller == call.caller and not call.meta.modern

    def held(self) -> list[AgentCall]:
        """The calls in flight whose clock it stops."""
        if not self.loose:
            return [self.call]
        return [call for call in self.client.waiting().values() if isinstance(call, AgentCall) and self.holds(call)]


class Refusal(ValueError):
    """Why a question is not passed on; the message is for the server."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def owner(calls: Iterable[AgentCall], current: AgentCall | None) -> AgentCall | None:
    """Whose question it is, None where no call is in flight. Raises Refusal where it is ambiguous."""
    if current is not None:
        return current
    found = list(calls)
    if not found:
        return None
    if any(call.caller != found[0].caller for call in found):
        raise Refusal(jsonrpc.INVALID_PARAMS, "several agents have calls in flight here: whom this asks is unclear")
    return found[0]


class AskUser:
    """The open questions of one hub."""

    def __init__(self, counters: Counter[str]) -> None:
        self._open: dict[bytes, _Question] = {}
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
        """Pass one question on, or refuse it; False where it is nobody's and the hub's own answer will do (roots)."""
        try:
            call = owner(calls, current)
            capability = METHODS[method]
            if call is None:
                if method == "roots/list":
                    return False
                raise Refusal(jsonrpc.INVALID_PARAMS, f"{method} belongs to no call of an agent")
            if method == "sampling/createMessage" and not client.sampling:
                # It was not offered to this server: a model costs somebody money.
                raise Refusal(jsonrpc.METHOD_NOT_FOUND, f"sampling is not allowed for the server {server}")
            if call.meta.modern:
                if method == "roots/list":
                    return False
                text = f"{method} of the server {server} cannot be carried to an agent of 2026-07-28 yet"
                raise Refusal(jsonrpc.METHOD_NOT_FOUND, text)
            if capability not in call.caller.capabilities:
                if method == "roots/list":
                    return False
                if method == "elicitation/create":
                    client.send(jsonrpc.result_frame(mid, _CANCEL))
                    return True
                raise Refusal(jsonrpc.METHOD_NOT_FOUND, f"the agent does not support {capability}")
            body = shown_question(server, method, params)
            refuse_undeclared([(method, params)], call.caller.capabilities)
            if sum(question.client is client for question in self._open.values()) >= MAX_OPEN:
                raise Refusal(jsonrpc.INVALID_PARAMS, "too many questions are open")
        except (Refusal, Undeclared) as e:
            self._counters["refused_questions"] += 1
            if method == "roots/list":
                return False
            code = e.code if isinstance(e, Refusal) else jsonrpc.INVALID_PARAMS
            client.send(jsonrpc.error_frame(mid, code, str(e)))
            return True
        key = b'"mcphub-%d"' % next(self._numbers)
        until = self._loop.time() + HUMAN_LIMIT
        question = self._open[key] = _Question(client, mid, method, call, current is None, until)
        for held in question.held():
            held.questions = self
            held.deadline = min(until, held.hard + HUMAN_LIMIT)
        call.caller.send(b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}\n' % (key, method.encode(), body))
        return True

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
            question.client.send(jsonrpc.result_frame(question.mid, memoryview(env.result)))
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
                call.deadline = now + call.idle

    def ended(self, call: AgentCall) -> None:
        """A call has ended, whatever way: its questions are withdrawn from the agent, but for those that may as well
        be another call's of its own."""
        for key in [key for key, question in self._open.items() if question.call is call]:
            question = self._open[key]
            heir = next((one for one in question.held() if one is not call), None)
            if question.loose and heir is not None and not question.client.over:
                question.call, heir.questions = heir, self
                heir.deadline = max(heir.deadline, min(question.until, heir.hard + HUMAN_LIMIT))
                continue
            del self._open[key]
            self._take_back(key, question, b"the call has ended")
            self._gave_up(question, jsonrpc.ErrorObject(-1, "the call has ended"))

    def withdrawn(self, client: Client, params: Raw) -> None:
        """A server's `notifications/cancelled`: it no longer wants an answer."""
        try:
            mid = jsonrpc.encode_id(msgspec.json.decode(_members(params)["requestId"], type=int | str))
        except (msgspec.DecodeError, KeyError, RecursionError):
            return
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

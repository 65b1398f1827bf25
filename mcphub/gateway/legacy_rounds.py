"""Owns the rounds of modern servers towards legacy agents: each entry is asked as a request of ours, then one retry.

It must not know sockets. The agent's own request stays open meanwhile; what is asked goes on its stream, all entries at
once. The retry has the server's state byte for byte, a new id, and the answers to all entries (bridging; MCP spec
2026-07-28, basic/patterns/mrtr, and 2025-11-25, client/elicitation).
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from mcphub.connection.worker import Worker
from mcphub.gateway.ask_user import shown_question, warn_of_secrets
from mcphub.gateway.askable import CAPABILITY_OF, Undeclared, is_url_mode, read_capabilities, refuse_undeclared
from mcphub.gateway.call import AgentCall, check_at
from mcphub.gateway.own_answers import own_answer
from mcphub.gateway.pages import COMPLETE, Pages
from mcphub.gateway.roots_allowed import RootsAllowed
from mcphub.gateway.signs import Signs
from mcphub.gateway.url_steps import Step
from mcphub.protocol import jsonrpc, mrtr
from mcphub.protocol.jsonrpc import EMPTY, Envelope, Raw
from mcphub.spec import InstanceKey

#: Entries of one round that are asked; more than any person could answer.
MAX_ENTRIES = 100
#: Seconds before a round that asks nothing is answered, doubling from the first to the last.
PAUSE = 0.1
PAUSE_MOST = 5.0

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str).decode
_CANCEL = b'{"action":"cancel"}'


class _Entry(msgspec.Struct):
    key: str
    method: str
    params: bytes


class Asking(msgspec.Struct):
    """What is known of the rounds of one call."""

    rounds: int = 0
    #: How often a modern agent was sent to pages of a legacy server for it.
    tries: int = 0
    #: The entries without an answer, by the id of our request as JSON; the answers, by the server's key.
    open: dict[bytes, _Entry] = msgspec.field(default_factory=dict)
    answers: dict[str, bytes] = msgspec.field(default_factory=dict)
    state: str | None = None
    timer: asyncio.TimerHandle | None = None
    #: Ids of pages that the agent was sent to.
    pages: list[str] = msgspec.field(default_factory=list)


class LegacyRounds:
    """The rounds of one hub. Implements gateway.call.Older and gateway.call.Questions."""

    def __init__(
        self,
        workers: Mapping[InstanceKey, Worker],
        counters: Counter[str],
        allowed: RootsAllowed,
        pages: Pages,
        patience: Callable[[InstanceKey], float],
        signs: Signs,
    ) -> None:
        self._signs = signs
        self._pages = pages
        self._patience = patience
        self._workers = workers
        self._counters = counters
        self._allowed = allowed
        self._open: dict[bytes, AgentCall] = {}
        self._loop = asyncio.get_running_loop()
        # As in ask_user: an answer to a question of the daemon before must be none to one of this.
        self._numbers = itertools.count(int(self._loop.time() * 1000))

    def needs_input(self, call: AgentCall, result: memoryview) -> None:
        """A call's server answered that it needs input first. The call has ended but for that."""
        asking = call.asking = call.asking or Asking()
        asking.rounds += 1
        if asking.rounds > mrtr.MAX_ROUNDS:
            text = f"the server {call.server} asked {mrtr.MAX_ROUNDS} times and does not stop"
            call.error("too_many_rounds", text)
            return
        try:
            found = mrtr.read_input_required(result)
            entries = self._entries(call, found)
        except Undeclared as e:
            call.undeclared(e)
            return
        except (ValueError, RecursionError) as e:
            text = f"the server {call.server} asks for input in a way that cannot be carried: {e}"
            call.error("unsupported_result", text)
            return
        asking.state = found.requestState if isinstance(found.requestState, str) else None
        call.caller.calls[call.mid] = call
        call.questions = self
        if not entries and asking.answers:
            self._retry(call, asking)  # mcphub knew all of them
            return
        if not entries:
            asking.timer = self._loop.call_later(_pause(asking.rounds), self._retry, call, asking)
            return
        limit = self._patience(call.key)
        call.stand_still(self._loop.time(), limit)
        self._signs.begin(call)
        asking.timer = self._loop.call_later(limit, self._too_long, call)
        for entry in entries:
            mid = b'"mcphub-r%d"' % next(self._numbers)
            asking.open[mid] = entry
            self._open[mid] = call
        for mid, entry in list(asking.open.items()):
            head = b'{"jsonrpc":"2.0","id":%b,"method":"%b"' % (mid, entry.method.encode())
            call.caller.send(head + (b',"params":' + entry.params if entry.params else b"") + b"}\n")

    def _entries(self, call: AgentCall, found: mrtr.InputRequired) -> list[_Entry]:
        """The questions as the agent gets them. Raises ValueError."""
        assert call.asking is not None
        own = call.asking.answers = {}
        raw = found.inputRequests
        if not isinstance(raw, dict):
            return []
        if len(raw) > MAX_ENTRIES:
            raise ValueError(f"more than {MAX_ENTRIES} questions at once")
        entries, asked, pages = [], [], []
        declared = read_capabilities(call.caller.offers)
        for key, value in raw.items():
            fields = _members(value)
            method = _string(fields["method"]) if "method" in fields else ""
            if method not in CAPABILITY_OF:
                raise ValueError(f"{method[:80]!r} is no question")
            if answer := own_answer(method, declared, call.client.roots):
                own[key] = answer
                continue
            params = fields.get("params", EMPTY)
            asked.append((method, params))
            warn_of_secrets(call.client, method, params)
            body = b"" if method == "roots/list" else shown_question(call.server, method, params)
            if method == "elicitation/create" and is_url_mode(_members(body)):
                pages.append(secrets.token_urlsafe(16))
                body = b'%b,"elicitationId":%b}' % (body[:-1], jsonrpc.quote(pages[-1]))
            entries.append(_Entry(key, method, body))
        refuse_undeclared(asked, declared)
        call.asking.pages += pages
        return entries

    # --- answers -----------------------------------------------------------------------------------------------------

    def answered(self, agent: object, env: Envelope) -> bool:
        """An agent's reply; False where it answers no question of these, or another agent's."""
        if not self._open or not isinstance(env.id, str):
            return False
        mid = jsonrpc.quote(env.id)
        call = self._open.get(mid)
        if call is None or call.caller != agent or call.asking is None:
            return False
        del self._open[mid]
        asking = call.asking
        entry = asking.open.pop(mid)
        if not env.error and bytes(memoryview(env.result)[:1]) == b"{":
            answer = bytes(memoryview(env.result))
            if entry.method == "roots/list":
                answer, refused = self._allowed.kept(answer, call.caller.workspace)
                self._counters["refused_roots"] += refused
        elif entry.method == "elicitation/create":
            answer = _CANCEL
        else:
            why = jsonrpc.read_error(env.error).message if env.error else "the answer is no object"
            self._refused(call, entry, why)
            return True
        asking.answers[entry.key] = answer
        if not asking.open:
            self._retry(call, asking)
        return True

    def _refused(self, call: AgentCall, entry: _Entry, why: str) -> None:
        """There is no way to say no to these but not to go on (MCP spec 2026-07-28, client/sampling, client/roots)."""
        call.over()
        data = call.told("input_refused", input=entry.key)
        text = f"the server {call.server} wanted {entry.method} ({entry.key}) for {call.tool}, which was refused: {why}"
        call.caller.send(jsonrpc.error_frame(call.mid, jsonrpc.INTERNAL_ERROR, text, data))

    def _too_long(self, call: AgentCall) -> None:
        call.over()
        limit = self._patience(call.key)
        text = f"the server {call.server} needs input for {call.tool}, and nobody gave it within {limit:g} s"
        call.error("input_timeout", text)

    def _retry(self, call: AgentCall, asking: Asking) -> None:
        """Send the request again, on whatever connection there is now: the server keeps nothing of the last one."""
        _stop(asking)
        now = self._loop.time()
        call.questions = self if asking.pages else None  # who is told that it was answered
        if call.task is not None:
            call.task.brought(call, asking.answers)
            return
        worker = self._workers.get(call.key)
        client = worker.client if worker is not None else None
        if client is None or client.over or client.era != "modern":
            call.over()
            text = f"the connection to the server {call.server} was lost while it was waited for what it needs"
            if call.read_only:
                call.error("lost", f"{text}; {call.tool} only reads, so it can be called again")
            else:
                # What it did before it asked is its own affair.
                text += "; whether it had effects is unknown, check before calling it again"
                call.error("outcome_unknown", text + check_at(call.recorded("lost")))
            return
        more = b""
        if asking.state is not None:
            more = b',"requestState":' + jsonrpc.quote(asking.state)
        if asking.answers:
            body = [jsonrpc.quote(key) + b":" + answer for key, answer in asking.answers.items()]
            more += b',"inputResponses":{' + b",".join(body) + b"}"
        call.client = client
        call.run_on(now)
        if call.deadline <= now:
            call.over()
            text = f"the server {call.server} asked for input again and again during {call.tool}"
            call.error("timeout", text, retryable=False)
            return
        call.again(client, more)

    # --- ends --------------------------------------------------------------------------------------------------------

    def ended(self, call: AgentCall) -> None:
        """A call is over, whatever way: what is still asked is taken back."""
        asking = call.asking
        if asking is None:
            return
        _stop(asking)
        while asking.open:
            mid, _ = asking.open.popitem()
            self._open.pop(mid, None)
            params = b'{"requestId":%b,"reason":"the call has ended"}' % mid
            call.caller.send(jsonrpc.notification_frame("notifications/cancelled", params))

    def completed(self, call: AgentCall) -> None:
        """A call's result is about to be given: the pages that its agent was sent to have done what they are for."""
        for page in call.asking.pages:
            params = b'{"elicitationId":%b}' % jsonrpc.quote(page)
            call.caller.send(jsonrpc.notification_frame(COMPLETE, params))

    def sent_to(self, call: AgentCall, steps: Sequence[Step]) -> list[Step]:
        """Its agent is about to be told of these pages of a legacy server. Returns them by the ids for it."""
        ids = self._pages.give(call.caller, call.key, [step.elicitationId for step in steps])
        return [msgspec.structs.replace(step, elicitationId=id) for step, id in zip(steps, ids, strict=True)]


def _stop(asking: Asking) -> None:
    if asking.timer is not None:
        asking.timer.cancel()
        asking.timer = None


def _pause(rounds: int) -> float:
    return float(min(PAUSE * 2 ** (rounds - 1), PAUSE_MOST))

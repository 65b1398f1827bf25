"""Owns the rounds of modern requests towards modern agents: what `input_required` becomes, what a retry carries.

It must not ask anybody: the agent answers in its own time, by sending the request again.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from mcphub.gateway import url_steps
from mcphub.gateway.ask_user import shown_question
from mcphub.gateway.askable import read_capabilities, refuse_undeclared
from mcphub.gateway.call import AgentCall, Caller
from mcphub.gateway.own_answers import merged, own_answer
from mcphub.gateway.roots_allowed import RootsAllowed
from mcphub.protocol import jsonrpc, mrtr
from mcphub.protocol.envelope import RESULT_META
from mcphub.protocol.jsonrpc import EMPTY, Raw
from mcphub.spec import InstanceKey

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str).decode


class Rounds:
    """The seals of one hub."""

    def __init__(
        self, key: bytes, allowed: RootsAllowed, counters: Counter[str], patience: Callable[[InstanceKey], float]
    ) -> None:
        self._key = key
        self._allowed = allowed
        self._counters = counters
        self._patience = patience

    def asking(self, call: AgentCall, of: mrtr.Round, result: memoryview) -> bytes:
        """The `input_required` result as the agent of this call gets it: it sees which server asks, and a state sealed
        for it, which has what mcphub answers itself. Raises ValueError where the server's is not as the spec has it,
        and Undeclared (which is one) where the agent cannot be given some question."""
        found = mrtr.read_input_required(result)
        declared = read_capabilities(call.meta.capabilities)
        parts = [b'{"resultType":"input_required","_meta":{%b}' % RESULT_META]
        own: dict[str, Raw] = {}
        if isinstance(found.inputRequests, dict):
            try:
                asked = {key: question_of(raw) for key, raw in found.inputRequests.items()}
                for key, (method, _) in asked.items():
                    if answer := own_answer(method, declared, call.client.roots):
                        own[key] = Raw(answer)
                shown = {key: shown_to(of.server, raw) for key, raw in found.inputRequests.items() if key not in own}
                refuse_undeclared((question for key, question in asked.items() if key not in own), declared)
            except RecursionError:
                raise ValueError("inputRequests is nested too deeply") from None
            # Where nothing is left to be asked it is a round of a state alone.
            if shown or not own:
                parts.append(b',"inputRequests":' + msgspec.json.encode(shown))
        state = found.requestState if isinstance(found.requestState, str) else None
        of = msgspec.structs.replace(of, lifetime=self._patience(call.key))
        kept = mrtr.State(state, answers=own, filled=call.filled)
        if call.task is not None:
            kept = msgspec.structs.replace(kept, task=call.task.id, asked=tuple(call.task.asked))
        parts.append(b',"requestState":%b}' % jsonrpc.quote(self.sealed(of, kept)))
        return b"".join(parts)

    def sealed(self, of: mrtr.Round, state: mrtr.State) -> str:
        """This state for the agent to bring back."""
        return mrtr.seal(self._key, of, state, time.time_ns() / 1e9, secrets.token_bytes(mrtr.NONCE_BYTES))

    def pages(self, call: AgentCall, steps: Sequence[url_steps.Step]) -> bytes:
        """The `input_required` result for an agent whose call a legacy server refuses until these pages are done."""
        tries = call.asking.tries if call.asking is not None else 0
        state = mrtr.State(pages=tuple(step.elicitationId for step in steps), tries=tries + 1, filled=call.filled)
        of = msgspec.structs.replace(round_of(call), lifetime=self._patience(call.key))
        return url_steps.as_questions(steps, self.sealed(of, state))

    def unsealed(self, of: mrtr.Round, sealed: Raw) -> mrtr.State:
        """What an agent brought back with this request. Raises mrtr.BadState."""
        try:
            text = _string(sealed)
        except msgspec.DecodeError:
            raise mrtr.BadState("requestState is no string") from None
        return mrtr.unseal(self._key, of, text, time.time_ns() / 1e9)

    def retry(self, responses: Raw, state: mrtr.State | None, workspace: str) -> bytes:
        """What a retry of an agent in this workspace carries on the server's hop, as members with a leading comma."""
        out = b""
        if state is not None and state.server is not None:
            out = b',"requestState":' + jsonrpc.quote(state.server)
        own = state.answers if state is not None else {}
        if responses or own:
            answers, refused = merged(responses, own, self._allowed, workspace)
            self._counters["refused_roots"] += refused
            out += b',"inputResponses":' + answers
        return out


def round_of(call: AgentCall) -> mrtr.Round:
    """What a seal of this call's is bound to; its arguments must have been kept."""
    return mrtr.Round(principal_of(call.caller), call.server, call.asked_for, call.target, call.arguments)


def principal_of(caller: Caller) -> str:
    """Who an agent is over all its connections."""
    return f"{caller.workspace}\0{caller.client}"


def question_of(raw: Raw) -> tuple[str, Raw]:
    """The method and params of an entry of `inputRequests`. Raises DecodeError, RecursionError."""
    fields = _members(raw)
    return _string(fields["method"]) if "method" in fields else "", fields.get("params", EMPTY)


def shown_to(server: str, raw: Raw) -> Raw:
    """Such an entry as the agent gets it: it must know which server asks. Raises ValueError, RecursionError."""
    fields = _members(raw)
    method, params = question_of(raw)
    if method in ("elicitation/create", "sampling/createMessage"):
        fields["params"] = Raw(shown_question(server, method, params))
    return Raw(msgspec.json.encode(fields))

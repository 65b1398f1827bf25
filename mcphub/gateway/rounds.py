"""Owns the rounds of modern requests towards modern agents: what `input_required` becomes, what a retry carries.

It must not ask anybody: the agent answers in its own time, by sending the request again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

import msgspec

from mcphub.gateway import url_steps
from mcphub.gateway.ask_user import shown_question
from mcphub.gateway.askable import read_capabilities, refuse_undeclared
from mcphub.gateway.call import AgentCall, Caller
from mcphub.protocol import jsonrpc, mrtr
from mcphub.protocol.envelope import RESULT_META
from mcphub.protocol.jsonrpc import EMPTY, Raw

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str).decode


class Rounds:
    """The seals of one hub."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def asking(self, of: mrtr.Round, result: memoryview, declared: bytes) -> bytes:
        """The `input_required` result as the agent gets it: it sees which server asks, and a state sealed for it.
        `declared` is what it declared with its request, b"" = nothing. Raises ValueError where the server's is not as
        the spec has it, and Undeclared (which is one) where the agent cannot be given some question."""
        found = mrtr.read_input_required(result)
        parts = [b'{"resultType":"input_required","_meta":{%b}' % RESULT_META]
        if isinstance(found.inputRequests, dict):
            try:
                shown = {key: _shown(of.server, raw) for key, raw in found.inputRequests.items()}
                refuse_undeclared(map(_question, found.inputRequests.values()), read_capabilities(declared))
            except RecursionError:
                raise ValueError("inputRequests is nested too deeply") from None
            parts.append(b',"inputRequests":' + msgspec.json.encode(shown))
        state = found.requestState if isinstance(found.requestState, str) else None
        parts.append(b',"requestState":%b}' % jsonrpc.quote(self.sealed(of, mrtr.State(state))))
        return b"".join(parts)

    def sealed(self, of: mrtr.Round, state: mrtr.State) -> str:
        """This state for the agent to bring back."""
        return mrtr.seal(self._key, of, state, time.time_ns() / 1e9, secrets.token_bytes(mrtr.NONCE_BYTES))

    def pages(self, call: AgentCall, steps: Sequence[url_steps.Step]) -> bytes:
        """The `input_required` result for an agent whose call a legacy server refuses until these pages are done."""
        tries = call.asking.tries if call.asking is not None else 0
        state = mrtr.State(pages=tuple(step.elicitationId for step in steps), tries=tries + 1)
        return url_steps.as_questions(steps, self.sealed(round_of(call), state))

    def unsealed(self, of: mrtr.Round, sealed: Raw) -> mrtr.State:
        """What an agent brought back with this request. Raises mrtr.BadState."""
        try:
            text = _string(sealed)
        except msgspec.DecodeError:
            raise mrtr.BadState("requestState is no string") from None
        return mrtr.unseal(self._key, of, text, time.time_ns() / 1e9)

    def retry(self, responses: Raw, state: mrtr.State | None) -> bytes:
        """What a retry carries on the server's hop, as members with a leading comma."""
        out = b""
        if state is not None and state.server is not None:
            out = b',"requestState":' + jsonrpc.quote(state.server)
        if responses:
            out += b',"inputResponses":' + bytes(responses)
        return out


def round_of(call: AgentCall) -> mrtr.Round:
    """What a seal of this call's is bound to; its arguments must have been kept."""
    return mrtr.Round(principal_of(call.caller), call.server, call.asked_for, call.target, call.arguments)


def principal_of(caller: Caller) -> str:
    """Who an agent is over all its connections."""
    return f"{caller.workspace}\0{caller.client}"


def _question(raw: Raw) -> tuple[str, Raw]:
    fields = _members(raw)
    return _string(fields["method"]) if "method" in fields else "", fields.get("params", EMPTY)


def _shown(server: str, raw: Raw) -> Raw:
    fields = _members(raw)
    method, params = _question(raw)
    if method in ("elicitation/create", "sampling/createMessage"):
        fields["params"] = Raw(shown_question(server, method, params))
    return Raw(msgspec.json.encode(fields))

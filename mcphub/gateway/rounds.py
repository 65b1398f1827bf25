"""Owns the rounds of modern requests towards modern agents: what `input_required` becomes, what a retry carries.

It must not ask anybody: the agent answers in its own time, by sending the request again.
"""

from __future__ import annotations

import time

import msgspec

from mcphub.gateway.ask_user import shown_question
from mcphub.gateway.askable import read_capabilities, refuse_undeclared
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
        sealed = mrtr.seal(self._key, of, state, time.time_ns() / 1e9)
        parts.append(b',"requestState":%b}' % jsonrpc.quote(sealed))
        return b"".join(parts)

    def retry(self, of: mrtr.Round, responses: Raw, sealed: Raw) -> bytes:
        """What a retry carries on the server's hop, as members with a leading comma. Raises mrtr.BadState."""
        out = b""
        if sealed:
            try:
                text = _string(sealed)
            except msgspec.DecodeError:
                raise mrtr.BadState("requestState is no string") from None
            state = mrtr.unseal(self._key, of, text, time.time_ns() / 1e9)
            if state is not None:
                out = b',"requestState":' + jsonrpc.quote(state)
        if responses:
            out += b',"inputResponses":' + bytes(responses)
        return out


def _question(raw: Raw) -> tuple[str, Raw]:
    fields = _members(raw)
    return _string(fields["method"]) if "method" in fields else "", fields.get("params", EMPTY)


def _shown(server: str, raw: Raw) -> Raw:
    fields = _members(raw)
    method, params = _question(raw)
    if method in ("elicitation/create", "sampling/createMessage"):
        fields["params"] = Raw(shown_question(server, method, params))
    return Raw(msgspec.json.encode(fields))

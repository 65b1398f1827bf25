"""Owns the old error -32042, by which a server says that a person must open a page before the request can be done.

It must not know agents or connections. Only what is known of such an error goes on: pages of the web, each with the
server's name beside it (MCP spec 2025-11-25, client/elicitation, URLElicitationRequiredError).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mcphub.gateway.askable import Undeclared, is_web, refuse_undeclared
from mcphub.protocol.envelope import RESULT_META
from mcphub.protocol.jsonrpc import Raw

CODE = -32042
#: Steps of one error that are passed on.
MAX_STEPS = 20

_URL_MODE = Raw(b'{"mode":"url"}')


class Step(msgspec.Struct, kw_only=True):
    """One page to be opened."""

    mode: str = "url"
    url: str
    message: str
    elicitationId: str


class _Data(msgspec.Struct):
    elicitations: list[Raw] = msgspec.field(default_factory=list)


class _Answer(msgspec.Struct):
    action: str = ""


_data = msgspec.json.Decoder(_Data).decode
_step = msgspec.json.Decoder(Step).decode
_answers = msgspec.json.Decoder(dict[str, _Answer]).decode


def read_steps(data: Raw, server: str) -> list[Step]:
    """The steps in an error's data that can be shown, each saying who asks."""
    try:
        found = _data(data).elicitations
    except (msgspec.DecodeError, RecursionError):
        return []
    steps = []
    for raw in found[:MAX_STEPS]:
        try:
            step = _step(raw)
        except (msgspec.DecodeError, RecursionError):
            continue
        if is_web(step.url):
            steps.append(Step(url=step.url, message=f"[{server}] {step.message}", elicitationId=step.elicitationId))
    return steps


def opens_pages(declared: Mapping[str, object]) -> bool:
    """Whether an agent that declared this can be given steps."""
    try:
        refuse_undeclared([("elicitation/create", _URL_MODE)], declared)
    except Undeclared:
        return False
    return True


def as_data(steps: Sequence[Step]) -> bytes:
    """The data of the error for a legacy agent."""
    return msgspec.json.encode({"elicitations": steps})


def as_questions(steps: Sequence[Step], state: str) -> bytes:
    """The `input_required` result for a modern agent, which does not know the error. Its retry is another call, which
    the state says of which pages."""
    asked = {
        f"page{number}": {
            "method": "elicitation/create",
            "params": {"mode": step.mode, "url": step.url, "message": step.message},
        }
        for number, step in enumerate(steps, 1)
    }
    head = b'{"resultType":"input_required","_meta":{%b},"inputRequests":' % RESULT_META
    return head + msgspec.json.encode(asked) + b',"requestState":' + msgspec.json.encode(state) + b"}"


def not_wanted(server: str) -> str:
    """What is said of a retry that was declined."""
    return f"The server {server} needs a page to be opened in a browser first, and that was declined. Nothing was sent."


def declined(responses: Raw) -> bool:
    """Whether a retry says that a person did not want to. What cannot be read says nothing."""
    try:
        return any(answer.action in ("decline", "cancel") for answer in _answers(responses).values())
    except (msgspec.DecodeError, RecursionError):
        return False

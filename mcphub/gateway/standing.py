"""Owns what a session must be again in the next daemon: what its agent has said once and does not say again.

It must not know how that gets there, nor what is in flight beside its ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mcphub.gateway.agent import Agent
from mcphub.gateway.call import check_at
from mcphub.gateway.subscriptions import KINDS
from mcphub.protocol import jsonrpc
from mcphub.protocol.envelope import error_data
from mcphub.protocol.serving import tool_error


class Owed(msgspec.Struct, array_like=True):
    """A request without an answer: its id as JSON, what it was, and whether it only read. `server` is whose it was; or
    `tool` the name that the agent used for what it called, where that is all that is known, `own_name` the server's.
    `unsent`: no server had got it by then. `trace` is its trace id, `modern` the era of its agent. `first`: it is a
    call as it came, and no round of an earlier one."""

    mid: str
    what: str = "a request"
    read_only: bool = False
    server: str = ""
    tool: str = ""
    unsent: bool = False
    trace: str = ""
    own_name: str = ""
    modern: bool = False
    first: bool = False


class Standing(msgspec.Struct, omit_defaults=True):
    """One session. `initialize` are params of that request, None = it has said none; `listens` the filter of each
    subscription by its id as JSON; `watches` what a legacy agent subscribed to."""

    initialize: dict[str, Any] | None = None
    log_level: str = ""
    watches: list[str] = []
    listens: dict[str, dict[str, Any]] = {}
    owed: list[Owed] = []


def standing_of(agent: Agent, owed: Mapping[bytes, Owed]) -> Standing:
    """What the agent itself knows of it: not what it watches."""
    standing = Standing(log_level=agent.log_level, owed=list(owed.values()))
    if agent.version:
        standing.initialize = {
            "protocolVersion": agent.version,
            "capabilities": agent.capabilities,
            "clientInfo": {"name": agent.client},
        }
    for mid, kinds in agent.listens.held.items():
        standing.listens[mid.decode()] = {KINDS[kind]: True for kind in kinds}
    return standing


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Standing).decode


def encoded(standing: Standing) -> bytes:
    """As JSON."""
    return _encode(standing)


def decoded(data: bytes) -> Standing:
    """Raises msgspec.DecodeError, and RecursionError."""
    return _decode(data)


def unknown_outcome(owed: Owed, operation: str = "") -> bytes:
    """The answer to what was in flight when the daemon ended; `operation` is its id in the outcome journal, "" = it is
    not in there."""
    text = f"the mcphub daemon ended during {owed.what}, and another one goes on"
    if owed.unsent:
        kind, text = "stopping", f"{text}; nothing of it was sent to its server: make it again"
    elif owed.read_only and owed.first:
        kind, text = "lost", f"{text}; it was not sent, or its tool only reads, so it can be called again"
    elif owed.read_only:
        kind, text = "lost", f"{text}; it only reads, so it can be asked again"
    else:
        kind = "outcome_unknown"
        text = f"{text}; whether it had effects is unknown, check before calling it again" + check_at(operation)
    more = {"tool": owed.own_name, "traceId": owed.trace, "operationId": operation}
    data = error_data(kind, owed.server, **{name: value for name, value in more.items() if value})
    if owed.unsent and owed.tool:
        return jsonrpc.result_frame(owed.mid.encode(), tool_error(text, owed.modern, data))
    return jsonrpc.error_frame(owed.mid.encode(), jsonrpc.INTERNAL_ERROR, text, data)

"""Owns what people are told of the outcome journal: which calls of it they asked for, and what each outcome means.

It must not know where the journal is, nor write it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from mcphub.status import CallsReport, RecordedCall
from mcphub.store.call_record import OUTCOMES, UNKNOWN, CallRecord

#: Why an outcome is not known, or a server did not act, in words.
REASONS = {
    "lost": "the connection was lost before the answer came",
    "exited": "the server ended before it answered",
    "timeout": "no answer came in time: of the server, or to what it asked",
    "cancelled": "it was cancelled before the answer came",
    "killed": "mcphub was killed before the answer came",
    "stopped": "mcphub was stopped before the answer came",
    "unreadable": "the answer could not be read",
    "no_response": "the connection ended without a response",
    "status": "the server answered with an HTTP error that says nothing of it",
    "ended": "the stream of its answer ended before the answer",
    "unreachable": "the server could not be reached",
    "tls": "the server's certificate was refused",
    "refused": "the server refused the request",
    "rate_limited": "the server wanted fewer requests",
    "needs_auth": "the server wanted a sign-in",
    "session": "the server's session was over",
    "session_over": "the server's session was over, and no other one took it",
    "not_sent": "it was not sent",
    "given_up": "mcphub gave it up before the answer came",
    "task": "the server made a task of it, and no longer told of it",
    "task_cancelled": "the server made a task of it, which was cancelled",
}
TEXTS = {
    "open": "waits for its answer",
    "answered": "answered",
    "tool_error": "answered, the tool says that it failed",
    "error": "refused by the server with an error",
    "not_acted_on": "not acted on",
    "input_required": "the server asked for input first",
    "unknown": "unknown",
    "task": "became a task, which the agent follows itself",
}


class CallsAsked(msgspec.Struct, frozen=True):
    """Which calls: that of an id, or all whose outcome is `unknown`, of a server by its name, of agents whose name
    holds `agent`; the newest `limit`."""

    id: str = ""
    unknown: bool = False
    server: str = ""
    agent: str = ""
    limit: int = 50


def calls_report(
    records: Iterable[CallRecord], asked: CallsAsked, problems: Sequence[str] = (), *, live: bool
) -> CallsReport:
    """What was asked for of these records, which come newest first; no more of them are read than it takes."""
    found: list[RecordedCall] = []
    more = False
    agent = asked.agent.casefold()
    for record in records:
        if asked.id and record.id != asked.id:
            continue
        if asked.unknown and record.outcome != UNKNOWN:
            continue
        if (asked.server and record.server != asked.server) or (agent and agent not in record.agent.casefold()):
            continue
        if len(found) == asked.limit and not asked.id:
            more = True
            break
        found.append(recorded(record))
        if asked.id:
            break
    return CallsReport(calls=found, more=more, problems=list(problems), live=live)


def recorded(record: CallRecord) -> RecordedCall:
    """One call as it is reported."""
    outcome = OUTCOMES[record.outcome]
    text = TEXTS[outcome]
    if record.reason:
        text += f": {REASONS.get(record.reason, record.reason)}"
    return RecordedCall(
        operation=record.id,
        server=record.server,
        tool=record.tool,
        agent=record.agent,
        workspace=record.workspace,
        outcome=outcome,
        reason=record.reason,
        text=text,
        began=_moment(record.began),
        ended=_moment(record.ended) if record.ended else None,
        attempts=record.attempts,
        arguments_digest=record.digest,
        arguments_bytes=record.size,
        trace=record.trace,
        agent_era=record.agent_era,
        server_era=record.server_era,
        check=_check(record) if record.outcome == UNKNOWN else "",
    )


def _check(record: CallRecord) -> str:
    return (
        f"look at {record.server} for what {record.tool} may have done around that time before it is called again; "
        "mcphub never sends it again by itself"
    )


def no_such_call(id: str) -> str:
    """What whoever asks for an id is told that is not kept."""
    if not id.startswith("op_"):
        return f"cannot find the call {id[:80]!a}: an id begins with op_, and stands in the error that the agent got"
    return f"cannot find the call {id[:80]!a}: it is not, or no longer, in the journal of calls"


def _moment(seconds: float) -> str:
    """ISO 8601, UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

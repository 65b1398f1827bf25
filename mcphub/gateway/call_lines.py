"""Owns the lines of the log about single calls: that one with a trace goes out, and how one ended that failed.

It must not know arguments or results: no value of either, and no text of a server's, stands in such a line. Every line
about a call that belongs to a trace has its id (architecture, one trace id through hub, server and log).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from mcphub.gateway.call import AgentCall, Seat
from mcphub.kinds import KINDS

#: Lines of a second about calls that failed, but for those of the level debug; what comes on top is counted, and told
#: with the next one.
MOST = 10

_LOG = logging.getLogger(__name__)


class CallLines:
    """Those of one hub. `now` is monotonic seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._second = 0
        self._count = 0
        self._left_out = 0

    def sent(self, call: AgentCall) -> None:
        """It goes to its server. To be told only of a call that belongs to a trace."""
        if _LOG.isEnabledFor(logging.DEBUG):
            _LOG.debug("%s: %s is sent", call.server, call.tool, extra=self._facts(call))

    def failed(self, call: AgentCall, how: str) -> None:
        """It ended by an error: a kind of `mcphub.kinds`, or the code of a server's. What its agent, its server or its
        tool said is a matter of theirs, and told at the level debug only."""
        known = KINDS.get(how)
        level = logging.INFO if known is not None and known.root != "protocol" else logging.DEBUG
        if _LOG.isEnabledFor(level):
            took = {"seconds": round(self._now() - call.began, 3)}
            self._write(level, f"{call.server}: {call.tool} ended: {how}", self._facts(call) | took)

    def refused(self, server: str, tool: str, kind: str, agent: str, trace: str) -> None:
        """A call was turned down, and nothing sent."""
        if _LOG.isEnabledFor(logging.DEBUG):
            facts: dict[str, object] = {"agent": agent}
            if trace:
                facts["trace"] = trace
            _LOG.debug("%s: %s was not sent: %s", server or "mcphub", tool[:128], kind, extra=facts)

    def _facts(self, call: AgentCall) -> dict[str, object]:
        caller = call.caller
        agent = caller.agent if isinstance(caller, Seat) else caller
        facts: dict[str, object] = {"agent": agent.client, "request": call.mid.decode(), "era": call.client.era}
        if call.attempts > 1:
            facts["attempts"] = call.attempts
        if call.meta.trace:
            facts["trace"] = call.meta.trace
        if operation := call.operation_id():
            facts["operation"] = operation
        return facts

    def _write(self, level: int, text: str, facts: dict[str, object]) -> None:
        if level == logging.DEBUG:
            _LOG.debug("%s", text, extra=facts)
            return
        second = int(self._now())
        if second != self._second:
            self._second, self._count = second, 0
        self._count += 1
        if self._count > MOST:
            self._left_out += 1
            return
        if self._left_out:
            text += f" ({self._left_out} more such lines were left out before)"
            self._left_out = 0
        _LOG.log(level, "%s", text, extra=facts)


def of_trace(call: AgentCall) -> str:
    """For the end of a line of a server's about one of its calls."""
    return f" (trace {call.meta.trace})" if call.meta.trace else ""

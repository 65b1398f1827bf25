"""Owns who is told of a call's way from when it is sent until it has ended.

It must not decide anything itself: what is kept of a call, whether it is sent again, and whether the next one may go is
decided by those that it tells.
"""

from __future__ import annotations

from mcphub.catalog.toolset import Route
from mcphub.channel import Data
from mcphub.connection.client import Client
from mcphub.gateway.again import Again
from mcphub.gateway.call import AgentCall, whose
from mcphub.gateway.call_lines import CallLines
from mcphub.gateway.circuits import Circuits
from mcphub.gateway.outcomes import Outcomes
from mcphub.gateway.repeats import Repeats
from mcphub.protocol.envelope import says_error, with_warning
from mcphub.protocol.jsonrpc import EMPTY, Raw


class Accounts:
    """The accounts of one hub. Implements gateway.call.Accounts; each call ends by exactly one of `answered`, `ended`
    or a `goes_on` that says False."""

    def __init__(
        self, repeats: Repeats, lines: CallLines, again: Again, circuits: Circuits, outcomes: Outcomes
    ) -> None:
        self._repeats = repeats
        self._lines = lines
        self.outcomes = outcomes
        self._again = again
        self.circuits = circuits

    def watch(self, call: AgentCall, arguments: Data) -> None:
        """Look at what becomes of this one, if its tool failed lately for its agent. Told only where anything did."""
        agent = whose(call)
        if agent in self._repeats.failing and self._repeats.watches(agent, _tool(call)):
            call.watched = True
            call.arguments = bytes(arguments)

    def failed(self, call: AgentCall, how: str) -> str:
        """It ends by an error; what its agent is to be told where it failed like this before, "" = nothing."""
        self._lines.failed(call, how)
        if call.route is None:
            return ""
        return self._repeats.failed(whose(call), _tool(call), call.arguments or None, how)

    def looked_at(self, call: AgentCall, result: Data) -> bytes:
        """Its result, with a warning where its tool says by `isError` what it said before."""
        whole = bytes(result)
        if says_error(whole):
            again = self.failed(call, "isError")
            return with_warning(whole, "repeated_failure", again) if again else whole
        if call.watched:
            self._repeats.done(whose(call), _tool(call), call.arguments)
        return whole

    def sends(self, call: AgentCall, arguments: Data) -> None:
        """It is sent now, for the first time or again; `arguments` are valid during the call only."""
        call.attempts += 1
        if call.meta.trace:
            self._lines.sent(call)
        route = call.route
        if route is None:
            return
        if may_go_again(route, call.client):
            self._again.keep(call, arguments)
        if route.recorded:
            self.outcomes.sends(call, arguments)

    def resumed(self, call: AgentCall, arguments: Data) -> None:
        """What its server made of an earlier request of its agent is followed again: it is in flight, though nothing of
        it is sent, nor can be sent again."""
        call.attempts += 1
        if call.route is not None and call.route.recorded:
            self.outcomes.sends(call, arguments)

    def settled(self, call: AgentCall, outcome: int, reason: str = "") -> None:
        """It has ended for mcphub by what its server made of it, which is this outcome of store.call_record. Told only
        where `call.accounted`."""
        if call.operation:
            self.outcomes.settled(call, outcome, reason)
        if call.ticket is not None:
            self.circuits.answered(call)
        if call.lanes is not None:
            call.lanes.end(True)

    def answered(self, call: AgentCall, error: bool, result: Raw = EMPTY, plain: bytes = b"") -> None:
        """Its server has answered: by a result, whatever it says, or by a JSON-RPC error. Told only where
        `call.accounted`. `plain`: the result, where envelope.plain_result found nothing in it to be changed."""
        if call.operation:
            self.outcomes.answered(call, error, result, plain)
        if call.ticket is not None:
            self.circuits.answered(call)
        if call.lanes is not None:
            call.lanes.end(True)

    def goes_on(self, call: AgentCall, kind: str, message: str) -> bool:
        """No answer will come, for a reason of `channel.Receiver.unanswered`. True = it is in flight still, and will be
        sent again; False = its agent is told, and it has ended."""
        if call.trouble is None or not call.trouble.over:  # else it was told before
            self.circuits.failed(call, kind, message)
            if self._again.goes_on(call, kind, message):
                if call.operation:
                    self.outcomes.tried(call, kind)
                return True
        elif call.ticket is not None:
            self.circuits.ended(call)  # it was let through to be sent again, and is not
        if call.operation:
            self.outcomes.unanswered(call, kind)
        if call.lanes is not None:
            call.lanes.end()
        return False

    def unknown(self, call: AgentCall, kind: str) -> str:
        """Its agent is told that nobody knows what came of it, for a reason as in `goes_on`; its id in the journal."""
        return self.outcomes.unknown(call, kind)

    def operation_id(self, call: AgentCall) -> str:
        """Its id in the journal, "" = it is not in there."""
        return self.outcomes.id_of(call)

    def ended(self, call: AgentCall, kind: str) -> None:
        """It has ended before its server answered: `cancelled` by its agent or by mcphub's own end, `timeout` where
        nobody answered what its server asked, `not_sent` at all, `given_up` for another reason of mcphub's, or for a
        `local` one between two rounds."""
        if call.trouble is not None:
            self._again.ended(call)
        if call.operation:
            self.outcomes.ended(call, kind)
        if call.ticket is not None:
            self.circuits.ended(call)
        if call.lanes is not None:
            call.lanes.end()


def may_go_again(route: Route, client: Client) -> bool:
    """Whether calls of this tool may be sent again, as far as that can be said before they fail: on a byte stream
    nothing is known not to have been acted on, so that a write is never sent again there."""
    return route.definition.repeatable or not client.stdout


def named(route: Route) -> str:
    """What tells a tool from all others, for Repeats."""
    return f"{route.key.name} {route.definition.name}"


def _tool(call: AgentCall) -> str:
    assert call.route is not None
    return named(call.route)

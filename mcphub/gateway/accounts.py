"""Owns who is told of a call's way from when it is sent until it has ended.

It must not decide anything itself: what is kept of a call, whether it is sent again, and whether the next one may go is
decided by those that it tells.
"""

from __future__ import annotations

from mcphub.channel import Data
from mcphub.gateway.call import AgentCall


class Accounts:
    """The accounts of one hub. Implements gateway.call.Accounts; each call ends by exactly one of `answered`, `ended`
    or a `goes_on` that says False."""

    def sends(self, call: AgentCall, arguments: Data) -> None:
        """It is sent now, for the first time or again; `arguments` are valid during the call only."""
        call.attempts += 1

    def answered(self, call: AgentCall, error: bool) -> None:
        """Its server has answered: by a result, whatever it says, or by a JSON-RPC error. Told only where
        `call.accounted`."""

    def goes_on(self, call: AgentCall, kind: str, message: str) -> bool:
        """No answer will come, for a reason of `channel.Receiver.unanswered`. True = it is in flight still, and will be
        sent again; False = its agent is told, and it has ended."""
        return False

    def ended(self, call: AgentCall, kind: str) -> None:
        """It has ended before its server answered: `cancelled` by its agent or by mcphub's own end, `not_sent` at all,
        or for a `local` reason between two rounds."""

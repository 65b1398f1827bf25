"""Owns what becomes of a modern agent's request that brings back a `requestState`: refused, answered here, or sent on.

It must not send a request to a server. What a state says is in its seal alone; what a parked call says, in parking.
"""

from __future__ import annotations

from mcphub.gateway.call import Caller
from mcphub.gateway.parking import TIME_OVER, Parking, lost
from mcphub.gateway.rounds import Rounds
from mcphub.protocol import jsonrpc, mrtr
from mcphub.protocol.envelope import RequestMeta, error_data, traced
from mcphub.protocol.jsonrpc import Raw


class Retries:
    """Those of one hub."""

    def __init__(self, rounds: Rounds, parking: Parking) -> None:
        self._rounds = rounds
        self._parking = parking

    def goes_on(
        self, agent: Caller, mid: bytes, meta: RequestMeta, of: mrtr.Round, responses: Raw, sealed: Raw
    ) -> mrtr.State | None:
        """What was sealed, where the request goes on to its server; None where it is taken care of."""
        try:
            state = self._rounds.unsealed(of, sealed)
        except mrtr.Expired as e:
            if e.state.parked:
                agent.send(lost(mid, of, e.state, meta.trace, TIME_OVER))
            else:
                self._refuse(agent, mid, meta, of, e)
            return None
        except mrtr.BadState as e:
            self._refuse(agent, mid, meta, of, e)
            return None
        if not state.parked:
            return state
        self._parking.retried(agent, mid, meta, of, state, responses)
        return None

    def _refuse(self, agent: Caller, mid: bytes, meta: RequestMeta, of: mrtr.Round, e: mrtr.BadState) -> None:
        data = traced(error_data("bad_state", of.server), meta.trace)
        agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, str(e), data))

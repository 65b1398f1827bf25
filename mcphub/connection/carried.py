"""Owns the calls that a server's last session gave back: kept until the next connection, sent again there, or refused.

It must not know why a session is over, nor open another: whoever keeps calls here sends them on, or gives them up. The
server said that it did not act on them (MCP spec 2025-11-25, basic/transports, session management).
"""

from __future__ import annotations

from collections.abc import Mapping

from mcphub.connection.client import Client, Mover


class Carried:
    """The calls of one connection; `of` is that connection, None = there are none."""

    def __init__(self) -> None:
        self.of: Client | None = None
        self._frames: Mapping[int, bytes] = {}

    def keep(self, client: Client, frames: Mapping[int, bytes]) -> None:
        """Keep what this connection gave back, with the frames by id, if it did."""
        if client.returned:
            self.of, self._frames = client, dict(frames)

    def continue_in(self, client: Client) -> None:
        """Let the ids of a connection that is being opened begin after those that are kept."""
        if self.of is not None:
            client.continue_after(max(self._frames, default=0))

    def send_on(self, client: Client) -> None:
        """Send them again on this connection, under the ids they had; refuse those that cannot be."""
        before, frames = self.of, self._frames
        self.of, self._frames = None, {}
        if before is None:
            return
        for request_id, waiter in list(before.returned.items()):
            del before.returned[request_id]
            if client.era == before.era and request_id in frames and isinstance(waiter, Mover):
                client.carry_on(request_id, waiter, frames[request_id])
            else:
                waiter.unanswered("session_over", "its session was over before the server acted on it")

    def give_up(self) -> None:
        """There is no next connection for them."""
        before = self.of
        self.of, self._frames = None, {}
        if before is not None:
            _refuse(before)

    def retire(self, client: Client) -> None:
        """This connection is over: what it gave back and is not kept is for nobody now."""
        if self.of is not client:
            _refuse(client)


def _refuse(client: Client) -> None:
    while client.returned:
        _, waiter = client.returned.popitem()
        waiter.unanswered("session_over", "its session was over, and another one cannot be had")

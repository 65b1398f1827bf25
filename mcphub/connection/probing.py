"""Owns the probes of one open connection: sends them when `pulse` says so, and tells it what became of them.

It must not decide when, nor what silence means. The cheapest request that each era allows: `ping` (MCP spec
2025-11-25, basic/utilities/ping), which the modern era has no more, and `server/discover` there (2026-07-28,
server/discover), which every server must answer. An error is an answer: one that does not know the method is alive.
Some legacy servers ignore what they do not know: the last probe before the end asks for their tools, which they have
listed before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mcphub.connection.checkup import Checkup
from mcphub.connection.client import Client, Reply
from mcphub.connection.pulse import Health, Look, Pulse
from mcphub.connection.strikes import HEARD, IN_A_ROW
from mcphub.protocol.jsonrpc import Envelope
from mcphub.protocol.versions import Era

METHODS: dict[Era, str] = {"legacy": "ping", "modern": "server/discover"}
#: What is asked in the place of `ping`.
KNOWN = "tools/list"


class Probing:
    """Of one connection, from now until `end`; `changed` is called when slow begins or ends. It has one timer and no
    task: to wake a task costs ten times what a look does. `lists`: its server has listed tools; `ignores`: it is known
    that it ignores `ping`, which is kept up."""

    def __init__(
        self, client: Client, health: Health, changed: Callable[[], None], *, lists: bool, ignores: bool = False
    ) -> None:
        self._client = client
        self._lists = lists and client.era == "legacy"
        self.ignores = ignores and self._lists
        #: Probes in a row of which nothing is known.
        self._silent = 0
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._changed = changed
        self._pulse = Pulse(health, self._now(), client.signs)
        self._was_slow = False
        self._timer: asyncio.TimerHandle | None = None
        self._look_later()

    def end(self) -> None:
        """The connection is over, or will be."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check_up(self) -> None:
        """Find out soon whether the connection still leads anywhere, as `checkup` does."""
        Checkup(self._client, self._method, self._now).begin()

    def _look_later(self) -> None:
        if self._pulse.at < float("inf"):
            self._timer = self._loop.call_at(self._pulse.at, self._look)

    @property
    def _method(self) -> str:
        return KNOWN if self.ignores else METHODS[self._client.era]

    @property
    def slow(self) -> str:
        """Why the server counts as slow now, "" = it does not."""
        pulse = self._pulse
        if pulse.mute:
            silent = pulse.heard_of(self._now())
            return f"slow: it has not answered anything for {silent:.0f} s, {self._method} neither"
        if not pulse.slow:
            return ""
        silent = pulse.silent(self._now())
        if silent >= pulse.took:
            return f"slow: it has not answered {self._method} for {silent:.1f} s"
        return f"slow: it took {pulse.took:.1f} s to answer {self._method}"

    def _look(self) -> None:
        self._timer = None
        client = self._client
        if client.over or client.gone:
            return
        if client.severed:  # no probe can come through, and none that was sent says anything
            self._pulse.rested(self._now(), client.signs)
            self._tell()
            self._look_later()
            return
        match self._pulse.look(self._now(), busy=bool(client.calls), signs=client.signs):
            case Look.PROBE:
                self._send()
            case Look.MISSED:
                silent = self._pulse.silent(self._now())
                client.missed(f"the server answers nothing, and {self._method} not since {silent:.2g} s")
                if not client.gone:
                    self._send()
        self._tell()
        if not client.gone:
            self._look_later()

    def _send(self) -> None:
        last = self._lists and self._silent == IN_A_ROW - 1
        method = KNOWN if last else self._method
        self._silent += 1
        mid = self._client.start(_Probe(self, self._pulse.number, method), method)
        if self._pulse.number == self._pulse.beside:
            self._client.uncounted = mid  # it must not end a call that runs

    def _tell(self) -> None:
        slow = self._pulse.slow or self._pulse.mute
        if self._was_slow is not slow:
            self._was_slow = slow
            self._changed()

    def answered(self, number: int, method: str) -> None:
        if method == KNOWN and self._silent >= IN_A_ROW:
            self.ignores = True
        self._silent = 0
        self._pulse.answered(number, self._now())
        self._tell()

    def failed(self, number: int) -> None:
        self._silent = 0
        self._pulse.failed(number)


class _Probe(Reply):
    """Waits for the answer to one probe, for as long as the connection lasts: a late one tells how slow it is."""

    __slots__ = ("_method", "_number", "_of")

    def __init__(self, of: Probing, number: int, method: str) -> None:
        super().__init__(float("inf"))
        self._of = of
        self._number = number
        self._method = method

    def answered(self, env: Envelope) -> None:
        self._of.answered(self._number, self._method)

    def unanswered(self, kind: str, message: str) -> None:
        # A refusal is the server's word, if not the one that was asked for.
        if kind in HEARD:
            self._of.answered(self._number, self._method)
        else:
            self._of.failed(self._number)

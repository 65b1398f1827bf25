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
from typing import Protocol

from mcphub.connection.checkup import Checkup
from mcphub.connection.client import Client, Reply
from mcphub.connection.pulse import Health, Look, Pulse
from mcphub.connection.strikes import HEARD, IN_A_ROW
from mcphub.protocol.http_answer import SESSION_GONE
from mcphub.protocol.jsonrpc import Envelope
from mcphub.protocol.versions import Era

METHODS: dict[Era, str] = {"legacy": "ping", "modern": "server/discover"}
#: What is asked in the place of `ping`.
KNOWN = "tools/list"


class Others(Protocol):
    """Connections to the same server beside the one that is probed: a call there is a call at the server."""

    @property
    def calls(self) -> int:
        """Requests of agents in flight there."""

    @property
    def signs(self) -> int:
        """How often the server gave a sign of life there, ever."""


class Probing:
    """Of one connection, from now until `end`; `changed` is called when slow, or unreachable, begins or ends. It has
    one timer and no task: to wake a task costs ten times what a look does. `lists`: its server has listed tools;
    `ignores`: it is known that it ignores `ping`, which is kept up. `others`: the connections beside it to the same
    server."""

    def __init__(
        self,
        client: Client,
        health: Health,
        changed: Callable[[], None],
        *,
        lists: bool,
        ignores: bool = False,
        others: Others | None = None,
    ) -> None:
        self._client = client
        self._others = others
        self._lists = lists and client.era == "legacy"
        self.ignores = ignores and self._lists
        #: Probes in a row of which nothing is known.
        self._silent = 0
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._changed = changed
        self._pulse = Pulse(health, self._now(), self._signs)
        #: What each probe asked that may still be spoken of, by number; and what became of the last that failed.
        self._methods: dict[int, str] = {}
        self._failure = ""
        self._last: _Probe | None = None
        self._told = (False, False)
        self._timer: asyncio.TimerHandle | None = None
        self._look_later()

    def end(self) -> None:
        """The connection is over, or will be."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check_up(self) -> None:
        """Find out soon whether the connection still leads anywhere, as `checkup` does."""
        Checkup(self._client, self._method, self._now, lambda: self._busy).begin()

    def _look_later(self) -> None:
        if self._pulse.at < float("inf"):
            self._timer = self._loop.call_at(self._pulse.at, self._look)

    @property
    def _busy(self) -> bool:
        """A call of an agent's is in flight at its server, on whichever connection."""
        return bool(self._client.calls or (self._others is not None and self._others.calls))

    @property
    def _signs(self) -> int:
        return self._client.signs + (self._others.signs if self._others is not None else 0)

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
        if pulse.oldest and silent >= pulse.took:
            return f"slow: it has not answered {self._asked(pulse.oldest)} for {silent:.1f} s"
        asked, since_then = self._asked(pulse.slow_by), pulse.since_then
        if pulse.in_vain:
            then = f", and answered after {since_then:.1f} s the last time" if since_then is not None else ""
            return f"slow: it did not answer {asked} for {pulse.took:.1f} s{then}"
        then = f", and {since_then:.1f} s the last time" if since_then is not None else ""
        return f"slow: it took {pulse.took:.1f} s to answer {asked}{then}"

    @property
    def unreachable(self) -> str:
        """Why the server, whose connection is kept, cannot be reached now, "" = that is not known of it."""
        pulse = self._pulse
        if not pulse.away:
            return ""
        text = f"unreachable now: {self._failure}"
        if self._busy:
            text += f"; a call waits, and nothing has come for {pulse.heard_of(self._now()):.0f} s"
        return text

    def _asked(self, number: int) -> str:
        return self._methods.get(number, self._method)

    def _look(self) -> None:
        self._timer = None
        client = self._client
        if client.over or client.gone:
            return
        if client.severed:  # no probe can come through, and none that was sent says anything
            self._pulse.rested(self._now(), self._signs)
            self._tell()
            self._look_later()
            return
        match self._pulse.look(self._now(), busy=self._busy, signs=self._signs):
            case Look.PROBE:
                self._send()
            case Look.MISSED:
                silent = self._pulse.silent(self._now())
                if self._last is not None:
                    self._last.uncounted = True  # its silence is counted now, and its end is not, too
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
        number = self._pulse.number
        self._methods[number] = method
        probe = self._last = _Probe(self, number, method)
        probe.uncounted = self._pulse.beside  # it must not end a call that runs
        self._client.start(probe, method)

    def _tell(self) -> None:
        found = (self._pulse.slow or self._pulse.mute, self._pulse.away)
        if self._told != found:
            self._told = found
            self._changed()

    def _forget(self, last: int) -> None:
        """Nobody speaks of the probes up to this one any more, but for the one that made it slow."""
        kept = self._pulse.slow_by
        self._methods = {number: asked for number, asked in self._methods.items() if number > last or number == kept}

    def answered(self, number: int, method: str) -> None:
        if method == KNOWN and self._silent >= IN_A_ROW:
            self.ignores = True
        self._silent = 0
        self._pulse.answered(number, self._now())
        self._forget(number)
        self._tell()

    def failed(self, number: int, kind: str, message: str) -> None:
        silent = kind == "no_response"  # it was taken, and not answered in time
        if not silent:
            self._silent = 0
        away = not silent and message != SESSION_GONE
        if away and number == self._pulse.number:
            self._failure = message
        self._pulse.failed(number, self._now(), away=away)
        if number != self._pulse.slow_by:
            self._methods.pop(number, None)
        if not self._client.over and not self._client.gone:
            self._tell()


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
            self._of.failed(self._number, kind, message)

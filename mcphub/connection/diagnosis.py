"""Owns the naming of faults: what a connection, its process and its error say becomes one Fault, for a person.

It must not move a state, retry or log. `client.gone` and the counters of a connection tell more than its error does.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable

from mcphub.connection.client import Client
from mcphub.connection.faults import BY_TRANSPORT, Fault, FaultKind
from mcphub.connection.last_words import LINE, MESSAGE, cut, last_words
from mcphub.errors import JSONRPCError, RemoteProtocolError, TransportError
from mcphub.outbound.close_codes import UNAUTHORIZED
from mcphub.protocol.http_answer import SESSION_GONE
from mcphub.transport import shell_prefix
from mcphub.transport.link import Link

#: How long a process may take to be reaped after its stdout ended, for its exit code to be named, seconds.
REAP = 0.5

#: What is said by who opens /dev/stdout (or another of its kind) that is a socket: open(2), ENXIO; by sh, bash, Python,
#: Node and others, in one line.
_OPENED = re.compile(r"/dev/(?:std(?:in|out)|fd/[01]\b)|/proc/(?:self|thread-self|\d+)/fd/[01]\b")
_IS_SOCKET = re.compile(r"no such device or address|\bENXIO\b", re.IGNORECASE)
TAKE_PIPES = (
    'the program opens {opened}, which is a socket: give its entry "stdio": "pipe"; mcphub starts it again by itself '
    "then, or at once by `mcphub reconnect {name}`"
)


class Diagnosis:
    """For one server. `clean` takes secrets out of a text, `stderr_tail(n)` gives the last lines, fit to be shown, and
    `stdout_tail(n)` those on stdout that are no messages; `sockets`: its stdin and stdout are sockets."""

    def __init__(
        self,
        remote: bool,
        startup_timeout: float,
        clean: Callable[[str], str],
        stderr_tail: Callable[[int], list[str]],
        sockets: bool = False,
        stdout_tail: Callable[[int], list[str]] = lambda lines: [],
    ) -> None:
        self._remote = remote
        self._startup_timeout = startup_timeout
        self._clean = clean
        self._stderr_tail = stderr_tail
        self._stdout_tail = stdout_tail
        self._sockets = sockets

    def fault(
        self, kind: FaultKind, phase: str, message: str, code: int | None = None, retry_after: float = 0.0
    ) -> Fault:
        """One fault of now, its message free of secrets and bounded; `retry_after` in seconds."""
        tail = () if self._remote else tuple(self._stderr_tail(5))
        # Who has served once can do with sockets.
        advice = _advice(tail) if self._sockets and phase != "serve" else ""
        if message.startswith(shell_prefix.CANNOT):
            advice = shell_prefix.ADVICE
        text, now = cut(self._clean(message), MESSAGE), time.time_ns() / 1e9
        lines = tuple(cut(line, LINE) for line in tail)
        others = () if self._remote else tuple(cut(line, LINE) for line in self._stdout_tail(5))
        return Fault(kind, phase, text, code, lines, now, retry_after, advice, others)

    def _last_words(self) -> str:
        """What its program said last, to be put behind a sentence."""
        said = "" if self._remote else last_words(self._stderr_tail(1), self._stdout_tail(1))
        return f"; {said}" if said else ""

    def no_common_era(self, pinned: str, message: str) -> Fault:
        """The handshake was refused; `pinned` is the only era that the entry lets be tried, "" = both were."""
        if not pinned:
            return self.fault(FaultKind.REFUSED, "handshake", message)
        text = f"{message}; no other era was tried, since the entry has \"era\": \"{pinned}\""
        return self.fault(FaultKind.PINNED_ERA, "handshake", text)

    def too_slow(self, phase: str, waits_for: str = "") -> Fault:
        """The time for a start was over in this phase: spawn, handshake, list. `waits_for` as link.waits_for."""
        if waits_for:
            return self.fault(FaultKind.UNREACHABLE, phase, f"no {waits_for} in {self._startup_timeout:g} s")
        what = {"spawn": "the start", "handshake": "server/discover and initialize", "list": "tools/list"}[phase]
        text = f"no answer to {what} in {self._startup_timeout:g} s"
        if phase != "spawn":  # what is there is of the attempt before
            text += self._last_words()
        return self.fault(FaultKind.NO_ANSWER, phase, text)

    async def why(self, client: Client, link: Link, phase: str, error: Exception) -> Fault:
        """Name the fault: what the connection says, and the process's end where there is one."""
        if client.counters["failed_content_length"]:
            return self.fault(FaultKind.CONTENT_LENGTH, phase, client.gone)
        if client.counters["failed_not_protocol"]:
            return self.fault(FaultKind.NOT_PROTOCOL, phase, client.gone + self._last_words())
        if isinstance(error, JSONRPCError):
            kind = FaultKind.LIST_FAILED if phase == "list" else FaultKind.REFUSED
            return self.fault(kind, phase, f"the server answered {phase} with an error: {error} ({error.code})")
        if isinstance(error, RemoteProtocolError):
            return self.fault(FaultKind.NOT_PROTOCOL, phase, str(error))
        if not client.over:
            named = error.kind if isinstance(error, TransportError) else ""
            kind = BY_TRANSPORT.get(named, FaultKind.NO_ANSWER)
            return self.fault(kind, phase, str(error) + self._last_words(), retry_after=link.retry_after)
        if client.gone == SESSION_GONE:
            return self.fault(FaultKind.SESSION_EXPIRED, phase, client.gone)
        if client.counters["failed_silent"]:
            return self.fault(FaultKind.UNRESPONSIVE, phase, client.gone)
        if client.counters["failed_strikes"]:
            return self.fault(FaultKind.LOST, phase, client.gone)
        if client.gone.startswith("internal error:"):
            return self.fault(FaultKind.INTERNAL, phase, client.gone)
        if client.gone.startswith(UNAUTHORIZED):
            return self.fault(FaultKind.NEEDS_AUTH, phase, client.gone)
        if client.gone.startswith(("a line is longer", "a message is longer")):
            return self.fault(FaultKind.TOO_LARGE, phase, f"the server broke the framing: {client.gone}")
        code = await link.exit_code(REAP) if link.pid is not None else None
        before = {"handshake": " before the handshake ended", "list": " before it listed its tools"}.get(phase, "")
        if code is not None:
            how = f"was ended by signal {-code}" if code < 0 else f"exited with code {code}"
            if -code == signal.SIGXCPU:
                how += " (SIGXCPU: it has used the processor time of its limits)"
            return self.fault(FaultKind.EXITED, phase, f"the server {how}{before}{self._last_words()}", code)
        what = "the connection ended" if self._remote else "the server closed its stdout"
        return self.fault(FaultKind.LOST, phase, f"{what}{before}: {client.gone}".rstrip(": ") + self._last_words())


def _advice(tail: tuple[str, ...]) -> str:
    """What these last lines of stderr tell to do, "" = nothing."""
    for text in tail:
        if _IS_SOCKET.search(text) and (opened := _OPENED.search(text)):
            return TAKE_PIPES.replace("{opened}", opened[0])
    return ""

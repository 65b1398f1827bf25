"""What a connection that ended says becomes one fault with a kind, a phase and a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.connection.client import Client
from mcphub.connection.diagnosis import Diagnosis
from mcphub.connection.faults import Fault, FaultKind
from mcphub.errors import JSONRPCError, RemoteProtocolError, TransportError
from mcphub.protocol.http_answer import SESSION_GONE
from mcphub.transport.one_stream import OneStream
from tests.fakes.channel import Heard, KeptChannel

pytestmark = pytest.mark.anyio

GONE = TransportError("gone")


class Ended(OneStream):
    """A link whose process, if there was one, ended so. Implements link.Link."""

    def __init__(self, pid: int | None = None, code: int | None = None) -> None:
        self.channel = KeptChannel()
        self.pid = pid
        self._code = code

    @property
    def retry_after(self) -> float:
        return 2.0

    async def exit_code(self, wait: float) -> int | None:
        return self._code


def diagnosis(*, remote: bool = False) -> Diagnosis:
    tail = ["one", "two"]
    return Diagnosis(remote, 30.0, lambda text: text.replace("s3cret", "***"), lambda lines: tail[-lines:])


@pytest.mark.parametrize(
    ("error", "counter", "gone", "phase", "kind", "message"),
    [
        (GONE, "failed_content_length", "framed", "handshake", FaultKind.CONTENT_LENGTH, "framed"),
        (GONE, "failed_not_protocol", "noise", "list", FaultKind.NOT_PROTOCOL, "noise"),
        (JSONRPCError(-1, "no"), "", "", "handshake", FaultKind.REFUSED, "answered handshake with an error: no (-1)"),
        (JSONRPCError(-1, "no"), "", "", "list", FaultKind.LIST_FAILED, "answered list with an error: no (-1)"),
        (RemoteProtocolError("odd"), "", "", "list", FaultKind.NOT_PROTOCOL, "odd"),
        (TransportError("s3cret", kind="tls"), "", "", "list", FaultKind.TLS, "***"),
        (TransportError("late", kind="timeout"), "", "", "list", FaultKind.NO_ANSWER, "late"),
        (GONE, "", SESSION_GONE, "serve", FaultKind.SESSION_EXPIRED, SESSION_GONE),
        (GONE, "failed_strikes", "three", "serve", FaultKind.LOST, "three"),
        (GONE, "failed_silent", "the server answers nothing", "serve", FaultKind.UNRESPONSIVE, "answers nothing"),
        (GONE, "", "internal error: KeyError", "serve", FaultKind.INTERNAL, "internal error: KeyError"),
        (GONE, "", "a line is longer than 64 MiB", "serve", FaultKind.TOO_LARGE, "broke the framing: a line"),
        (GONE, "", "reset", "handshake", FaultKind.LOST, "closed its stdout before the handshake ended: reset"),
    ],
    ids=range(13),
)
async def test_why(error: Exception, counter: str, gone: str, phase: str, kind: FaultKind, message: str) -> None:
    """Each sign has its kind, the strongest first; secrets are masked, and stderr goes along."""
    client = Client(Heard())
    client.counters[counter] += 1
    if gone:
        client.lost(gone)
    fault = await diagnosis().why(client, Ended(), phase, error)
    assert (fault.kind, fault.phase, fault.stderr) == (kind, phase, ("one", "two"))
    assert message in fault.message
    assert fault.retry_after == (2.0 if kind in (FaultKind.TLS, FaultKind.NO_ANSWER) else 0.0)
    assert fault.at > 1e9


@pytest.mark.parametrize(
    ("code", "said"),
    [(3, "exited with code 3 before it listed its tools; stderr: two"), (-9, "was ended by signal 9 before it listed")],
)
async def test_a_process_that_ended(code: int, said: str) -> None:
    """How it ended and the last thing it printed say more than that its output ended."""
    client = Client(Heard())
    client.lost("")
    fault = await diagnosis().why(client, Ended(7, code), "list", GONE)
    assert (fault.kind, fault.exit_code) == (FaultKind.EXITED, code)
    assert said in fault.message


@pytest.mark.parametrize(
    ("text", "opened"),
    [
        ("sh: 1: cannot create /dev/stdout: No such device or address", "/dev/stdout"),
        ("bash: line 1: /dev/stdin: No such device or address", "/dev/stdin"),
        ("OSError: [Errno 6] No such device or address: '/dev/fd/1'", "/dev/fd/1"),
        ("Error: ENXIO: no such device or address, open '/proc/self/fd/1'", "/proc/self/fd/1"),
        ("sh: 1: cannot open /dev/ttyS9: No such device or address", ""),
        ("sh: 1: cannot create /dev/stdout: Permission denied", ""),
        ("cannot open /dev/fd/12: No such device or address", ""),
    ],
)
async def test_a_program_that_opens_its_stdout(text: str, opened: str) -> None:
    """A socket cannot be opened by its name in /dev, so the remedy is pipes; not where it has them, and not of
    one that has served already."""

    def fault(phase: str, sockets: bool) -> Fault:
        found = Diagnosis(False, 30.0, str, lambda lines: [text, "exit"], sockets)
        return found.fault(FaultKind.EXITED, phase, "it ended", 2)

    usual = fault("handshake", False).remedy("db")
    said = fault("handshake", True).remedy("db")
    assert (said != usual) is bool(opened)
    if opened:
        assert said.startswith(f'the program opens {opened}, which is a socket: give its entry "stdio": "pipe"')
        assert said.endswith("`mcphub reconnect db`")
    assert fault("serve", True).remedy("db") == usual


async def test_a_remote_server() -> None:
    """It has no stdout to close, and no stderr to show."""
    client = Client(Heard())
    client.lost("")
    fault = await diagnosis(remote=True).why(client, Ended(), "serve", GONE)
    assert (fault.kind, fault.message, fault.stderr) == (FaultKind.LOST, "the connection ended", ())


@pytest.mark.parametrize(
    ("phase", "what"),
    [("spawn", "the start"), ("handshake", "server/discover and initialize"), ("list", "tools/list")],
)
async def test_too_slow(phase: Any, what: str) -> None:
    """A start that takes too long names what was not answered."""
    fault = diagnosis().too_slow(phase)
    said = "" if phase == "spawn" else "; stderr: two"
    assert (fault.kind, fault.message) == (FaultKind.NO_ANSWER, f"no answer to {what} in 30 s{said}")
    fault = diagnosis(remote=True).too_slow(phase, "connection")
    assert (fault.kind, fault.message) == (FaultKind.UNREACHABLE, "no connection in 30 s")


LONG = "x" * 4000


async def test_what_is_long_is_cut() -> None:
    """A long line of stderr or stdout, and a long message, take a bounded place, and end as they did."""

    def tail(lines: int) -> list[str]:
        return [f"{LONG}."] * lines

    named = Diagnosis(False, 30.0, str, tail, stdout_tail=tail)
    client = Client(Heard())
    client.lost("")
    fault = await named.why(client, Ended(7, 1), "handshake", GONE)
    assert len(fault.message) < 500 and fault.message.endswith(".")
    assert "; stderr: xxx" in fault.message and "; stdout: xxx" in fault.message
    assert [len(line) for line in (*fault.stderr, *fault.stdout)] == [500] * 10
    assert len(named.fault(FaultKind.REFUSED, "handshake", LONG).message) == 2000


@pytest.mark.parametrize("remote", [False, True])
async def test_what_it_wrote_to_stdout(remote: bool) -> None:
    """Behind stderr's last line stands that of stdout; what is not a program has neither."""
    named = Diagnosis(remote, 30.0, str, lambda n: ["err"][:n], stdout_tail=lambda n: ["out"][:n])
    said = "" if remote else "; stderr: err; stdout: out"
    assert named.too_slow("handshake").message == f"no answer to server/discover and initialize in 30 s{said}"
    client = Client(Heard())
    client.lost("")
    lost = await named.why(client, Ended(), "handshake", GONE)
    assert lost.message.endswith(f"before the handshake ended{said}")
    assert lost.stdout == (() if remote else ("out",))


def test_a_prefix_is_no_entry() -> None:
    """What to do about a bad MCPHUB_SHELL_PREFIX names the variable, whatever kind of fault it is."""
    for kind in (FaultKind.CONFIG, FaultKind.NOT_FOUND, FaultKind.SPAWN):
        fault = diagnosis().fault(kind, "spawn", "cannot use MCPHUB_SHELL_PREFIX: its program 'x' cannot be started")
        assert "mcphub env set MCPHUB_SHELL_PREFIX" in fault.remedy("db")

"""`mcphub connect` as a process, before a daemon that the test plays."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.raw_http import short_directory

ENDED = "the mcphub daemon has ended; calls in flight may have had effects. Start this server again to go on"


class Place:
    """A runtime directory, the socket that the bridge looks for, and bridges."""

    def __init__(self, root: str) -> None:
        self.root = root
        os.makedirs(f"{root}/mcphub/agent", mode=0o700)
        self.path = f"{root}/mcphub/agent/agent.sock"
        self.started: list[subprocess.Popen[bytes]] = []

    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": self.root, "HOME": self.root, "LANG": "C.UTF-8"}

    def bridge(self, *args: str | bytes, patience: float = 10.0, **streams: Any) -> subprocess.Popen[bytes]:
        code = (
            f"import sys; from mcphub.sessions import bridge; bridge.PATIENCE = {patience}; "
            "sys.exit(bridge.main(sys.argv[1:]))"
        )
        return self.run(code, *args, **streams)

    def run(self, code: str, *args: str | bytes, **streams: Any) -> subprocess.Popen[bytes]:
        kinds = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", code, *args], env=self.environment(), cwd=ROOT, **kinds
        )
        self.started.append(process)
        return process


ROOT = Path(__file__).parents[2]


@pytest.fixture
def place() -> Iterator[Place]:
    with short_directory() as root:
        place = Place(root)
        yield place
        for process in place.started:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


@pytest.fixture
def listener(place: Place) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(10)
        sock.bind(place.path)
        sock.listen()
        yield sock


def accept(listener: socket.socket) -> tuple[socket.socket, dict[str, Any], list[int]]:
    """The next bridge: its connection, its attach line, the descriptors that it gave."""
    sock, _ = listener.accept()
    sock.settimeout(10)
    while b"\n" not in (data := sock.recv(1 << 16, socket.MSG_PEEK)):
        pass
    line, fds, _, _ = socket.recv_fds(sock, data.index(b"\n") + 1, 4)
    message = json.loads(line)
    assert message["method"] == "dev.mcphub/attach"
    return sock, message["params"], fds


def said(process: subprocess.Popen[bytes]) -> tuple[int, str, bytes]:
    """How it ended: its status, what it said to a person, and what it said to its host."""
    process.wait(timeout=10)  # before its stdin is closed, which is an end of its own
    out, err = process.communicate()
    return process.returncode, err.decode().removeprefix("mcphub connect: ").strip(), out


# --- usage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "status", "text"),
    [
        (["--help"], 0, "usage: mcphub connect"),
        (["-h"], 0, "usage: mcphub connect"),
        (["--workspace"], 2, "--workspace needs a value"),
        (["--client"], 2, "--client needs a value"),
        (["--no-start=1"], 2, "unknown argument '--no-start=1'"),
        (["x"], 2, "unknown argument 'x'"),
        (["--help=x"], 0, "usage"),
    ],
)
def test_usage(place: Place, args: list[str], status: int, text: str) -> None:
    """What was wrong, and how it is meant; stdout is for MCP unless somebody asks for help."""
    code, err, out = said(place.bridge(*args))
    assert code == status
    assert text in (out.decode() if status == 0 else err)
    assert (out == b"") == (status != 0)


def test_no_daemon(place: Place) -> None:
    """With --no-start that is all there is to say."""
    code, err, out = said(place.bridge("--no-start"))
    assert (code, out) == (1, b"")
    assert err == f"cannot reach the mcphub daemon at {place.path}: none runs. Start it with `mcphub serve`"


def test_a_socket_that_cannot_be_used(place: Place) -> None:
    """The cause is the system's."""
    os.mkdir(place.path)
    code, err, _ = said(place.bridge("--no-start"))
    assert (code, place.path in err, "Traceback" in err) == (1, True, False)


@pytest.mark.parametrize("client", ["plain", 'qu"ote\\', "\n\t\x00\x7f".replace("\0", ""), "漢🙂", b"\xff\xfe"])
def test_who_it_says_it_is(place: Place, listener: socket.socket, client: str | bytes) -> None:
    """Whatever bytes a label has, the line is JSON."""
    process = place.bridge("--client", client, "--workspace=/tmp/../tmp/x")
    sock, params, fds = accept(listener)
    shown = client.decode("utf-8", "replace") if isinstance(client, bytes) else client
    assert params["workspace"] == "/tmp/x"
    assert params["client"].replace("?", "\ufffd") == shown
    for fd in fds:
        os.close(fd)
    sock.sendall(b"taken\nend\n")
    sock.close()
    assert said(process) == (0, "", b"")


# --- handed over ------------------------------------------------------------------------------------------------------


def test_streams_are_handed_over(place: Place, listener: socket.socket) -> None:
    """What it gives are its own stdin and stdout; an orderly end is one."""
    process = place.bridge()
    sock, params, (stdin, stdout) = accept(listener)
    assert params == {"client": "", "workspace": str(ROOT)}
    assert process.stdin is not None and process.stdout is not None
    sock.sendall(b"taken\n")
    os.write(process.stdin.fileno(), b"question")
    assert os.read(stdin, 100) == b"question"
    os.write(stdout, b"answer")
    assert os.read(process.stdout.fileno(), 100) == b"answer"
    for fd in (stdin, stdout):
        os.close(fd)
    sock.sendall(b"end\n")
    sock.close()
    assert said(process) == (0, "", b"")


@pytest.mark.parametrize("words", [[b"taken\n"], [b"tak", b"en\n"], [b"taken\nen"]])
@pytest.mark.parametrize("reset", [False, True])
def test_a_daemon_that_dies(place: Place, listener: socket.socket, words: list[bytes], reset: bool) -> None:
    """kill -9 of it: the host sees the end, a status that is not 0, and what to do."""
    process = place.bridge()
    sock, _, fds = accept(listener)
    if words[0] != b"tak":
        sock.sendall(words[0])
    else:
        sock.sendall(b"taken\n")
    if reset:  # something of the other side was not read when it died
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    for fd in fds:
        os.close(fd)
    sock.close()
    assert said(process) == (1, ENDED, b"")



def take(listener: socket.socket, journal: int) -> tuple[socket.socket, list[int]]:
    """What a daemon does with a bridge: its descriptors, and a journal given to it."""
    sock, _, fds = accept(listener)
    socket.send_fds(sock, [b"taken\n"], [journal])
    return sock, fds


@pytest.mark.parametrize("word", [b"", b"restarting\n", b"managed\n"])
@pytest.mark.parametrize("ends", ["pipes", "file"])
def test_another_daemon_goes_on(
    place: Place, listener: socket.socket, tmp_path: Path, word: bytes, ends: str
) -> None:
    """However the first one went: the next gets the same streams, with what nobody had read, and the journal."""
    (tmp_path / "in").write_bytes(b"question")
    with (tmp_path / "in").open("rb") as stdin, (tmp_path / "journal").open("w+b") as journal:
        process = place.bridge("--no-start", stdin=stdin if ends == "file" else subprocess.PIPE)
        sock, fds = take(listener, journal.fileno())
        assert len(fds) == 2
        if ends == "pipes":
            assert process.stdin is not None
            os.write(process.stdin.fileno(), b"question")
        assert os.read(fds[0], 1) == b"q"
        for fd in fds:
            os.set_blocking(fd, False)
            os.close(fd)
        sock.sendall(word)
        sock.close()
        sock, fds = take(listener, journal.fileno())
        assert len(fds) == 3 and os.path.samestat(os.fstat(fds[2]), os.fstat(journal.fileno()))
        os.set_blocking(fds[0], True)
        left = b""
        while len(left) < 7:
            left += os.read(fds[0], 100)
        assert left == b"uestion"
        os.write(fds[1], b"answer")
        for fd in fds:
            os.close(fd)
        sock.sendall(b"end\n")
        sock.close()
        assert said(process) == (0, "", b"answer")


def test_a_service_that_was_stopped(place: Place, listener: socket.socket, tmp_path: Path) -> None:
    """It is not started again by an agent: whoever stopped it wants that. A connection that is cut off meanwhile, by
    sockets that are about to be closed, changes nothing of it."""
    process = place.bridge(patience=0.2)
    with (tmp_path / "journal").open("w+b") as journal:
        sock, fds = take(listener, journal.fileno())
        sock.sendall(b"managed\n")
        sock.close()
        again, _, more = accept(listener)
        again.close()
        listener.close()
        os.unlink(place.path)
        for fd in (*fds, *more):
            os.close(fd)
        why = "the mcphub daemon was stopped as a service; to start it again: mcphub service install"
        assert said(process) == (1, why, b"")


def test_a_service_that_does_not_come_up(place: Place, listener: socket.socket) -> None:
    """Its sockets answer, but no daemon ever takes the agent: where to look is said."""
    unit = Path(place.root, ".config/systemd/user/mcphub.socket")
    unit.parent.mkdir(parents=True)
    unit.touch()
    process = place.bridge()
    sock, _, fds = accept(listener)
    for fd in fds:
        os.close(fd)
    sock.close()
    status, why, _ = said(process)
    assert (status, "mcphub service status" in why) == (1, True)


def test_daemons_that_end_at_once(place: Place, listener: socket.socket, tmp_path: Path) -> None:
    """It is not for ever that another one is sought."""
    process = place.bridge("--no-start")
    with (tmp_path / "journal").open("w+b") as journal:
        for _ in range(11):
            sock, fds = take(listener, journal.fileno())
            for fd in fds:
                os.close(fd)
            sock.close()
        assert said(process) == (1, ENDED, b"")


def test_daemons_that_do_not_take_it(place: Place, listener: socket.socket, tmp_path: Path) -> None:
    """A session that no daemon can go on with ends, soon."""
    process = place.bridge("--no-start")
    with (tmp_path / "journal").open("w+b") as journal:
        sock, fds = take(listener, journal.fileno())
        for _ in range(6):
            for fd in fds:
                os.close(fd)
            sock.close()
            sock, _, fds = accept(listener)
        for fd in fds:
            os.close(fd)
        sock.close()
        assert said(process) == (1, ENDED, b"")


def test_nobody_to_go_on_for(place: Place, listener: socket.socket, tmp_path: Path) -> None:
    """A host that has gone meanwhile gets no daemon started."""
    process = place.bridge()
    assert process.stdin is not None
    with (tmp_path / "journal").open("w+b") as journal:
        sock, fds = take(listener, journal.fileno())
        for fd in fds:
            os.close(fd)
        process.stdin.close()
        sock.close()
        assert process.wait(10) == 0


def test_a_host_that_ends_the_bridge(place: Place, listener: socket.socket) -> None:
    """SIGTERM and Ctrl-C end it, and with it the lease."""
    for number in (signal.SIGTERM, signal.SIGINT):
        process = place.bridge()
        sock, _, fds = accept(listener)
        sock.sendall(b"taken\n")
        process.send_signal(number)
        try:
            assert sock.recv(1) == b""
        except ConnectionResetError:
            pass  # it had not read what it was told
        for fd in fds:
            os.close(fd)
        sock.close()
        assert process.wait(10) in (0, -number)


@pytest.mark.parametrize("waits", ["_await", "run"])
def test_ctrl_c_that_comes_right_before_it_waits(place: Place, listener: socket.socket, waits: str) -> None:
    """It ends it too, whether descriptors are handed over or copied: one that another thread gets is as little seen."""
    code = (
        "import signal, sys, threading, time\n"
        "from mcphub.sessions import bridge\n"
        "main = threading.get_ident()\n"
        "def miss():\n"
        "    found = 0\n"
        "    while found < 5:\n"
        f"        found = found + 1 if sys._current_frames()[main].f_code.co_name == '{waits}' else 0\n"
        "        time.sleep(0.005)\n"
        "    signal.pthread_kill(threading.get_ident(), signal.SIGINT)\n"
        "threading.Thread(target=miss, daemon=True).start()\n"
        "sys.exit(bridge.main([]))\n"
    )
    where = "/dev/null" if waits == "run" else None
    with open(where, "wb") if where else contextlib.nullcontext(subprocess.PIPE) as out:
        process = place.run(code, stdin=subprocess.PIPE, stdout=out)
    sock, _, fds = accept(listener)
    sock.sendall(b"taken\n")
    assert process.wait(10) == 0
    for fd in fds:
        os.close(fd)
    sock.close()
    assert process.stderr is not None and process.stderr.read() == b""


# --- copied -----------------------------------------------------------------------------------------------------------


def copying(
    place: Place, listener: socket.socket, **streams: Any
) -> tuple[subprocess.Popen[bytes], socket.socket, socket.socket]:
    """A bridge that copies, the daemon's end of what it copies, and the connection that says how the daemon is."""
    process = place.bridge(**streams)
    word, params, fds = accept(listener)
    if len({os.fstat(fd).st_ino for fd in fds}) == 2:
        for fd in fds:
            os.close(fd)
        word.sendall(b"copy because the test says so\n")
        word.close()
        word, again, fds = accept(listener)
        assert again == params
    stdin, stdout = fds
    os.close(stdout)
    word.sendall(b"taken\n")
    return process, socket.socket(fileno=stdin), word


def end(sock: socket.socket, word: socket.socket) -> None:
    """The daemon is done with it."""
    sock.close()
    word.sendall(b"end\n")
    word.close()


def test_a_daemon_that_does_not_take_streams(place: Place, listener: socket.socket) -> None:
    """The bridge attaches again and copies, both ways, to the last byte of each."""
    process, sock, word = copying(place, listener)
    question, answer = os.urandom(3 << 20), os.urandom(5 << 20)
    got = bytearray()

    def daemon() -> None:
        while data := sock.recv(1 << 16):
            got.extend(data)
        sock.sendall(answer)
        end(sock, word)

    thread = threading.Thread(target=daemon)
    thread.start()
    out, err = process.communicate(question, timeout=20)
    thread.join()
    assert (process.returncode, err, out == answer, got == question) == (0, b"", True, True)


def test_both_ways_at_once(place: Place, listener: socket.socket, tmp_path: Path) -> None:
    """A daemon that takes no more requests until its answers are taken does not stop the bridge for ever."""
    (tmp_path / "in").write_bytes(b"q" * (4 << 20))
    with (tmp_path / "in").open("rb") as stdin, (tmp_path / "out").open("wb") as stdout:
        process, sock, word = copying(place, listener, stdin=stdin, stdout=stdout)
        sock.sendall(b"a" * (8 << 20))
        got = 0
        while data := sock.recv(1 << 20):
            got += len(data)
        end(sock, word)
        assert said(process)[:2] == (0, "")
    assert got == 4 << 20
    assert (tmp_path / "out").stat().st_size == 8 << 20


def test_a_daemon_that_dies_while_copying(place: Place, listener: socket.socket) -> None:
    """The same word and status as where the streams were taken."""
    process, sock, word = copying(place, listener)
    sock.sendall(b"half an answer")
    sock.close()
    word.close()
    assert said(process) == (1, ENDED, b"half an answer")


def test_a_host_that_reads_no_more(place: Place, listener: socket.socket) -> None:
    """Nobody is left to tell."""
    process, sock, word = copying(place, listener)
    assert process.stdout is not None and process.stdin is not None
    process.stdout.close()
    sock.sendall(b"answer")
    assert process.wait(10) == 0
    sock.close()
    word.close()


def test_streams_that_do_not_block(place: Place, listener: socket.socket) -> None:
    """Some hosts leave their own O_NONBLOCK on what they give."""
    read, write = os.pipe()
    back, out = os.pipe()
    for fd in (read, out):
        os.set_blocking(fd, False)
    process, sock, word = copying(place, listener, stdin=read, stdout=out)
    os.close(read)
    os.close(out)
    answer = b"x" * (1 << 20)
    thread = threading.Thread(target=sock.sendall, args=(answer,))
    thread.start()
    got = b""
    while len(got) < len(answer):
        got += os.read(back, 1 << 16)
    thread.join()
    os.write(write, b"question")
    assert sock.recv(100) == b"question"
    os.close(write)
    assert sock.recv(1) == b""
    end(sock, word)
    assert said(process)[:2] == (0, "")
    os.close(back)



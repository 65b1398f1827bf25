"""Sockets that a service manager passes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from mcphub import activation
from mcphub.errors import ConfigError
from tests.fakes.raw_http import short_directory

ME = os.getpid()
#: Where the sockets of a test are passed: nothing else of this process is there.
AT = 500


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, []),
        ({"LISTEN_FDS": "3", "LISTEN_PID": "42"}, [3, 4, 5]),
        ({"LISTEN_FDS": "3", "LISTEN_PID": "43"}, []),
        ({"LISTEN_FDS": "3"}, []),
        ({"LISTEN_FDS": "0", "LISTEN_PID": "42"}, []),
        ({"LISTEN_FDS": "", "LISTEN_PID": "42"}, []),
    ],
)
def test_which_descriptors(environ: dict[str, str], found: list[int]) -> None:
    """sd_listen_fds(3): from 3 on, for the process that LISTEN_PID names and no other."""
    assert list(activation.descriptors(environ, 42)) == found


@pytest.mark.parametrize("count", ["-1", "x", "1e1", "101", "\u0663"])
def test_a_number_that_is_none(count: str) -> None:
    """It is said, not guessed."""
    with pytest.raises(ConfigError, match="LISTEN_FDS is"):
        activation.descriptors({"LISTEN_FDS": count, "LISTEN_PID": "42"}, 42)


class Manager:
    """Opens sockets, and passes them to this process."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.sockets: list[socket.socket] = []

    def listen(self, path: str) -> str:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sockets.append(sock)
        sock.bind(path := f"{self.root}/{path}")
        sock.listen()
        return path

    def environ(self) -> dict[str, str]:
        for number, sock in enumerate(self.sockets):
            os.dup2(sock.fileno(), AT + number)
        names = ":".join("mcphub.socket" for _ in self.sockets)
        count = str(len(self.sockets))
        return {"LISTEN_FDS": count, "LISTEN_PID": str(ME), "LISTEN_FDNAMES": names, "HOME": "/h"}

    def passed(self) -> list[int]:
        """The descriptors that are still open."""
        return [fd for fd in range(AT, AT + 10) if os.path.exists(f"/proc/self/fd/{fd}")]


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    monkeypatch.setattr(activation, "FIRST", AT)
    with short_directory() as root:
        manager = Manager(root)
        yield manager
        left = manager.passed()
        activation.close(manager.sockets)
        assert left == []


def test_each_is_told_by_its_path(manager: Manager) -> None:
    """Whatever their order and names: non-blocking, closed on exec, and no variable is left. Files stay at the end."""
    paths = [manager.listen(name) for name in ("control.sock", "agent.sock")]
    os.symlink(manager.root, f"{manager.root}/link")
    expected = [f"{manager.root}/link/agent.sock", f"{manager.root}/http.sock", paths[0]]
    environ = manager.environ()
    found = activation.taken(environ, expected)
    assert environ == {"HOME": "/h"}
    assert list(found) == [paths[0], expected[0]]
    for sock in found.values():
        assert not sock.getblocking()
        assert not sock.get_inheritable()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(paths[1])
        found[expected[0]].accept()[0].close()
    activation.close(found.values())
    assert all(map(os.path.exists, paths))


def test_nothing_is_passed() -> None:
    """As from a terminal; and what was for another process is not kept for a child either."""
    environ = {"LISTEN_FDS": "2", "LISTEN_PID": "1"}
    assert activation.taken(environ, ["/a"]) == {}
    assert environ == {}


def test_a_socket_of_another_path(manager: Manager) -> None:
    """It is refused with both paths and what to correct: nobody would ever answer there."""
    here = manager.listen("agent.sock")
    there = manager.listen("other.sock")
    with pytest.raises(ConfigError) as error:
        activation.taken(manager.environ(), [here])
    for said in (there, here, "ListenStream=", "XDG_RUNTIME_DIR"):
        assert said in str(error.value)


def test_what_is_no_listening_stream(manager: Manager) -> None:
    """A datagram socket, one of TCP, one that does not listen, one twice, none at all."""
    here = manager.listen("agent.sock")
    good = manager.sockets[0]
    for kind, why in (
        (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), "no Unix stream socket"),
        (socket.socket(socket.AF_INET, socket.SOCK_STREAM), "no Unix stream socket"),
        (socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), "Accept=yes"),
        (good.dup(), "two of them"),
    ):
        with kind:
            manager.sockets = [good, kind]
            with pytest.raises(ConfigError, match=why):
                activation.taken(manager.environ(), [here])
    manager.sockets = [good]
    environ = manager.environ() | {"LISTEN_FDS": "2"}
    with pytest.raises(ConfigError, match=f"descriptor {AT + 1}, which LISTEN_FDS counts"):
        activation.taken(environ, [here])

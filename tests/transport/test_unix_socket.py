"""The socket file of a listening Unix socket."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mcphub.errors import ConfigError
from mcphub.transport.unix_socket import MAX_PATH, listening
from tests.fakes.raw_http import short_directory


@pytest.fixture
def path() -> Iterator[str]:
    with short_directory() as directory:
        yield f"{directory}/agent/agent.sock"


def test_the_socket_is_for_its_owner_alone(path: str) -> None:
    """C164: mode 0600 in a directory 0700, whatever the umask; the file is gone at the end and the directory stays."""
    before = os.umask(0)
    try:
        with listening(path) as sock:
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
            assert sock.getblocking() is False
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
    finally:
        os.umask(before)
    assert os.listdir(os.path.dirname(path)) == []


def test_an_open_directory_is_closed(path: str) -> None:
    """C164: a directory that an older program left open is made 0700 before anything is in it."""
    os.mkdir(os.path.dirname(path), 0o777)
    os.chmod(os.path.dirname(path), 0o777)
    with listening(path):
        assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


def test_a_socket_left_behind_is_replaced(path: str) -> None:
    """C164: a daemon that was killed does not keep the next one from starting."""
    code = "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); os._exit(0)"
    os.mkdir(os.path.dirname(path))
    subprocess.run([sys.executable, "-I", "-c", code, path], check=True, timeout=10)
    assert os.path.exists(path)
    with listening(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def test_a_living_daemon_is_left_alone(path: str) -> None:
    """C164: the second one is told which process it is and what to do, and the first keeps its socket."""
    with listening(path) as first:
        said = rf"another mcphub daemon \(pid {os.getpid()}\) answers there\. Stop it with `mcphub stop`"
        with pytest.raises(ConfigError, match=said), listening(path):
            pass
        assert first.fileno() >= 0
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)


def test_one_that_was_given(path: str) -> None:
    """A service manager's: used as it is, closed to others, and its file stays when it is closed."""
    os.mkdir(os.path.dirname(path), 0o755)
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(path)
        theirs.listen()
        with listening(path, theirs.dup()) as sock, socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            sock.accept()[0].close()
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
        with pytest.raises(OSError, match="Bad file descriptor"):
            sock.getsockname()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
        os.unlink(path)
        with listening(path, theirs.dup()):
            pass


def test_one_that_a_service_manager_holds(path: str) -> None:
    """Nobody is told to stop systemd, nor to look for a daemon that does not run."""
    code = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(); input()"
    named = "import ctypes; ctypes.CDLL(None).prctl(15, b'systemd'); "  # PR_SET_NAME
    os.mkdir(os.path.dirname(path))
    manager = subprocess.Popen(
        [sys.executable, "-I", "-c", named + code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with manager:
        assert manager.stdout is not None
        manager.stdout.readline()
        with pytest.raises(ConfigError, match=r"the service manager holds it.*mcphub service status"), listening(path):
            pass
        manager.communicate(b"\n", timeout=10)


def test_a_daemon_with_a_full_queue_lives(path: str) -> None:
    """Busy is not gone."""
    with listening(path):
        waiting = []
        while True:
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            waiting.append(client)
            if client.connect_ex(path) == errno.EAGAIN:
                break
        with pytest.raises(ConfigError, match="another mcphub daemon answers"), listening(path):
            pass
        for client in waiting:
            client.close()


def test_two_starts_at_once_do_not_remove_each_others_socket(path: str) -> None:
    """C164: between looking and binding nobody else may do the same."""
    os.mkdir(os.path.dirname(path), 0o700)
    handle = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="another mcphub daemon is starting"), listening(path):
            pass
    finally:
        os.close(handle)
    with listening(path):
        pass


def test_something_else_at_the_path_is_not_removed(path: str) -> None:
    """C164: only a socket is ever unlinked."""
    os.mkdir(os.path.dirname(path))
    with open(path, "w") as file:
        file.write("precious")
    with pytest.raises(ConfigError, match="not a socket"), listening(path):
        pass
    with open(path) as file:
        assert file.read() == "precious"


@pytest.mark.parametrize("target", ["file", "socket", "nowhere"])
def test_a_planted_link_is_neither_followed_nor_removed(path: str, target: str) -> None:
    """C164: a link at the path is none of ours, even where it leads to a socket that nobody answers on."""
    os.mkdir(os.path.dirname(path))
    elsewhere = path + "-elsewhere"
    if target == "file":
        open(elsewhere, "w").close()
    elif target == "socket":
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(elsewhere)
    os.symlink(elsewhere, path)
    with pytest.raises(ConfigError, match="not a socket"), listening(path):
        pass
    assert os.readlink(path) == elsewhere
    assert os.path.exists(elsewhere) == (target != "nowhere")


def test_a_directory_that_is_a_link_is_refused(path: str) -> None:
    """C164: whoever may write the parent could point it anywhere."""
    directory = os.path.dirname(path)
    os.mkdir(directory + "-elsewhere")
    os.symlink(directory + "-elsewhere", directory)
    with pytest.raises(ConfigError, match="not a directory itself"), listening(path):
        pass


def test_a_directory_of_somebody_else_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C164: its owner could replace the socket."""
    os.mkdir(os.path.dirname(path))
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ConfigError, match="not to uid 12345"), listening(path):
        pass


def test_a_path_that_does_not_fit_is_refused_with_its_length(path: str) -> None:
    """C164: the system's own error says neither the limit nor what to do."""
    fitting = path + "x" * (MAX_PATH - len(path))
    with listening(fitting):
        pass
    said = f"has {MAX_PATH + 1} bytes and the system allows {MAX_PATH}.*XDG_RUNTIME_DIR"
    with pytest.raises(ConfigError, match=said), listening(fitting + "x"):
        pass


def test_what_the_system_refuses_is_said(path: str) -> None:
    """No traceback for a directory that cannot be made."""
    with open(os.path.dirname(path), "w"):
        pass
    with pytest.raises(ConfigError, match=f"cannot listen at {path}/x/y"), listening(path + "/x/y"):
        pass


def test_a_successors_socket_is_not_removed(path: str) -> None:
    """A daemon that ends late leaves the file of the one that came after it."""
    with listening(path):
        os.unlink(path)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(path)
    assert os.path.exists(path)

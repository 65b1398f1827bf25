"""The launcher as a program, without a daemon."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from mcphub.transport import launcher
from mcphub.transport.launcher.messages import unpack

FOLDER = Path(launcher.__file__).parent


def test_the_launcher_imports_next_to_nothing() -> None:
    """The launcher stays in memory as long as the daemon: no module that would make it large."""
    code = "import sys; sys.path.append(sys.argv[1]); import launcher.run; print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", code, str(FOLDER.parent)]
    loaded = set(subprocess.run(command, capture_output=True, check=True, text=True).stdout.split())
    assert not loaded & {"asyncio", "subprocess", "typing", "dataclasses", "json", "re", "mcphub", "logging"}


def test_a_launcher_without_a_daemon_ends() -> None:
    """It says hello, and ends by itself, without complaint, when nobody holds the other end of its socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-I", "-S", str(FOLDER / "__main__.py"), str(theirs.fileno())]
        with subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE) as process:
            theirs.close()
            ours.settimeout(10)
            [(kind, mark)] = unpack(bytearray(ours.recv(1 << 16)))
            assert kind == "hello"
            assert isinstance(mark, int)
            ours.close()
            assert process.stderr is not None
            assert process.stderr.read() == b""
            assert process.wait(10) == 0

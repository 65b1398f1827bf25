"""Looking up names: what is found, what is not, and that nobody waits for it at the end."""

from __future__ import annotations

import socket
import subprocess
import sys

import anyio
import pytest

from mcphub.outbound.lookup import look_up

pytestmark = pytest.mark.anyio

#: A resolver that never answers, in a process that gives it up and ends.
SCRIPT = """
import socket, threading
import anyio
from mcphub.outbound.lookup import look_up
asked = threading.Event()
def never(*args, **more):
    asked.set()
    threading.Event().wait()
socket.getaddrinfo = never
async def main():
    with anyio.move_on_after(0.1) as scope:
        await look_up("name.invalid")
    print(scope.cancelled_caught and asked.is_set())
anyio.run(main)
"""


async def test_what_is_found() -> None:
    """Every address, as the system has it."""
    assert {str(where[0]) for *_, where in await look_up("localhost", 80)} <= {"127.0.0.1", "::1"}
    assert [where for *_, where in await look_up("127.0.0.1", 8080)] == [("127.0.0.1", 8080)]


@pytest.mark.parametrize(("host", "error"), [("name.invalid", OSError), ("a" * 64 + ".invalid", UnicodeError)])
async def test_what_is_not(host: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that nobody has, and what can be no name, are errors of their own kind."""

    def refuse(name: str, *args: object, **more: object) -> object:
        name.encode("idna")
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)  # nobody else's directory is asked
    with pytest.raises(error):
        await look_up(host)


async def test_nobody_waits_for_it() -> None:
    """A process whose lookup hangs ends when it is done with everything else."""
    with anyio.fail_after(15):
        done = await anyio.run_process([sys.executable, "-c", SCRIPT], stderr=subprocess.STDOUT)
    assert done.stdout == b"True\n"

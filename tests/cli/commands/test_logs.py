"""The verb logs."""

from __future__ import annotations

import json
import subprocess

from anyio.from_thread import BlockingPortal

from tests.cli.conftest import Place
from tests.fakes.canned_hub import EVIL, CannedHub, served


def test_the_last_lines(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """Oldest first, escaped also in a pipe; what is not kept any more is mentioned."""
    hub.lines, hub.dropped = ["one", EVIL, "\tthree"], 5000
    shown = "a\\x1b]0;owned\\x07\\u202eb\\U000e0041\\x9b31m"
    dropped = "mcphub: 4.9K of older output are not kept\n"
    assert place.run("logs", "time") == (f"one\n{shown}\n\tthree\n", dropped, 0)
    assert place.run("logs", "time", "-n", "1") == ("\tthree\n", dropped, 0)
    assert json.loads(place.run("logs", "time", "--json")[0]) == hub.logs("", "time", 100)
    assert place.run("logs", "none") == ("", "mcphub: there is no server none\n", 1)


def test_following(place: Place, hub: CannedHub) -> None:
    """The tail at once, then each line as it comes; it ends with the daemon, and says so."""
    hub.lines = ["one", EVIL]
    command = place.command("logs", "time", "-f", "-n", "1")
    with served(hub, place.socket):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=place.environment, cwd=place.workspace
        )
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"a\\x1b]0;owned\\x07\\u202eb\\U000e0041\\x9b31m\n"
        assert process.stdout.readline() == b"one more\n"
    with process:
        assert process.wait(10) == 3
        assert process.stderr.read() == f"mcphub: the mcphub daemon at {place.socket} has stopped\n".encode()


def test_following_nobody(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """A name that there is not ends at once."""
    assert place.run("logs", "none", "-f") == ("", "mcphub: there is no server none\n", 1)

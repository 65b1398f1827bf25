"""The verb logs."""

from __future__ import annotations

import json

from anyio.from_thread import BlockingPortal

from tests.cli.conftest import Place
from tests.fakes.canned_hub import EVIL, CannedHub


def test_the_last_lines(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """Oldest first, escaped also in a pipe; what is not kept any more is mentioned."""
    hub.lines, hub.dropped = ["one", EVIL, "\tthree"], 5000
    shown = "a\\x1b]0;owned\\x07\\u202eb\\U000e0041\\x9b31m"
    dropped = "mcphub: 4.9K of older output are not kept\n"
    assert place.run("logs", "time") == (f"one\n{shown}\n\tthree\n", dropped, 0)
    assert place.run("logs", "time", "-n", "1") == ("\tthree\n", dropped, 0)
    assert json.loads(place.run("logs", "time", "--json")[0]) == hub.logs("", "time", 100)
    assert place.run("logs", "none") == ("", "mcphub: there is no server none\n", 1)

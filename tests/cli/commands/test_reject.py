"""The verb reject."""

from __future__ import annotations

import json

from anyio.from_thread import BlockingPortal

from tests.cli.conftest import Place
from tests.fakes.canned_hub import CannedHub, waiting


def test_a_server_of_this_directory_is_rejected(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """No terminal is needed to say no."""
    hub.items = [waiting("x")]
    assert place.run("reject", "x") == ("x is rejected here and will not run\n", "", 0)
    out, _, _ = place.run("reject", "x", "--json")
    assert json.loads(out) == {"name": "x", "workspace": place.workspace, "state": "rejected"}
    assert place.run("reject", "y") == ("", "mcphub: nothing asks for a server y\n", 1)
    assert hub.asked == [("reject", place.workspace, "x")] * 2

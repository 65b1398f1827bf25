"""The verb disable."""

from __future__ import annotations

import json
from pathlib import Path

from anyio.from_thread import BlockingPortal

from tests.cli.conftest import Place
from tests.fakes.canned_hub import CannedHub, server


def test_everywhere_or_here(home: Place) -> None:
    """The decision is the person's, in the state directory; the file of servers is not touched."""
    assert home.run("add", "a", "--", "x")[2] == 0
    before = Path(home.root, "config", "mcphub", "mcp.json").read_bytes()
    assert home.run("disable", "a") == ("a is switched off\n", "", 0)
    here = f"a is switched off for agents in {home.workspace}\n"
    assert home.run("disable", "a", "--here") == (here, "", 0)
    out, _, _ = home.run("disable", "a", "--json")
    assert json.loads(out) == {"name": "a", "enabled": False, "directory": "", "notes": []}
    toggles = Path(home.root, "state", "mcphub", "toggles.json")
    off = [{"name": "a", "directory": ""}, {"name": "a", "directory": home.workspace}]
    assert json.loads(toggles.read_bytes()) == {"version": 1, "off": off}
    assert toggles.stat().st_mode & 0o777 == 0o600
    assert Path(home.root, "config", "mcphub", "mcp.json").read_bytes() == before


def test_only_what_is_there(home: Place) -> None:
    """A name that nobody has is a mistake, and no file is made for it."""
    said = "mcphub: cannot disable a: no server is named so here; `mcphub status` lists them\n"
    assert home.run("disable", "a") == ("", said, 1)
    assert not Path(home.root, "state").exists()


def test_the_daemon_knows_more(home: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """What was added to it can be switched off too, and it is told at once."""
    hub.servers = [server("d", scope="dynamic")]
    assert home.run("disable", "d") == ("d is switched off\n", "", 0)
    assert hub.asked == [("reload",)]

"""The verb remove."""

from __future__ import annotations

import json
import os
from pathlib import Path

from anyio.from_thread import BlockingPortal

from tests.cli.conftest import Place
from tests.fakes.canned_hub import CannedHub, server


def test_from_the_file_that_has_it(home: Place) -> None:
    """The scope need not be said while there is one; the entry is gone, the rest stays, and what counts now is told."""
    for scope in ("user", "project"):
        assert home.run("add", "-s", scope, "a", "--", scope)[2] == 0
    out, err, status = home.run("remove", "a")
    assert (out, status) == ("", 1)
    assert err == "mcphub: cannot remove a: it is in the scopes project, user; say which by --scope\n"
    user = f"{home.root}/config/mcphub/mcp.json"
    out, err, status = home.run("remove", "a", "--scope", "project")
    assert (out, status) == (f"removed a from scope project ({home.workspace}/.mcp.json)\n", 0)
    assert err == f"mcphub: {user}:3 mcpServers.a has this name too, and counts here now\n"
    out, err, status = home.run("remove", "a", "--json")
    assert (json.loads(out), status) == ({"name": "a", "scope": "user", "path": user, "notes": []}, 0)
    assert json.loads(Path(user).read_bytes()) == {"mcpServers": {}}


def test_what_is_not_there(home: Place) -> None:
    """An unknown name, or one that is elsewhere, is refused with the next step; so is a file that cannot be read."""
    said = "mcphub: cannot remove a: no server is named so here; `mcphub status` lists them\n"
    assert home.run("remove", "a") == ("", said, 1)
    assert home.run("add", "a", "--", "x")[2] == 0
    out, err, status = home.run("remove", "a", "-s", "project")
    assert status == 1
    assert "it is not in scope project; it comes from " in err
    assert err.endswith(": --scope user takes it from there\n")
    Path(home.workspace, ".mcp.json").write_text("{")
    assert "mend it first" in home.run("remove", "b")[1]


def test_a_file_that_may_name_it(home: Place) -> None:
    """While one cannot be used nobody knows what comes from there, and that is said."""
    Path(home.root, "config", "mcphub").mkdir(parents=True, exist_ok=True)
    plugin = Path(home.root, "broken-plugin")
    plugin.mkdir()
    (plugin / ".mcp.json").write_text("{")
    Path(home.root, "config", "mcphub", "settings.toml").write_text(f'[plugins]\ndirectories = ["{plugin}"]\n')
    err = home.run("remove", "ms")[1]
    assert err.endswith(f"; {plugin}/.mcp.json cannot be used now, and may name it\n")


def test_what_the_organisation_brings(home: Place) -> None:
    """C006: a hostile name is only ever shown escaped."""
    out, err, status = home.run("remove", "a\x1b[2J")
    assert (out, status) == ("", 1)
    assert "\x1b" not in err


def test_what_was_added_to_the_daemon(home: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """It is taken away by the daemon, which knows it."""
    hub.servers = [server("d", scope="dynamic")]
    out, err, status = home.run("remove", "d")
    assert (out, err, status) == ("removed d from scope dynamic\n", "", 0)
    assert len(hub.asked) == 1


def test_what_was_added_beside_another_of_its_name(home: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """The daemon's first row of the name may be another workspace's: the one that was added is found all the same."""
    hub.servers = [server("d", scope="user"), server("d", scope="dynamic")]
    assert home.run("remove", "d", "--scope", "dynamic") == ("removed d from scope dynamic\n", "", 0)


def test_what_was_kept_without_a_daemon(home: Place) -> None:
    """It can be taken away as well."""
    assert home.run("add", "--scope", "dynamic", "--keep", "d", "--", "x")[2] == 0
    assert home.run("remove", "d") == ("removed d from scope dynamic\n", "", 0)
    kept = json.loads(Path(home.root, "state", "mcphub", "dynamic.json").read_bytes())
    assert kept["servers"] == []
    assert os.listdir(f"{home.root}/state/mcphub")

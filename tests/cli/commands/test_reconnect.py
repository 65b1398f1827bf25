"""The verb reconnect."""

from __future__ import annotations

from anyio.from_thread import BlockingPortal

from tests.cli.conftest import Place
from tests.fakes.canned_hub import CannedHub, server


def test_one_or_all(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """The names that are being reconnected, or why not."""
    hub.servers = [server("a"), server("b\x1b")]
    assert place.run("reconnect", "a") == ("reconnecting a\n", "", 0)
    assert place.run("reconnect", "--all") == ("reconnecting a, b\\x1b\n", "", 0)
    assert place.run("reconnect", "a", "--json") == ('{\n  "reconnected": [\n    "a"\n  ]\n}\n', "", 0)
    assert place.run("reconnect", "c") == ("", "mcphub: there is no server c\n", 1)
    assert hub.asked[:2] == [("reconnect", place.workspace, "a"), ("reconnect", place.workspace, "a", "b\x1b")]
    hub.servers = []
    assert place.run("reconnect", "--all") == ("there is nothing to reconnect\n", "", 0)


def test_files_that_cannot_be_used(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """Whoever asks for all asks for what a file says now: one that cannot be read is an answer, on stderr."""
    hub.servers, hub.problems = [server("a")], ["cannot read /x\x1b"]
    assert place.run("reconnect", "--all") == ("reconnecting a\n", "mcphub: cannot read /x\\x1b\n", 1)
    out, err, status = place.run("reconnect", "--all", "--json")
    assert ('"cannot read /x' in out, err, status) == (True, "", 1)
    assert place.run("reconnect", "a") == ("reconnecting a\n", "", 0)

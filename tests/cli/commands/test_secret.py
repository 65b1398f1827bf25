"""The verb secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal

from tests.cli.conftest import Place
from tests.fakes.canned_hub import CannedHub


@pytest.fixture
def keyed(home: Place) -> Place:
    """A home whose vault has its key in a file, with two servers of which one needs a secret."""
    config = Path(home.root, "config", "mcphub")
    config.mkdir(parents=True)
    (config / "settings.toml").write_text(f'[vault]\nkey = "file:{home.root}/key"\n')
    servers = {"a": {"command": "x", "env": {"T": "${secret:gh}"}}, "b": {"command": "x"}}
    (config / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return home


def test_without_a_daemon(keyed: Place) -> None:
    """It works on the file itself, names who refers to the secret, and shows a value nowhere."""
    done = [
        keyed.run("secret", "list"),
        keyed.run("secret", "set", "gh", stdin=b"tok-11111\n"),
        keyed.run("secret", "--stdin", "set", "x/y", "--json", stdin=b"tok-22222"),
        keyed.run("secret", "list"),
        keyed.run("secret", "list", "--json"),
        keyed.run("secret", "remove", "gh"),
        keyed.run("secret", "remove", "gh"),
        keyed.run("config", "validate"),
    ]
    assert done[0] == ("", "mcphub: no secret is kept\n", 0)
    assert done[1] == ("gh: set; used by a\n", "", 0)
    assert json.loads(done[2][0]) == {"name": "x/y", "action": "set", "servers": [], "live": False}
    assert [line.split() for line in done[3][0].splitlines()] == [["NAME", "SERVERS"], ["gh", "a"], ["x/y", "-"]]
    assert json.loads(done[4][0])["secrets"][0] == {"name": "gh", "servers": ["a"]}
    assert done[5] == ("gh: removed; still referred to by a\n", "", 0)
    assert done[6][1:] == ("mcphub: cannot remove the secret 'gh': there is none of this name\n", 1)
    assert done[7][2] == 0, done[7]
    assert "tok-" not in json.dumps(done)
    for path in Path(keyed.root).rglob("*"):
        assert not path.is_file() or b"tok-" not in path.read_bytes()


def test_asked_on_the_terminal(keyed: Place) -> None:
    """The value is not shown, and not asked for where it could not be kept."""
    with keyed.terminal("secret", "set", "gh") as terminal:
        terminal.until(b"the secret gh: ")
        terminal.type(b"tok-11111\n")
        shown, status = terminal.end()
    assert status == 0 and b"tok-" not in shown and b"gh: set; used by a" in shown
    Path(keyed.root, "key").unlink()
    with keyed.terminal("secret", "set", "gh") as terminal:
        shown, status = terminal.end()
    assert status == 1 and b"its key is not there" in shown
    assert shown.count(b"the secret gh: ") == shown.count(b"cannot keep the secret gh: ") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["set", "gh=tok-11111"], "write the name alone"),
        (["set", "a b"], "a secret's name has"),
        (["set"], "it takes one NAME"),
        (["set", "a", "tok-11111"], "it takes one NAME"),
        (["list", "a"], "it takes no name"),
        (["remove", "a", "--stdin"], "--stdin is for set"),
    ],
)
def test_wrong_usage(keyed: Place, arguments: list[str], message: str) -> None:
    """A value among the words is never taken, and not repeated."""
    out, err, status = keyed.run("secret", *arguments, stdin=b"x")
    assert (out, status) == ("", 2)
    assert message in err and "tok-" not in err
    assert not Path(keyed.root, "state").exists()


def test_through_the_daemon(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """Where one runs it is the owner of the vault."""
    assert place.run("secret", "set", "gh", stdin=b"tok-1\n") == ("gh: set; used by time\n", "", 0)
    assert place.run("secret", "remove", "gh") == ("gh: removed\n", "", 0)
    assert "gh" in place.run("secret", "list")[0]
    assert hub.asked == [("set", place.workspace, "gh", "tok-1"), ("unset", place.workspace, "gh")]

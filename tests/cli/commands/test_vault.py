"""The verb vault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal

from tests.cli.conftest import Place
from tests.fakes.canned_hub import CannedHub


def settings(home: Place, key: str) -> None:
    config = Path(home.root, "config", "mcphub")
    config.mkdir(parents=True, exist_ok=True)
    (config / "settings.toml").write_text(f'[vault]\nkey = "{key}"\n')


def test_its_life_without_a_daemon(home: Place) -> None:
    """New, open, with another key, locked, set aside: each is said with what to do, and in the exit status."""
    settings(home, f"file:{home.root}/key")
    out, err, status = home.run("vault", "status")
    assert "is not there yet" in out and "no daemon answers" in out and (err, status) == ("", 0)
    home.run("secret", "set", "gh", stdin=b"tok-11111")
    report = json.loads(home.run("vault", "status", "--json")[0])
    assert (report["state"], report["reason"], report["exists"], report["live"]) == ("open", "", True, False)
    key = Path(home.root, "key")
    old = key.read_text()
    assert home.run("vault", "rotate")[2] == 0 and key.read_text() != old
    assert "gh" in home.run("secret", "list")[0]
    new = key.read_text()
    key.write_text(old)
    out, _, status = home.run("vault", "status")
    assert "is locked" in out and "--start-over" in out and status == 1
    assert json.loads(home.run("vault", "unlock", "--json")[0])["reason"] == "wrong_key"
    assert home.run("vault", "unlock", "--start-over")[2] == 0
    assert home.run("secret", "list")[1] == "mcphub: no secret is kept\n"
    out, err, status = home.run("vault", "unlock", "--start-over")
    assert status == 1 and "can be opened; nothing was changed" in err
    key.write_text(new)
    Path(home.root, "state", "mcphub", "vault.set-aside-1").replace(Path(home.root, "state", "mcphub", "vault"))
    assert "gh" in home.run("secret", "list")[0]


def test_a_key_that_has_no_place(home: Place) -> None:
    """Before there is a vault: that none could be made is said beforehand, with what to do, and nothing else."""
    settings(home, "credentials")
    for words in (["status"], ["unlock"]):
        out, _, status = home.run("vault", *words)
        assert "is not there yet, and cannot be made" in out and "is locked" not in out and status == 1
        assert "LoadCredential" in out and "[vault] key" in out and "started again" in out
    report = json.loads(home.run("vault", "status", "--json")[0])
    assert (report["state"], report["reason"], report["exists"]) == ("locked", "no_store", False)
    out, err, status = home.run("vault", "unlock", "--start-over")
    assert status == 1 and "cannot make the vault" in err and "can be opened" not in err
    settings(home, f"file:{home.root}/key")
    out, err, status = home.run("vault", "unlock", "--start-over")
    assert status == 1 and "there is no vault" in err and "can be opened" not in err


def test_a_passphrase(home: Place) -> None:
    """From stdin, or on the terminal; never among the words, nowhere shown."""
    settings(home, "passphrase")
    assert home.run("vault", "unlock", "--stdin", stdin=b"correct horse\n")[2] == 0
    assert json.loads(home.run("vault", "status", "--json")[0])["reason"] == "passphrase"
    out, err, status = home.run("vault", "unlock", "--stdin", stdin=b"wrong horse\n")
    assert status == 1 and "the passphrase is not the one" in err
    with home.terminal("secret", "set", "gh") as terminal:
        terminal.until(b"the secret gh: ")
        terminal.type(b"tok-11111\n")
        terminal.until(b"the vault's passphrase: ")
        terminal.type(b"correct horse\n")
        shown, status = terminal.end()
    assert status == 0 and b"horse" not in shown and b"tok-" not in shown
    assert "horse" not in out + err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["status", "--stdin"], "--stdin is for unlock and rotate"),
        (["rotate", "--start-over"], "--start-over is for unlock"),
        (["open"], "invalid choice"),
        ([], "vault needs to be told what to do"),
    ],
)
def test_wrong_usage(home: Place, arguments: list[str], message: str) -> None:
    """Nothing is touched."""
    out, err, status = home.run("vault", *arguments)
    assert (out, status) == ("", 2)
    assert message in err


def test_through_the_daemon(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """Where one runs, it is asked."""
    hub.locked = True
    out, err, status = place.run("vault", "status")
    assert (out, err, status) == (
        "the vault /state/vault is locked; its key: the key ring\nthe key ring is locked\n", "", 1,
    )  # fmt: skip
    assert place.run("vault", "unlock")[2] == 0
    assert json.loads(place.run("vault", "rotate", "--json")[0])["live"] is True
    assert hub.asked == [("unlock", "None", "False"), ("rotate", "None")]

"""Values that nobody may see."""

from __future__ import annotations

import getpass
import io
import sys
from pathlib import Path

import pytest

from mcphub.cli.hidden_input import ask, from_stdin, on_terminal
from mcphub.errors import ConfigError
from tests.cli.conftest import Place


class Input:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)

    def isatty(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("data", "value"),
    [(b"tok", "tok"), (b"tok\n", "tok"), (b"tok\r\n", "tok"), (b" tok\n\n", " tok\n"), ("ö".encode(), "ö")],
)
def test_from_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes, value: str) -> None:
    """All of it, but one line break at the end."""
    monkeypatch.setattr(sys, "stdin", Input(data))
    assert not on_terminal()
    assert from_stdin("the secret a") == value


@pytest.mark.parametrize("data", [b"", b"\n", b"\xff"])
def test_nothing_on_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """An empty value is a mistake, not a secret."""
    monkeypatch.setattr(sys, "stdin", Input(data))
    with pytest.raises(ConfigError, match="the secret a"):
        from_stdin("the secret a")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ConfigError, match="no input"):
        from_stdin("the secret a")
    assert not on_terminal()


def test_asked_twice(home: Place) -> None:
    """A passphrase for a new vault is typed twice, never shown, and must be the same."""
    config = Path(home.root, "config", "mcphub")
    config.mkdir(parents=True)
    (config / "settings.toml").write_text('[vault]\nkey = "passphrase"\n')
    with home.terminal("vault", "unlock") as terminal:
        terminal.until(b"a new passphrase: ")
        terminal.type(b"horse-1\n")
        terminal.until(b"once more: ")
        terminal.type(b"horse-2\n")
        shown, status = terminal.end()
    assert status == 1 and b"the two are not the same" in shown and b"horse" not in shown


def test_nobody_to_ask(home: Place) -> None:
    """Without a terminal it is said how to give it, and nothing hangs."""
    config = Path(home.root, "config", "mcphub")
    config.mkdir(parents=True)
    (config / "settings.toml").write_text('[vault]\nkey = "passphrase"\n')
    out, err, status = home.run("vault", "unlock")
    assert (out, status) == ("", 1) and "there is no terminal; give it with --stdin" in err


def test_an_end_in_place_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is none, and neither is an empty line."""

    def ends(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr(getpass, "getpass", ends)
    with pytest.raises(ConfigError, match="--stdin"):
        ask("the passphrase")
    monkeypatch.setattr(getpass, "getpass", lambda prompt: "")
    with pytest.raises(ConfigError, match="it is empty"):
        ask("the passphrase")

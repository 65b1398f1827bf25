"""The way of commands to the vault."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal

from mcphub.cli.vault_access import VaultAccess
from mcphub.errors import ConfigError, ControlError
from tests.cli.conftest import Place
from tests.fakes.canned_hub import CannedHub


@pytest.fixture
def here(home: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """This process works where the home is, with its key in a file."""
    for name in list(os.environ):
        if name.startswith("XDG_"):
            monkeypatch.delenv(name)
    for name, value in home.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(home.workspace)
    config = Path(home.root, "config", "mcphub")
    config.mkdir(parents=True)
    (config / "settings.toml").write_text(f'[vault]\nkey = "file:{home.root}/key"\n')
    yield home


def test_the_file_itself(here: Place) -> None:
    """Without a daemon every question is answered by the file, with the reports that a daemon gives."""
    access = VaultAccess()
    assert not access.needs_passphrase
    assert access.status()["state"] == "new"
    access.refuse_locked("gh")
    assert access.set("gh", "tok")["live"] is False
    assert [one["name"] for one in access.secrets()["secrets"]] == ["gh"]
    assert access.rotate(None)["state"] == "open"
    with pytest.raises(ConfigError, match="a secret's name"):
        access.set("a b", "tok")
    assert access.remove("gh")["action"] == "removed"
    with pytest.raises(ConfigError, match="none of this name"):
        access.remove("gh")
    Path(here.root, "key").unlink()
    locked = VaultAccess()
    assert locked.unlock(None, False)["reason"] == "no_key"
    for call in (lambda: locked.refuse_locked("gh"), locked.secrets, lambda: locked.rotate(None)):
        with pytest.raises(ConfigError, match="its key is not there"):
            call()


def test_a_daemon_comes_first(here: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """What it refuses is not done behind its back."""
    access = VaultAccess()
    assert access.status()["path"] == "/state/vault"
    hub.locked = True
    with pytest.raises(ConfigError, match="the key ring is locked"):
        access.refuse_locked("gh")
    hub.raises = ControlError("the vault is locked", status=409)
    with pytest.raises(ControlError, match="the vault is locked"):
        access.set("gh", "tok")
    assert not Path(here.root, "state").exists()

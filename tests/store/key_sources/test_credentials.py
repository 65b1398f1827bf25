"""The key that a service manager hands over."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcphub.store.key_sources import source_of
from mcphub.store.key_sources.credentials import NAME, Credentials
from mcphub.store.sealed_file import Key
from mcphub.store.vault_state import Trouble, VaultUnavailable

KEY = Key(b"k" * 32)


def test_it_is_read(tmp_path: Path) -> None:
    """From the directory that the daemon's environment names."""
    (tmp_path / NAME).write_bytes(KEY.data)
    source = source_of("credentials", {"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert source.keys(None) == (KEY,)
    source.promote(KEY)
    with pytest.raises(VaultUnavailable, match="whoever starts mcphub keeps it"):
        source.keep_next(KEY)


def test_it_is_not_there(tmp_path: Path) -> None:
    """Nothing is made in its place."""
    for directory, message in (("", "LoadCredential=mcphub-vault-key"), (str(tmp_path), "No such file")):
        with pytest.raises(VaultUnavailable, match=message) as caught:
            Credentials(directory).keys(None)
        assert caught.value.trouble is Trouble.NO_STORE
    (tmp_path / NAME).write_bytes(b"x" * 31)
    with pytest.raises(VaultUnavailable, match="32 bytes"):
        Credentials(str(tmp_path)).keys(None)

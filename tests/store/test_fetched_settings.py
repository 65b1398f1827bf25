"""The kept copy of fetched settings."""

from __future__ import annotations

import stat
from pathlib import Path

from mcphub.store.fetched_settings import VERSION, Copy, fetched_settings_file


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    """All members, the version beside them, for nobody else to read."""
    path = tmp_path / "state" / "managed-settings.json"
    copy = Copy("https://a.example/", "{}", '"1"', 1, 2, "fault", "error")
    fetched_settings_file(str(path)).change(lambda _: copy)
    assert fetched_settings_file(str(path)).load() == (copy, ())
    assert f'"version": {VERSION}' in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_a_file(tmp_path: Path) -> None:
    """An empty copy."""
    assert fetched_settings_file(str(tmp_path / "x.json")).load() == (Copy(), ())

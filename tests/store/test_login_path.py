"""The last answer of a login shell, in its file."""

from __future__ import annotations

import json
from pathlib import Path

from mcphub.store.login_path import LoginPath, login_path_file


def test_kept_and_read(tmp_path: Path) -> None:
    """What was written is read, with its version; without a file nothing is known; a newer one counts as nothing."""
    path = tmp_path / "login-path.json"
    file = login_path_file(str(path))
    assert file.load() == (LoginPath(), ())
    known = LoginPath("/a:/b", "/bin/zsh", 12, "late")
    file.change(lambda _: known)
    assert json.loads(path.read_bytes())["version"] == 1
    assert file.load() == (known, ())
    path.write_text('{"version": 9}')
    assert "version 9" in file.load()[1][0]

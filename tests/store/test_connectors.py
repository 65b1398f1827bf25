"""What a catalogue said last, in its file."""

from __future__ import annotations

import json
from pathlib import Path

from mcphub.store.connectors import Said, connectors_file


def test_kept_and_read(tmp_path: Path) -> None:
    """What was written is read, with its version; without a file nothing was said."""
    path = tmp_path / "webapp.json"
    file = connectors_file(str(path))
    assert file.load() == (Said(), ())
    said = Said("https://c.example/", '{"mcpServers":{}}', '"1"', 12, "late")
    file.change(lambda _: said)
    assert json.loads(path.read_bytes())["version"] == 1
    assert file.load() == (said, ())
    path.write_text('{"version": 9}')
    assert "version 9" in file.load()[1][0]

"""Owns a system directory for one test: administrators' files that belong to whoever runs the tests.

It must not know what is read from them.
"""

from __future__ import annotations

import json
import os
import plistlib
from pathlib import Path
from typing import Any

from mcphub.config.layer import Layer
from mcphub.config.places import Places
from mcphub.config.readfile import Reader
from mcphub.config.sources import Source
from mcphub.config.sources.request import Request
from mcphub.config.system_places import SystemPlaces
from mcphub.config.trusted_file import Trust


class Administrators:
    """Below `root`: `system` is the directory, `preferences` the one of property lists, and a person's own places."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.chmod(0o755)
        self.system = root / "etc" / "mcphub"
        self.preferences = root / "preferences"
        trust = Trust(os.geteuid(), str(root))
        system = SystemPlaces(str(self.system), str(self.preferences), "ada", trust)
        self.places = Places(str(root / "home"), str(root / "config"), str(root / "state"), system=system)
        (root / "config").mkdir()

    def write(self, name: str, content: Any) -> Path:
        """A file of the system directory, or where `name` begins so, of `preferences/` or `config/`; what is neither
        text nor bytes is written as JSON, or as a property list."""
        folder = self.root if name.startswith(("preferences/", "config/")) else self.system
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for one in (path.parent, *path.parent.parents):
            if one.is_relative_to(self.root):
                one.chmod(0o755)
        if isinstance(content, str):
            content = content.encode()
        elif not isinstance(content, bytes):
            content = plistlib.dumps(content) if name.endswith(".plist") else json.dumps(content).encode()
        path.write_bytes(content)
        path.chmod(0o644)
        return path

    def load(self, source: Source, workspace: str = "") -> list[Layer]:
        return source.load(Request(workspace, self.places, Reader()))


def names(layer: Layer) -> list[str]:
    return [entry.name for entry in layer.entries]

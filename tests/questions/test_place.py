"""How a place is reported."""

from __future__ import annotations

from mcphub.questions.place import origin_status
from mcphub.spec import Origin, Scope


def test_every_part_of_it() -> None:
    """Scope, file, key and line."""
    place = origin_status(Origin(Scope.LOCAL, "/f", "mcpServers.a", 3))
    assert place == {"scope": "local", "path": "/f", "key": "mcpServers.a", "line": 3}

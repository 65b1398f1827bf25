"""What the tests of the HTTP server share: the control API as what is served, since it has a handler for every end."""

from __future__ import annotations

from tests.control.conftest import hub, path

__all__ = ["hub", "path"]

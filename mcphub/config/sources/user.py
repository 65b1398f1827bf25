"""Owns the person's own servers: `mcp.json` in mcphub's configuration directory.

It must not know what other sources say.
"""

from __future__ import annotations

from mcphub.config.layer import Layer
from mcphub.spec import Scope

from .request import Request


class UserSource:
    """One file, for every workspace."""

    scope = Scope.USER

    def load(self, request: Request) -> list[Layer]:
        layer = request.layer(self.scope, request.places.servers, request.places.config_dir)
        return [] if layer is None else [layer]

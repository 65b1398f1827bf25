"""Owns the server that mcphub brings itself, so that a hub without configuration has something to answer with.

It must not know when it counts: resolve.py drops it as soon as any file says something.
"""

from __future__ import annotations

from mcphub.config.layer import Entry, Layer
from mcphub.spec import Origin, Scope

from .request import Request

NAME = "mcphub"
IN_PROCESS = "welcome"


class EmbeddedSource:
    """One server that lives in the daemon."""

    scope = Scope.EMBEDDED

    def load(self, request: Request) -> list[Layer]:
        origin = Origin(self.scope, "(built in)", f"mcpServers.{NAME}")
        return [Layer(self.scope, origin.path, entries=(Entry(NAME, {"inProcess": IN_PROCESS}, origin),))]

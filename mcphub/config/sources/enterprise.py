"""Owns the servers of an enterprise: `managed-mcp.json` in the system directory, which is alone by being there.

It must not know what other sources say: resolve.py turns them off as soon as this one gives a layer.
"""

from __future__ import annotations

from mcphub.config.document import file_problem, parse_file
from mcphub.config.layer import Layer
from mcphub.config.trusted_file import read_trusted
from mcphub.errors import ConfigError
from mcphub.spec import Scope

from .request import Request


class EnterpriseSource:
    """One file, for every workspace. One that cannot be trusted or read is a layer too, and gives no server."""

    scope = Scope.ENTERPRISE

    def load(self, request: Request) -> list[Layer]:
        system = request.places.system
        try:
            data = read_trusted(system.enterprise, system.trust, request.reader)
        except ConfigError as error:
            return [file_problem(self.scope, system.enterprise, system.directory, str(error))]
        if data is None:
            return []
        return [parse_file(data, scope=self.scope, path=system.enterprise, directory=system.directory)]

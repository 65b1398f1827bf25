"""Owns what a source is asked: for which workspace, in which places, read by whom.

It must not know the sources.
"""

from __future__ import annotations

import msgspec

from mcphub.config.document import file_problem, parse_file
from mcphub.config.layer import Layer
from mcphub.config.places import Places
from mcphub.config.readfile import Reader
from mcphub.config.settings import HubSettings
from mcphub.errors import ConfigError
from mcphub.spec import Scope
from mcphub.store.dynamic import Added


class Request(msgspec.Struct, frozen=True):
    """`workspace` is the directory that a session declares, "" = none; every path is read through `reader`.
    `dynamic` are the servers that were added until the daemon ends."""

    workspace: str
    places: Places
    reader: Reader
    settings: HubSettings = msgspec.field(default_factory=HubSettings)
    dynamic: tuple[Added, ...] = ()

    def layer(self, scope: Scope, path: str, directory: str) -> Layer | None:
        """The layer of the file at `path`, None when there is no such file. Never raises: a bad file is a bad layer."""
        try:
            data = self.reader.read(path)
        except ConfigError as error:
            return file_problem(scope, path, directory, str(error))
        return None if data is None else parse_file(data, scope=scope, path=path, directory=directory)

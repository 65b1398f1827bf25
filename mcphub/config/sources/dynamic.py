"""Owns the layers of servers that were added while the daemon runs.

It must not know how they are added or kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from mcphub.config.document import file_problem
from mcphub.config.layer import Entry, Layer
from mcphub.config.names import name_fault, shown_name
from mcphub.errors import ConfigError
from mcphub.spec import Origin, Problem, Scope
from mcphub.store.dynamic import Added, kept_file

from .project import searched
from .request import Request

#: The path of what is in no file.
PLACE = "(added)"


class DynamicSource:
    """Those for the nearest directory first, those for all agents last; in each the ones that are not kept first."""

    scope = Scope.DYNAMIC

    def load(self, request: Request) -> list[Layer]:
        path = request.places.dynamic
        kept: tuple[Added, ...] = ()
        layers: list[Layer] = []
        try:
            found, problems = kept_file(path).understand(request.reader.read(path))
            kept = found.servers
        except ConfigError as error:
            problems = (str(error),)
        if not (kept or request.dynamic):
            return [file_problem(self.scope, path, "", text) for text in problems]
        for directory in (*searched(request.workspace, request.places.home, request.reader), ""):
            layers.append(_layer(PLACE, directory, (one for one in request.dynamic if one.directory == directory)))
            layers.append(_layer(path, directory, (one for one in kept if one.directory == directory)))
        layers = [layer for layer in layers if layer.entries or layer.problems]
        return [*layers, *(file_problem(self.scope, path, "", text) for text in problems)]


def _layer(path: str, directory: str, servers: Iterable[Added]) -> Layer:
    entries: list[Entry] = []
    problems: list[Problem] = []
    for one in servers:
        origin = Origin(Scope.DYNAMIC, path, f"servers.{shown_name(one.name)}")
        if cause := name_fault(one.name):
            shown = shown_name(one.name)
            problems.append(Problem(shown, origin, f"cannot use server {shown}: {origin}: {cause}"))
        else:
            entries.append(Entry(one.name, one.entry, origin))
    return Layer(Scope.DYNAMIC, path, directory, tuple(entries), tuple(problems))

"""Owns the person's own servers for one project: files in mcphub's state directory, one for each project.

It must not read them from the project: what lies in a repository is the project's word, not the person's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mcphub.config import jsonc
from mcphub.config.document import file_problem, parse_servers
from mcphub.config.layer import Layer
from mcphub.config.worktree import main_directory
from mcphub.errors import ConfigError
from mcphub.spec import Scope

from .project import searched
from .request import Request

VERSION = 1


class LocalSource:
    """One file a directory, from the workspace up to its repository's root, nearest first. A linked worktree sees the
    servers of its repository as well, running in the worktree."""

    scope = Scope.LOCAL

    def load(self, request: Request) -> list[Layer]:
        directories = searched(request.workspace, request.places.home, request.reader)
        layers = [_layer(request, directory, directory) for directory in directories]
        if directories and (main := main_directory(directories[-1], request.reader)):
            layers.append(_layer(request, main, directories[-1]))
        return [layer for layer in layers if layer is not None]


def project_directory(request: Request) -> str:
    """The directory whose file a new local server of this workspace goes into: its repository's root (of a linked
    worktree, its repository's), the workspace itself where there is none; "" for no workspace."""
    directories = searched(request.workspace, request.places.home, request.reader)
    if not directories:
        return ""
    return main_directory(directories[-1], request.reader) or directories[-1]


def new_document(directory: str) -> dict[str, Any]:
    """What a file says before the first server is in it."""
    return {"version": VERSION, "project": directory, "mcpServers": {}}


def _layer(request: Request, project: str, directory: str) -> Layer | None:
    """The file of `project`, its servers running in `directory`."""
    path = request.places.local(project)
    try:
        data = request.reader.read(path)
        if data is None:
            return None
        document = jsonc.parse(data)
        _check(document.value, project, path)
    except jsonc.JsoncError as error:
        place = f"{path}:{error.line}:{error.column}" if error.line else path
        return file_problem(Scope.LOCAL, path, directory, f"cannot use {place}: {error.message}", error.line)
    except ConfigError as error:
        return file_problem(Scope.LOCAL, path, directory, str(error))
    found = parse_servers(document, "mcpServers", scope=Scope.LOCAL, path=path)
    return msgspec.structs.replace(found, directory=directory)


def _check(value: Any, project: str, path: str) -> None:
    if not isinstance(value, dict):
        raise ConfigError(f"cannot use {path}: expected an object at the top, found {jsonc.kind_of(value)}")
    version = value.get("version", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise ConfigError(
            f"cannot use {path}: it has version {version} and this mcphub knows up to {VERSION}; use the newer mcphub "
            "that wrote it"
        )
    if value.get("project", project) != project:
        raise ConfigError(f"cannot use {path}: it belongs to another project, by its key 'project'")

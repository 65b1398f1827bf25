"""Owns the servers that a project brings: `.mcp.json` files from the workspace up to the root of its repository.

It must not decide whether they may run; that takes a person's approval.
"""

from __future__ import annotations

import os

import msgspec

from mcphub.config.layer import Layer
from mcphub.config.ownership import strangers
from mcphub.config.readfile import Reader
from mcphub.spec import Scope

from .request import Request

FILE = ".mcp.json"


class ProjectSource:
    """The files of one workspace, nearest first. Each is its own workspace: the directory that it stands in."""

    scope = Scope.PROJECT

    def load(self, request: Request) -> list[Layer]:
        layers: list[Layer] = []
        for directory in searched(request.workspace, request.places.home, request.reader):
            path = os.path.join(directory, FILE)
            layer = request.layer(self.scope, path, directory)
            if layer is not None:
                if others := strangers(path):
                    warning = f"{path} {others}: look twice at what it asks for before you approve it"
                    layer = msgspec.structs.replace(layer, warnings=(*layer.warnings, warning))
                layers.append(layer)
        return layers


def searched(workspace: str, home: str, reader: Reader) -> list[str]:
    """The real directories to look in, nearest first; none for no workspace.

    From the workspace up to the first directory that holds `.git` (a directory, or the file of a worktree). Where none
    is found before the home directory or the root of the file system, the workspace alone: a file that somebody put
    into a shared parent such as /tmp must not reach what lies below it (case C018). The home directory counts as a
    root only when it is the workspace itself, since a repository of dotfiles there is nobody's project.
    """
    if not workspace or not os.path.isabs(workspace) or "\0" in workspace:
        return []
    start = os.path.realpath(workspace)
    stop = os.path.realpath(home)
    directories = [start]
    while not reader.exists(os.path.join(directories[-1], ".git")):
        parent = os.path.dirname(directories[-1])
        if directories[-1] == stop or parent in (directories[-1], stop):
            return [start]
        directories.append(parent)
    return directories

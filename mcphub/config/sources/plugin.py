"""Owns the servers that plugins bring: `.mcp.json` in a plugin's folder, and what its manifest says or points to.

It must not know what else a plugin does. A plugin's server is called `plugin:PLUGIN:SERVER`, as other hosts show it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec

from mcphub.config import jsonc
from mcphub.config.document import file_problem, parse_servers
from mcphub.config.jsonc import kind_of
from mcphub.config.layer import Layer
from mcphub.config.readfile import Reader
from mcphub.errors import ConfigError
from mcphub.spec import Problem, Scope

from .request import Request

#: The first of these that is there is the manifest.
MANIFESTS = (os.path.join(".claude-plugin", "plugin.json"), "plugin.json")
FILE = ".mcp.json"
#: Placeholders in a plugin's entries, and variables of its programs: its folder, and where it keeps its data.
ROOT, DATA = "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA"
_SERVERS = "mcpServers"
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]+")


class PluginSource:
    """The plugins of `[plugins] directories` in that order, or else the folders in mcphub's own, by name. Of two that
    have one name the first counts."""

    scope = Scope.PLUGIN

    def load(self, request: Request) -> list[Layer]:
        layers: list[Layer] = []
        roots: dict[str, str] = {}
        for root, problem in _roots(request):
            if problem:
                layers.append(file_problem(self.scope, root, root, f"cannot use the plugin {root}: {problem}"))
                continue
            name, found = _plugin(request.reader, root)
            if not found:
                continue
            first = roots.setdefault(name, root)
            if first != root:
                text = f"cannot use the plugin {root}: {first} has the same name, {name}, and comes first"
                layers.append(file_problem(self.scope, root, root, text))
                continue
            layers += [_named(layer, name, root, request.places.plugin_data(name)) for layer in found]
        return layers


def _roots(request: Request) -> Iterator[tuple[str, str]]:
    """(the folder of each plugin, why it cannot be one)."""
    chosen = request.settings.plugins.directories
    if not chosen:
        folder = request.places.plugins
        for name in request.reader.names(folder) if folder else []:
            root = os.path.join(folder, name)
            if not name.startswith(".") and os.path.isdir(root):
                yield root, ""
        return
    for text in chosen:
        root = os.path.join(request.places.home, text[2:]) if text.startswith("~/") else text
        if not os.path.isabs(root) or "\0" in root:
            yield ascii(root)[1:-1], "[plugins] directories takes absolute paths, or such as begin with ~/"
            continue
        root = os.path.normpath(root)
        request.reader.exists(root)
        yield root, "" if os.path.isdir(root) else "there is no such directory"


def plugin_root(manifest: str) -> str:
    """The folder of the plugin whose manifest would be at this path."""
    folder = os.path.dirname(os.path.abspath(manifest))
    return os.path.dirname(folder) if os.path.basename(folder) == os.path.dirname(MANIFESTS[0]) else folder


def plugin_layers(reader: Reader, root: str, data: Callable[[str], str]) -> list[Layer]:
    """The layers of the plugin at `root` alone; `data` is where the plugin of a name keeps its data."""
    name, found = _plugin(reader, root)
    return [_named(layer, name, root, data(name)) for layer in found]


def _plugin(reader: Reader, root: str) -> tuple[str, list[Layer]]:
    """The plugin's name, and a layer for each file of it that is about servers; what the manifest says comes first."""
    name = os.path.basename(root)
    layers: list[Layer] = []
    pointed: list[str] = []
    place = ""
    paths = [os.path.join(root, FILE)]
    for manifest in MANIFESTS:
        path = os.path.join(root, manifest)
        try:
            document = _document(reader, path, root)
        except ConfigError as error:
            layers.append(file_problem(Scope.PLUGIN, path, root, str(error)))
            break
        if document is None:
            continue
        if isinstance(document.value.get("name"), str):
            name = document.value["name"]
        said = document.value.get(_SERVERS)
        if isinstance(said, dict):
            layers.append(parse_servers(document, _SERVERS, scope=Scope.PLUGIN, path=path))
        elif said is not None:
            pointed, problem = _pointed(said, root)
            paths = [*pointed, *(one for one in paths if one not in pointed)]
            place = f"{path}:{document.line((_SERVERS,))} {_SERVERS}"
            if problem:
                layers.append(file_problem(Scope.PLUGIN, path, root, f"cannot use {place}: {problem}"))
                place = ""  # one word about it is enough
        break
    for path in paths:
        try:
            document = _document(reader, path, root)
        except ConfigError as error:
            layers.append(file_problem(Scope.PLUGIN, path, root, str(error)))
            continue
        if document is None and path in pointed and place:
            text = f"cannot use {place}: it names {path}, and there is no such file"
            layers.append(file_problem(Scope.PLUGIN, path, root, text))
        if document is not None:
            layers.append(parse_servers(_wrapped(document), _SERVERS, scope=Scope.PLUGIN, path=path))
    return _NOT_IN_NAME.sub("-", name).strip("-")[:48] or "plugin", layers


def _document(reader: Reader, path: str, root: str) -> jsonc.Document | None:
    """The object in the file, None without one. Raises ConfigError that names the file, also where a link leads out of
    the plugin: what it brings was looked at as one folder."""
    if not _inside(path, root):
        reader.note(path)
        raise ConfigError(f"cannot use {path}: it is a link that leads out of the plugin")
    data = reader.read(path)
    if data is None:
        return None
    try:
        document = jsonc.parse(data)
    except jsonc.JsoncError as error:
        place = f"{path}:{error.line}:{error.column}" if error.line else path
        raise ConfigError(f"cannot use {place}: {error.message}") from None
    if not isinstance(document.value, dict):
        raise ConfigError(f"cannot use {path}: expected an object at the top, found {kind_of(document.value)}")
    return document


def _wrapped(document: jsonc.Document) -> jsonc.Document:
    """The document with the servers below `mcpServers`: plugins also write the names at the top."""
    value = document.value
    flat = _SERVERS not in value and value and all(
        isinstance(one, dict) and ("command" in one or "url" in one) for one in value.values()
    )
    if not flat:
        return document
    return jsonc.Document({_SERVERS: value}, jsonc.Lines(document.lines.number, {_SERVERS: document.lines}))


def _pointed(said: object, root: str) -> tuple[list[str], str]:
    """The files that a manifest names, all in the plugin, and what is wrong with the first that cannot be meant."""
    paths: list[str] = []
    for text in said if isinstance(said, list) else [said]:
        if not isinstance(text, str) or "\0" in text:
            return paths, f"expected an object, a path or a list of paths, found {kind_of(said)}"
        path = os.path.normpath(os.path.join(root, text))
        if os.path.isabs(text) or not _inside(path, root):
            return paths, f"{ascii(text)} is no path inside the plugin"
        paths.append(path)
    return paths, ""


def _inside(path: str, root: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(root).rstrip("/") + "/")


def _named(layer: Layer, plugin: str, root: str, data: str) -> Layer:
    """The layer with the names that its servers are known by, and what the placeholders of the plugin stand for."""
    variables = {ROOT: root, DATA: data}
    entries = tuple(
        replace(entry, name=f"plugin:{plugin}:{entry.name}", variables=variables) for entry in layer.entries
    )
    problems = tuple(
        Problem(f"plugin:{plugin}:{one.name}", one.origin, one.message) if one.name else one for one in layer.problems
    )
    return msgspec.structs.replace(layer, directory=root, entries=entries, problems=problems)

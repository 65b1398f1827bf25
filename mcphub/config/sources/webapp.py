"""Owns the connectors that a catalogue lists: what it said last is in mcphub's state directory.

It must not fetch anything. A catalogue is somebody's word over the network: it brings servers at URLs, never a program,
and no variable of the person's goes into what it wrote.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec

from mcphub.address import is_loopback
from mcphub.config import jsonc
from mcphub.config.document import file_problem, parse_servers
from mcphub.config.layer import Entry, Layer
from mcphub.config.masking import masked_url
from mcphub.config.urls import open_host, split_url, url_fault
from mcphub.errors import ConfigError
from mcphub.spec import Problem, Scope
from mcphub.store.connectors import Said, connectors_file

from .request import Request

#: What a connector's entry may say; a key that is not here may mean anything in a later version.
KEYS = frozenset(
    [
        "type", "url", "headers", "oauth", "timeout", "startupTimeout", "enabled", "disabled", "enabledTools",
        "disabledTools", "era", "inputTimeout",
    ]
)


class WebappSource:
    """One catalogue. What another one said, configured before, does not count."""

    scope = Scope.WEBAPP

    def load(self, request: Request) -> list[Layer]:
        catalogue = request.settings.webapp.catalogue
        if not catalogue:
            return []
        path = request.places.webapp
        try:
            said, problems = connectors_file(path).understand(request.reader.read(path))
        except ConfigError as error:
            return [file_problem(self.scope, path, "", str(error))]
        if problems:
            return [file_problem(self.scope, path, "", text) for text in problems]
        shown = masked_url(catalogue)
        if fault := catalogue_fault(catalogue):
            place = f"{request.places.settings}: webapp.catalogue"
            return [file_problem(self.scope, shown, "", f"cannot use {place}: {fault}")]
        if said.catalogue != catalogue:
            said = Said(catalogue)
        return [_layer(said, shown)]


def catalogue_fault(url: str) -> str:
    """Why no catalogue is read from this URL, "" = it can be."""
    if fault := url_fault(url):
        return fault
    return "a catalogue is read over https" if open_host(url) else ""


def _layer(said: Said, shown: str) -> Layer:
    failed = f": {said.error}" if said.error else ""
    if not said.document:
        text = f"the connectors of {shown} are not there yet{failed}"
        return Layer(Scope.WEBAPP, shown, warnings=(text,))
    try:
        layer = parse_catalogue(said.document.encode("utf-8", "surrogatepass"), shown)
    except ConfigError as error:
        return file_problem(Scope.WEBAPP, shown, "", str(error))
    if not said.error:
        return layer
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(said.confirmed))
    warning = f"cannot refresh the connectors of {shown}{failed}; as they were at {when} they stay in force"
    return msgspec.structs.replace(layer, warnings=(*layer.warnings, warning))


def parse_catalogue(data: bytes, shown: str) -> Layer:
    """`{"mcpServers": {NAME: {...}}}` as a layer. Raises ConfigError where it is no such document."""
    try:
        document = jsonc.parse(data)
    except jsonc.JsoncError as error:
        raise ConfigError(f"cannot use {shown}: line {error.line}: {error.message}") from None
    if not isinstance(document.value, dict) or not isinstance(document.value.get("mcpServers"), dict):
        raise ConfigError(f"cannot use {shown}: expected an object with the servers below 'mcpServers'")
    found = parse_servers(document, "mcpServers", scope=Scope.WEBAPP, path=shown)
    kept: list[Entry] = []
    problems = list(found.problems)
    for entry in found.entries:
        if cause := _fault(entry.raw):
            text = f"cannot use server {entry.name}: {entry.origin}: {cause}"
            problems.append(Problem(entry.name, entry.origin, text))
        else:
            kept.append(entry)
    return msgspec.structs.replace(found, entries=tuple(kept), problems=tuple(problems))


def _fault(raw: Any) -> str:
    """Why a catalogue may not bring this entry."""
    for key in raw:
        if key not in KEYS:
            return f"a connector is a server at a URL and has no {ascii(key[:40])[1:-1]}"
    url, headers = raw.get("url"), raw.get("headers", {})
    if "${" in f"{url} {headers}":
        return "a connector has no variables"
    parts = split_url(url) if isinstance(url, str) else None
    if parts is not None and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        return "a connector is reached by https"
    return ""

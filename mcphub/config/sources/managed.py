"""Owns managed settings: what was fetched, what the system's preferences say, the file and its drop-ins, in this order.

It must not know what the rules in them mean, nor fetch anything.
"""

from __future__ import annotations

import os

import msgspec

from mcphub.config.layer import Layer
from mcphub.config.managed_document import broken, parse_managed
from mcphub.config.remote_settings import RemoteSettings
from mcphub.config.spelling import near_miss
from mcphub.config.system_places import SystemPlaces
from mcphub.config.trusted_file import read_trusted, trusted_names
from mcphub.errors import ConfigError
from mcphub.spec import Problem, Scope

from .fetched import fetched_layers
from .preferences import preference_layers
from .request import Request


class ManagedSource:
    """Each document is a layer of its own, the one that wins first."""

    scope = Scope.MANAGED

    def load(self, request: Request) -> list[Layer]:
        below = [*preference_layers(request), *file_layers(request)]
        for index, layer in enumerate(below):
            if layer.remote is not None:
                below[index] = _vouched(layer, layer.remote, request)
                break
        return [*fetched_layers(request, below), *below]


def _vouched(layer: Layer, remote: RemoteSettings, request: Request) -> Layer:
    """The layer that names a URL; broken where others could choose who vouches for that."""
    if not remote.ca_file:
        return layer
    try:
        if read_trusted(remote.ca_file, request.places.system.trust, request.reader) is not None:
            return layer
        cause = f"there is no {remote.ca_file}"
    except ConfigError as error:
        cause = str(error)
    origin = msgspec.structs.replace(remote.origin, key=f"{remote.origin.key}.caFile")
    message = f"cannot use {origin}: {cause}"
    policy = layer.policy
    if policy is not None and not policy.fault:
        policy = msgspec.structs.replace(policy, fault=message)
    return msgspec.structs.replace(layer, problems=(Problem("", origin, message), *layer.problems), policy=policy)


def file_layers(request: Request) -> list[Layer]:
    """`managed-settings.json`, then `managed-settings.d/*.json` in the order of their names."""
    system, reader = request.places.system, request.reader
    try:
        names = trusted_names(system.directory, system.trust, reader)
        if names is None:
            return []
        inside = trusted_names(system.drop_ins, system.trust, reader) or ()
    except ConfigError as error:
        return [broken(system.directory, system.directory, str(error))]
    paths = [system.settings, *(os.path.join(system.drop_ins, name) for name in inside if _is_drop_in(name))]
    layers = [layer for path in paths if (layer := _layer(path, request)) is not None]
    warnings = _unread(names, inside, system)
    return [*layers, Layer(Scope.MANAGED, system.directory, warnings=warnings)] if warnings else layers


def _layer(path: str, request: Request) -> Layer | None:
    system = request.places.system
    try:
        data = read_trusted(path, system.trust, request.reader)
    except ConfigError as error:
        return broken(path, system.directory, str(error))
    return None if data is None else parse_managed(data, path=path, directory=system.directory)


def _is_drop_in(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _unread(names: tuple[str, ...], inside: tuple[str, ...], system: SystemPlaces) -> tuple[str, ...]:
    """What stands there and is not read, where its name says that it was meant to be."""
    known = [os.path.basename(path) for path in (system.enterprise, system.settings, system.drop_ins)]
    found = [
        f"{os.path.join(system.directory, name)}: not read; did you mean {meant}?"
        for name in names
        if not name.startswith(".") and (meant := near_miss(name, known))
    ]
    found += [
        f"{os.path.join(system.drop_ins, name)}: not read, since its name does not end in .json"
        for name in inside
        if not name.startswith(".") and not _is_drop_in(name)
    ]
    return tuple(found)

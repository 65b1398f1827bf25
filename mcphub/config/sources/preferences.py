"""Owns managed settings that the system's device management delivers: property lists that only root can have written.

It must not know which of two documents wins, nor what the rules in them mean.
"""

from __future__ import annotations

from typing import Any

from mcphub.config.jsonc import MAX_DEPTH, Document, Lines
from mcphub.config.layer import Layer
from mcphub.config.managed_document import broken, managed_layer
from mcphub.config.trusted_file import read_trusted
from mcphub.errors import ConfigError

from .request import Request

#: Values in one property list; a list may name one value many times, so few bytes can stand for very many.
MAX_VALUES = 100_000


def preference_layers(request: Request) -> list[Layer]:
    """The property list of the device, then that of the user; none where the system has no such thing."""
    system = request.places.system
    layers: list[Layer] = []
    for path in system.preference_lists:
        try:
            data = read_trusted(path, system.trust, request.reader)
            if data is not None:
                document = Document(plain(data), Lines())
                layers.append(managed_layer(document, path=path, directory=system.directory))
        except ConfigError as error:
            layers.append(broken(path, system.directory, str(error)))
        except ValueError as error:
            layers.append(broken(path, system.directory, f"cannot use {path}: {error}"))
    return layers


def plain(data: bytes) -> Any:
    """The property list's value, of the kinds that JSON has. Raises ValueError."""
    import plistlib  # an XML parser, which most systems need not load

    try:
        value = plistlib.loads(data)
    except Exception as error:  # its parsers raise whatever a damaged file leads them to
        raise ValueError(f"not a property list ({type(error).__name__})") from error
    left = MAX_VALUES

    def check(value: Any, depth: int) -> None:
        nonlocal left
        left -= 1
        if left < 0 or depth > MAX_DEPTH:
            raise ValueError("it holds too much")
        match value:
            case bool() | int() | float() | str():
                pass
            case list():
                for one in value:
                    check(one, depth + 1)
            case dict():
                for key, one in value.items():
                    if not isinstance(key, str):
                        raise ValueError("a key is no string")
                    check(one, depth + 1)
            case _:
                raise ValueError(f"it holds a value of the kind {type(value).__name__}, which settings have not")

    check(value, 0)
    return value

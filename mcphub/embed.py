"""Owns the servers that whoever starts the daemon gives it as Python code: how one is named, found and listed.

It must not know how they are spoken to. A server is a callable: it gets the method and params of each request and
returns the result, or an awaitable of it, or raises JSONRPCError; or it is a server object of the official SDK.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mcphub.config.embedded_place import place_of
from mcphub.errors import ConfigError
from mcphub.store.dynamic import Added

if TYPE_CHECKING:
    from mcphub.transport.in_process import Embedded

#: What a module that is named alone gives: the callable, or else what the SDK's own command looks for.
ATTRIBUTE = "handle"
SDK_ATTRIBUTES = ("mcp", "server", "app")
#: Characters of a name that is made of another.
LONGEST = 64
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]+")


def embedded(given: Iterable[str], taken: Iterable[str] = ()) -> dict[str, Embedded]:
    """The servers that `[NAME=]MODULE[:OBJECT]` name, by name; without one it is what a server of the SDK calls itself,
    or that of the callable, or of the module. Imports the modules. Raises ConfigError."""
    found: dict[str, Embedded] = {}
    for text in given:
        name, handler = _one(text)
        if name in found or name in taken:
            raise ConfigError(f"cannot embed {text!r}: there is another server called {name}; write NAME={text}")
        found[name] = handler
    return found


def entries(names: Iterable[str]) -> list[Added]:
    """What is listed of them: servers that were added until the daemon ends, for all agents."""
    return [Added(name, {"type": "sdk", "name": name}) for name in names]


def _one(text: str) -> tuple[str, Embedded]:
    from mcphub.transport.sdk_server import low_level, name_of, sdk_server  # few embed anything

    name, module, attribute = place_of(text)
    try:
        value: Any = importlib.import_module(module)
        for part in (attribute or _usual(value)).split("."):
            value = getattr(value, part)
    except AttributeError:
        raise ConfigError(f"cannot embed {text!r}: {module} has no {attribute or ATTRIBUTE}") from None
    except BaseException as e:  # a module may raise anything, and exit
        raise ConfigError(f"cannot embed {text!r}: cannot import {module}: {type(e).__name__}: {e}") from None
    named = attribute or module.rpartition(".")[2]
    server = low_level(value)
    if server is not None:
        try:
            return name or _NOT_IN_NAME.sub("_", name_of(server) or named)[:LONGEST], sdk_server(server)
        except LookupError as e:
            raise ConfigError(f"cannot embed {text!r}: {type(value).__name__} cannot be run: {e}") from None
    if not callable(value):
        kind = type(value).__name__
        text = f"cannot embed {text!r}: {attribute or ATTRIBUTE} is {kind}, and no callable or server of the SDK"
        raise ConfigError(text)
    handler: Embedded = value
    return name or _NOT_IN_NAME.sub("_", named), handler


def _usual(module: Any) -> str:
    """What is meant where only the module is named."""
    from mcphub.transport.sdk_server import low_level

    if hasattr(module, ATTRIBUTE):
        return ATTRIBUTE
    return next((one for one in SDK_ATTRIBUTES if low_level(getattr(module, one, None)) is not None), ATTRIBUTE)

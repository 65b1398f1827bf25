"""Owns the servers that whoever starts the daemon gives it as Python code: how one is named, found and listed.

It must not know how they are spoken to. A server is a callable: it gets the method and params of each request and
returns the result, or an awaitable of it, or raises JSONRPCError.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from typing import Any

from mcphub.errors import ConfigError
from mcphub.store.dynamic import Added
from mcphub.transport.in_process import Handler

#: What a module that is named alone gives.
ATTRIBUTE = "handle"
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]+")


def embedded(given: Iterable[str], taken: Iterable[str] = ()) -> dict[str, Handler]:
    """The servers that `[NAME=]MODULE[:CALLABLE]` name, by name; without one it is that of the callable, or of the
    module. Imports the modules. Raises ConfigError."""
    found: dict[str, Handler] = {}
    for text in given:
        name, handler = _one(text)
        if name in found or name in taken:
            raise ConfigError(f"cannot embed {text!r}: there is another server called {name}; write NAME={text}")
        found[name] = handler
    return found


def entries(names: Iterable[str]) -> list[Added]:
    """What is listed of them: servers that were added until the daemon ends, for all agents."""
    return [Added(name, {"type": "sdk", "name": name}) for name in names]


def _one(text: str) -> tuple[str, Handler]:
    name, equals, place = text.rpartition("=")
    module, colon, attribute = place.partition(":")
    if not module or (colon and not attribute) or (equals and not name):
        raise ConfigError(f"cannot embed {text!r}: expected [NAME=]MODULE[:CALLABLE]")
    try:
        value: Any = importlib.import_module(module)
        for part in (attribute or ATTRIBUTE).split("."):
            value = getattr(value, part)
    except AttributeError:
        raise ConfigError(f"cannot embed {text!r}: {module} has no {attribute or ATTRIBUTE}") from None
    except Exception as e:  # a module may raise anything
        raise ConfigError(f"cannot embed {text!r}: cannot import {module}: {type(e).__name__}: {e}") from None
    if not callable(value):
        raise ConfigError(f"cannot embed {text!r}: {attribute or ATTRIBUTE} is {type(value).__name__}, and no callable")
    handler: Callable[[str, dict[str, Any]], Any] = value
    return name or _NOT_IN_NAME.sub("_", attribute or module.rpartition(".")[2]), handler

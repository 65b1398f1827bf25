"""Owns how a server that is given to the daemon as Python code is written on its command line.

It must not import what is named: whoever runs it does.
"""

from __future__ import annotations

from mcphub.errors import ConfigError


def place_of(text: str) -> tuple[str, str, str]:
    """Name, module and object of `[NAME=]MODULE[:OBJECT]`, "" for what is left out. Raises ConfigError."""
    name, equals, place = text.rpartition("=")
    module, colon, attribute = place.partition(":")
    if not module or (colon and not attribute) or (equals and not name):
        raise ConfigError(f"cannot embed {text!r}: expected [NAME=]MODULE[:OBJECT]")
    return name, module, attribute

"""Owns which variables `mcphub connect` takes along for its agent: those that the settings list in `clientEnv`.

It must not import more than a program that starts for each agent can afford: the settings are only looked at where the
file has that key. The daemon asks its own settings again: what is sent is an offer.
"""

from __future__ import annotations

import os
import sys

#: Bytes of the settings above which they are not looked at, and of a value above which it is not taken along.
MAX_FILE = 1 << 20
MAX_VALUE = 16 << 10
#: Characters of all that is taken along: the line that carries it has a limit.
MAX_ALL = 24 << 10


def offered(environ: os._Environ[str] | dict[str, str]) -> dict[str, str]:
    """The variables to take along. Never raises: the daemon says what is wrong with the settings."""
    for directory in _places(environ):
        try:
            with open(os.path.join(directory, "mcphub", "settings.toml"), "rb") as file:
                data = file.read(MAX_FILE)
        except OSError:
            continue
        return _listed(data, environ) if b"clientEnv" in data else {}
    return {}


def _places(environ: os._Environ[str] | dict[str, str]) -> list[str]:
    """Where the settings may be, the first that has them counts; as config.places says it."""
    chosen = environ.get("XDG_CONFIG_HOME", "")
    if chosen.strip():
        return [chosen]
    home = os.path.expanduser("~")
    library = [os.path.join(home, "Library", "Application Support")] if sys.platform == "darwin" else []
    return [os.path.join(home, ".config"), *library]


def _listed(data: bytes, environ: os._Environ[str] | dict[str, str]) -> dict[str, str]:
    import tomllib

    try:
        names = tomllib.loads(data.decode("utf-8")).get("clientEnv", [])
    except (ValueError, RecursionError):
        return {}
    found: dict[str, str] = {}
    left = MAX_ALL
    for name in names if isinstance(names, list) else []:
        value = environ.get(name) if isinstance(name, str) and name else None
        if value is None or len(value) > min(MAX_VALUE, left):
            continue
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            continue
        left -= len(name) + len(value)
        found[name] = value
    return found

"""Owns where the files of the service are, as they ship and as they are installed, and whether it is installed.

It must not write, nor start anything. `mcphub connect` asks it, so it imports little.
"""

from __future__ import annotations

import os
import sys

from .names import PLIST, SERVICE_UNIT, SOCKET_UNIT

#: Where packages of a system put units for the managers of all persons (systemd.unit(5)).
SYSTEM_UNITS = ("/etc/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user")


def shipped(name: str) -> str:
    """The text of a file as it comes with mcphub."""
    folder = "launchd" if name.endswith(".plist") else "systemd"
    with open(os.path.join(os.path.dirname(__file__), folder, name), encoding="utf-8") as file:
        return file.read()


def directory() -> str:
    """Where a person's own files of services are."""
    home = os.path.abspath(os.path.expanduser("~"))
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "LaunchAgents")
    config = os.environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(config if config.startswith("/") else os.path.join(home, ".config"), "systemd", "user")


def names() -> tuple[str, ...]:
    """The files of the service on this system."""
    return (PLIST,) if sys.platform == "darwin" else (SERVICE_UNIT, SOCKET_UNIT)


def installed() -> str:
    """The file by which the service manager of this person finds the service, "" = it is not installed."""
    name = names()[-1]
    folders = [directory()] if sys.platform == "darwin" else [directory(), *SYSTEM_UNITS]
    return next((path for folder in folders if os.path.exists(path := os.path.join(folder, name))), "")

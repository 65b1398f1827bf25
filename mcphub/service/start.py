"""Owns having the service manager start the daemon, for `mcphub connect`.

It must not start one itself.
"""

from __future__ import annotations

import sys

from mcphub.errors import ConfigError

from . import launchd_agent, places, systemd_user
from .names import SOCKET_UNIT


def start() -> str | None:
    """Ask for it where the service is installed: "" = its sockets listen, or will in a moment; None = it is not
    installed, or no service manager answers; else why it could not be started."""
    path = places.installed()
    if not path:
        return None
    try:
        if sys.platform == "darwin":
            launchd_agent.start(path)
        elif systemd_user.absent():
            return None
        else:
            systemd_user.ask("start", SOCKET_UNIT)  # whoever connects to it starts the daemon
    except ConfigError as error:
        return str(error)
    return ""

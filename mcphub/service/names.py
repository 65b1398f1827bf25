"""Owns what the service is called where it is installed.

It must not import anything: the daemon and `mcphub connect` need these names at their start.
"""

from __future__ import annotations

SERVICE_UNIT = "mcphub.service"
SOCKET_UNIT = "mcphub.socket"
#: As launchd knows it; it tells the daemon by XPC_SERVICE_NAME.
LABEL = "dev.mcphub.daemon"
PLIST = f"{LABEL}.plist"

"""Owns where administrators put what governs mcphub on a machine, and whom those files must belong to.

It must not read them, nor ask any environment variable: what a user controls must not move what governs the user.
"""

from __future__ import annotations

import os
import sys

import msgspec

from .trusted_file import Trust

_DARWIN = sys.platform == "darwin"

#: The domain of managed preferences.
DOMAIN = "dev.mcphub"


class SystemPlaces(msgspec.Struct, frozen=True):
    """`directory` holds the administrators' files; `preferences` is where macOS puts what a device manager sends, "" =
    nowhere, and `user` the account whose folder counts there. The defaults are the system's own."""

    directory: str = "/Library/Application Support/mcphub" if _DARWIN else "/etc/mcphub"
    preferences: str = "/Library/Managed Preferences" if _DARWIN else ""
    user: str = ""
    trust: Trust = Trust()

    @property
    def enterprise(self) -> str:
        """The servers that there are, and no others."""
        return os.path.join(self.directory, "managed-mcp.json")

    @property
    def settings(self) -> str:
        """Rules, and servers beside those of others."""
        return os.path.join(self.directory, "managed-settings.json")

    @property
    def drop_ins(self) -> str:
        """A directory of further files like `settings`."""
        return os.path.join(self.directory, "managed-settings.d")

    @property
    def preference_lists(self) -> tuple[str, ...]:
        """The property lists of the device, then of the user."""
        if not self.preferences:
            return ()
        folders = [self.preferences, *([os.path.join(self.preferences, self.user)] if self.user else [])]
        return tuple(os.path.join(folder, f"{DOMAIN}.plist") for folder in folders)


def system_places() -> SystemPlaces:
    """Those of the user who runs this process."""
    if not _DARWIN:
        return SystemPlaces()
    import pwd

    try:
        return SystemPlaces(user=pwd.getpwuid(os.getuid()).pw_name)
    except KeyError:
        return SystemPlaces()

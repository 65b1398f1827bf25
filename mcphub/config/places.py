"""Owns where mcphub's own files are: configuration, state, sockets.

It must not read or create them. Places follow the XDG variables and HOME alone, so that setting those isolates a hub
whole; what administrators put on the machine is where no variable leads.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys

import msgspec
import platformdirs

from . import runtime_dir
from .system_places import SystemPlaces, system_places

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.]+")


class Places(msgspec.Struct, frozen=True):
    """Absolute directories: the person's home, mcphub's configuration, state and data ("" = none)."""

    home: str
    config_dir: str
    state_dir: str
    data_dir: str = ""
    #: Where administrators put what governs it.
    system: SystemPlaces = SystemPlaces()

    @property
    def servers(self) -> str:
        """The person's own servers."""
        return os.path.join(self.config_dir, "mcp.json")

    @property
    def settings(self) -> str:
        """The hub's settings."""
        return os.path.join(self.config_dir, "settings.toml")

    @property
    def environment(self) -> str:
        """The variables that entries may refer to, beside the daemon's own environment."""
        return os.path.join(self.config_dir, "environment")

    @property
    def seal_key(self) -> str:
        """The key of seals that agents carry between rounds."""
        return os.path.join(self.state_dir, "seal.key")

    @property
    def vault(self) -> str:
        """Tokens and secrets, sealed."""
        return os.path.join(self.state_dir, "vault")

    @property
    def challenges(self) -> str:
        """Which servers wanted a sign-in."""
        return os.path.join(self.state_dir, "challenges.json")

    @property
    def turns(self) -> str:
        """The directory of locks that processes take turns with."""
        return os.path.join(self.state_dir, "turns")

    @property
    def approvals(self) -> str:
        """What a person decided about servers of projects."""
        return os.path.join(self.state_dir, "approvals.json")

    @property
    def toggles(self) -> str:
        """Which servers a person switched off."""
        return os.path.join(self.state_dir, "toggles.json")

    @property
    def pins(self) -> str:
        """The directory of what each server's tools looked like when they were first used."""
        return os.path.join(self.state_dir, "pins")

    @property
    def catalogues(self) -> str:
        """The directory of what lazy servers offer."""
        return os.path.join(self.state_dir, "catalogues")

    @property
    def calls(self) -> str:
        """The outcome journal."""
        return os.path.join(self.state_dir, "calls")

    @property
    def http_token(self) -> str:
        """What agents bring to the loopback."""
        return os.path.join(self.state_dir, "http-token")

    @property
    def workspace_ids(self) -> str:
        """Which directory each id in a URL stands for."""
        return os.path.join(self.state_dir, "workspaces.json")

    @property
    def dynamic(self) -> str:
        """The servers that were added while the daemon ran, and are to outlive it."""
        return os.path.join(self.state_dir, "dynamic.json")

    @property
    def webapp(self) -> str:
        """What the catalogue of connectors said last."""
        return os.path.join(self.state_dir, "webapp.json")

    @property
    def login_path(self) -> str:
        """What the login shell's PATH was when it was last asked."""
        return os.path.join(self.state_dir, "login-path.json")

    @property
    def fetched_settings(self) -> str:
        """Managed settings as they were fetched last."""
        return os.path.join(self.state_dir, "managed-settings.json")

    @property
    def plugins(self) -> str:
        """The folder whose folders are plugins, "" = there is none."""
        return os.path.join(self.data_dir, "plugins") if self.data_dir else ""

    def plugin_data(self, plugin: str) -> str:
        """The directory that a plugin may keep things in; `plugin` is a good name."""
        return os.path.join(self.data_dir or self.state_dir, "plugin-data", plugin)

    def local(self, directory: str) -> str:
        """The person's own servers for the project whose real path is `directory`: never a file inside of it."""
        digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
        name = _NOT_PLAIN.sub("-", os.path.basename(directory))[:40].strip("-") or "root"
        return os.path.join(self.state_dir, "local", f"{name}-{digest}.json")

    @property
    def agent_socket(self) -> str:
        """Raises ConfigError as `runtime_dir.agent_socket` does."""
        return runtime_dir.agent_socket()

    @property
    def http_socket(self) -> str:
        """Raises ConfigError as `runtime_dir.http_socket` does."""
        return runtime_dir.http_socket()

    @property
    def control_socket(self) -> str:
        """Raises ConfigError as `runtime_dir.control_socket` does."""
        return runtime_dir.control_socket()


def places() -> Places:
    """The places of the user who runs this process, from XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_DATA_HOME and HOME,
    or the system's way."""
    home = os.path.abspath(os.path.expanduser("~"))
    config = platformdirs.user_config_dir("mcphub", appauthor=False)
    if sys.platform == "darwin" and not os.environ.get("XDG_CONFIG_HOME"):
        # Many command-line users keep everything under ~/.config, whatever the system would like.
        unixy = os.path.join(home, ".config", "mcphub")
        config = unixy if os.path.isdir(unixy) else config
    state = platformdirs.user_state_dir("mcphub", appauthor=False)
    if sys.platform == "darwin" and not os.environ.get("XDG_STATE_HOME"):
        # There the state directory is the configuration directory; a folder of its own keeps the two apart.
        state = os.path.join(state, "state")
    data = platformdirs.user_data_dir("mcphub", appauthor=False)
    if sys.platform == "darwin" and not os.environ.get("XDG_DATA_HOME"):
        data = os.path.join(data, "data")
    directories = (os.path.abspath(config), os.path.abspath(state), os.path.abspath(data))
    return Places(home, *directories, system_places())

"""Owns where mcphub's own files are: configuration, state, sockets.

It must not read or create them. Places follow the XDG variables and HOME alone, so that setting those isolates a hub
whole.
"""

from __future__ import annotations

import os
import sys

import msgspec
import platformdirs

from . import runtime_dir


class Places(msgspec.Struct, frozen=True):
    """Absolute directories: the person's home, mcphub's configuration and state."""

    home: str
    config_dir: str
    state_dir: str

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
    def approvals(self) -> str:
        """What a person decided about servers of projects."""
        return os.path.join(self.state_dir, "approvals.json")

    @property
    def http_token(self) -> str:
        """What agents bring to the loopback."""
        return os.path.join(self.state_dir, "http-token")

    @property
    def workspace_ids(self) -> str:
        """Which directory each id in a URL stands for."""
        return os.path.join(self.state_dir, "workspaces.json")

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
    """The places of the user who runs this process, from XDG_CONFIG_HOME, XDG_STATE_HOME and HOME, or the system's
    way."""
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
    return Places(home, os.path.abspath(config), os.path.abspath(state))

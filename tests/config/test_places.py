"""Where mcphub's files are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcphub.config.places import places


def test_the_xdg_variables_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """HOME and the XDG variables alone place everything, on every system."""
    for name, value in {"CONFIG_HOME": "/c", "STATE_HOME": "/s", "DATA_HOME": "/d", "RUNTIME_DIR": "/r"}.items():
        monkeypatch.setenv(f"XDG_{name}", value)
    monkeypatch.setenv("HOME", "/h")
    found = places()
    assert found.home == "/h"
    assert found.servers == "/c/mcphub/mcp.json"
    assert found.settings == "/c/mcphub/settings.toml"
    assert found.environment == "/c/mcphub/environment"
    assert found.approvals == "/s/mcphub/approvals.json"
    assert found.dynamic == "/s/mcphub/dynamic.json"
    assert found.webapp == "/s/mcphub/webapp.json"
    assert found.fetched_settings == "/s/mcphub/managed-settings.json"
    assert found.local("/w/my project").startswith("/s/mcphub/local/my-project-")
    assert found.plugins == "/d/mcphub/plugins"
    assert found.plugin_data("p") == "/d/mcphub/plugin-data/p"
    assert found.agent_socket == "/r/mcphub/agent/agent.sock"
    assert found.control_socket == "/r/mcphub/control/control.sock"


def test_home_alone_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without XDG variables everything lies below the home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    found = places()
    assert found.config_dir.startswith(f"{tmp_path}/")
    assert found.state_dir.startswith(f"{tmp_path}/")
    assert found.config_dir != found.state_dir


def test_macos_honours_dot_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On macOS ~/.config/mcphub is used where it exists."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    (tmp_path / ".config" / "mcphub").mkdir(parents=True)
    assert places().config_dir == str(tmp_path / ".config" / "mcphub")
    assert places().state_dir.endswith("/state")

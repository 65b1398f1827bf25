"""Where administrators' files are."""

from __future__ import annotations

import sys

import pytest

from mcphub.config.places import places
from mcphub.config.system_places import SystemPlaces, system_places
from mcphub.config.trusted_file import Trust


def test_no_variable_moves_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """C131: what a user can set leads nowhere else, and they belong to root."""
    before = system_places()
    for name in ("HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_STATE_HOME", "XDG_DATA_DIRS"):
        monkeypatch.setenv(name, "/elsewhere")
    assert system_places() == before == places().system
    assert before.trust == Trust(0, "/")


def test_the_names() -> None:
    """One directory, one name each; the property lists of the device before those of the user."""
    found = SystemPlaces("/etc/mcphub", "/Library/Managed Preferences", "ada")
    assert found.enterprise == "/etc/mcphub/managed-mcp.json"
    assert found.settings == "/etc/mcphub/managed-settings.json"
    assert found.drop_ins == "/etc/mcphub/managed-settings.d"
    assert found.preference_lists == (
        "/Library/Managed Preferences/dev.mcphub.plist",
        "/Library/Managed Preferences/ada/dev.mcphub.plist",
    )
    assert SystemPlaces("/etc/mcphub", "").preference_lists == ()


def test_each_system_has_its_own() -> None:
    """The directory is the one of the system that runs this."""
    expected = "/Library/Application Support/mcphub" if sys.platform == "darwin" else "/etc/mcphub"
    assert system_places().directory == expected

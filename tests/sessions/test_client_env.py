"""What `mcphub connect` takes along for its agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcphub.sessions.client_env import MAX_ALL, MAX_VALUE, offered

ENV = {"GH_T": "abc", "OTHER": "x", "EMPTY": "", "BYTES": "\udcff", "LONG": "x" * (MAX_VALUE + 1)}


def settings(tmp_path: Path, text: str | bytes) -> dict[str, str]:
    path = tmp_path / "mcphub/settings.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return offered({**ENV, "XDG_CONFIG_HOME": str(tmp_path)})


def test_only_what_the_settings_list(tmp_path: Path) -> None:
    """C023: nothing goes along that the person did not name; an empty value is a value."""
    assert settings(tmp_path, 'clientEnv = ["GH_T", "EMPTY", "UNSET"]') == {"GH_T": "abc", "EMPTY": ""}
    assert settings(tmp_path, "[names]\nmaxLength = 30") == {}
    assert offered({**ENV, "XDG_CONFIG_HOME": str(tmp_path / "none")}) == {}


@pytest.mark.parametrize(
    "text",
    ["clientEnv = ", 'clientEnv = "GH_T"', "clientEnv = [5, '']", 'x.clientEnv = ["GH_T"]', b'clientEnv = ["\xff"]'],
)
def test_settings_that_say_nothing(tmp_path: Path, text: str | bytes) -> None:
    """What is wrong with them the daemon says; the agent attaches all the same."""
    assert settings(tmp_path, text) == {}


def test_what_cannot_be_sent(tmp_path: Path) -> None:
    """A value that is no text, is too long, or would make the line too long stays behind; the others go."""
    assert settings(tmp_path, 'clientEnv = ["BYTES", "LONG", "GH_T"]') == {"GH_T": "abc"}
    many = {f"V{number}": "x" * 10_000 for number in range(5)}
    names = ", ".join(f'"{name}"' for name in many)
    (tmp_path / "mcphub/settings.toml").write_text(f"clientEnv = [{names}]")
    found = offered({**many, "XDG_CONFIG_HOME": str(tmp_path)})
    assert 0 < sum(map(len, found.values())) <= MAX_ALL


def test_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without XDG_CONFIG_HOME it is the one below HOME."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".config/mcphub").mkdir(parents=True)
    (tmp_path / ".config/mcphub/settings.toml").write_text('clientEnv = ["GH_T"]')
    assert offered(ENV) == {"GH_T": "abc"}

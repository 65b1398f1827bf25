"""What files alone tell."""

from __future__ import annotations

import os

import pytest

from mcphub.cli.from_files import Files


def test_a_house_of_files(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question has an answer without a daemon, and says so."""
    for name in ("CONFIG", "STATE", "DATA", "RUNTIME"):
        folder = f"{tmp_path}/{name.lower()}"
        monkeypatch.setenv(f"XDG_{name}_{'DIR' if name == 'RUNTIME' else 'HOME'}", folder)
        os.makedirs(f"{folder}/mcphub")
    monkeypatch.setenv("HOME", f"{tmp_path}/home")
    with open(f"{tmp_path}/config/mcphub/mcp.json", "w") as file:
        file.write('{"mcpServers": {"a": {"command": "x"}, "b": {"command": 1}}}')
    with open(f"{tmp_path}/config/mcphub/settings.toml", "w") as file:
        file.write('[policy]\ndeniedMcpServers = [{serverName = "a"}]\nzzz = 1\n')
    files = Files("")
    report = files.why("a")
    assert (report["live"], report["state"]) == (False, "disabled (policy)")
    assert [rule["rule"] for rule in files.policy()["rules"]] == ['{"serverName": "a"}']
    assert not files.verdict("a", "", ())["allowed"]
    assert files.verdict("", "", ("x",))["allowed"]
    inventory = files.inventory()
    assert [layer["scope"] for layer in inventory["layers"]] == ["user", "user"]
    assert [one.candidate.name for one in files.known()] == ["a"]
    assert len(files.problems()) == 1
    assert "mcpServers.b.command" in files.problems()[0]
    assert any("policy.zzz: unknown key" in one for one in files.warnings())

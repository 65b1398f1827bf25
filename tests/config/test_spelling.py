"""Which unknown keys are misspelt ones."""

from __future__ import annotations

import time

import pytest

from mcphub.config.policy_keys import GUARDED
from mcphub.config.spelling import near_miss


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("deniedMcpServer", "deniedMcpServers"),
        ("denideMcpServers", "deniedMcpServers"),
        ("deniedMCPServers", "deniedMcpServers"),
        ("denied_mcp_servers", "deniedMcpServers"),
        ("denyMcpServers", "deniedMcpServers"),
        ("blockedMcpServers", "deniedMcpServers"),
        ("disallowedTools", "deniedTools"),
        ("AllowedMcpServers", "allowedMcpServers"),
        ("allowMcpServers", "allowedMcpServers"),
        ("allowed-mcp-servers", "allowedMcpServers"),
        ("allowedMcpSevers", "allowedMcpServers"),
        ("allowTools", "allowedTools"),
        ("denyTools", "deniedTools"),
        ("deniedTool", "deniedTools"),
        ("allowManagedMcpServerOnly", "allowManagedMcpServersOnly"),
        ("allowManagedMcpOnlyServers", ""),
        ("deniedMcpServers", ""),
        ("allowManagedMCPServersOnly", "allowManagedMcpServersOnly"),
    ],
)
def test_near(key: str, meant: str) -> None:
    """One or two letters, the case, signs between words, and another word for the first one."""
    assert near_miss(key, GUARDED) == meant


@pytest.mark.parametrize(
    "key",
    [
        "permissions", "hooks", "env", "allowManagedHooksOnly", "allowManagedPermissionRulesOnly", "managedMcpServers",
        "enabledMcpjsonServers", "disabledMcpjsonServers", "enableAllProjectMcpServers", "disabledMcpServers",
        "enabledMcpServers", "allowedHttpHookUrls", "allowedChannelPlugins", "deniedDomains", "allowedDomains",
        "strictKnownMarketplaces", "availableModels", "forceLoginMethod", "mcpServers", "", "a" * 5000,
    ],
)  # fmt: skip
def test_far(key: str) -> None:
    """Keys that other programs have for other things are none of ours misspelt."""
    assert near_miss(key, GUARDED) == ""


def test_many_keys_take_no_time() -> None:
    """A file with two thousand unknown keys is read in no time that matters."""
    start = time.perf_counter()
    assert not any(near_miss(f"somethingQuiteElse{n}", GUARDED) for n in range(2_000))
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize(
    "name, meant",
    [
        ("managed-settings.json", ""),
        ("managed-setting.json", "managed-settings.json"),
        ("managed_settings.json", "managed-settings.json"),
        ("Managed-Settings.JSON", "managed-settings.json"),
        ("managed-settings.jsonc", "managed-settings.json"),
        ("manged-mcp.json", "managed-mcp.json"),
        ("settings.json", ""),
        ("mcp.json", ""),
        ("", ""),
        ("x" * 100_000, ""),
    ],
)
def test_names_of_files(name: str, meant: str) -> None:
    """A slip of the pen is told what it was meant to be, another name is left alone; length costs nothing."""
    assert near_miss(name, ("managed-settings.json", "managed-mcp.json")) == meant


@pytest.mark.parametrize(
    ("key", "known", "meant"),
    [
        ("polcy", ["policy"], "policy"),
        ("Policy", ["policy"], "policy"),
        ("policies", ["policy"], "policy"),
        ("plugins", ["policy"], ""),
        ("versoin", ["version"], "version"),
        ("verison", ["version"], "version"),
        ("git-hub", ["git-lab", "github"], "github"),
        ("b", ["a"], ""),
        ("rul", ["url"], "url"),
    ],
)
def test_the_nearest(key: str, known: list[str], meant: str) -> None:
    """Of several the nearest; short words must be nearer than long ones."""
    assert near_miss(key, known) == meant

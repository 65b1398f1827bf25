"""Which unknown keys are misspelt ones."""

from __future__ import annotations

import time

import pytest

from mcphub.policy.document import GUARDED
from mcphub.policy.spelling import near_miss


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

"""What is wrong with one file."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcphub.config.entries.context import Context
from mcphub.questions.findings import ENVIRONMENT, LOCAL, MANAGED, PROJECT, SETTINGS, USER, file_kind, findings

CONTEXT = Context({"HOME": "/u"}, "/u/environment")


@pytest.mark.parametrize(
    ("path", "data", "kind"),
    [
        ("/w/.mcp.json", b"", "project servers"),
        ("/u/mcp.json", b"{}", "servers"),
        ("/u/other.json", b"{", "servers"),
        ("/etc/mcphub/managed-mcp.json", b"", "enterprise servers"),
        ("/etc/mcphub/managed-settings.json", b"", "managed settings"),
        ("/etc/mcphub/managed-settings.d/10-x.json", b"", "managed settings"),
        ("/u/draft.json", b'{"deniedMcpServers": []}', "managed settings"),
        ("/s/local/w-1.json", b'{"version": 1, "project": "/w", "mcpServers": {}}', "local servers"),
        ("/m/dev.mcphub.plist", b"", "managed preferences"),
        ("/u/settings.toml", b"", "hub settings"),
        ("/u/environment", b"", "environment"),
        ("/u/.env", b"", "environment"),
    ],
)
def test_what_a_file_is(path: str, data: bytes, kind: str) -> None:
    """By its name, and where that says nothing by its keys."""
    assert file_kind(path, data) == kind


def found(kind: str, text: str, path: str = "/f") -> tuple[list[str], list[str]]:
    report = findings(text.encode(), path, kind, CONTEXT)
    assert (report["path"], report["kind"]) == (path, kind)
    return report["problems"], report["warnings"]


@pytest.mark.parametrize(
    ("kind", "text", "problems", "warnings"),
    [
        (USER, '{"mcpServers": {}}', [], []),
        (USER, "{", ["cannot use /f:1:2: "], []),
        (USER, '{"x": 1}', [], ["/f:1 x: this key is not used"]),
        (USER, '{"mcpServers": {"a": {"command": "x", "enabled": 1}, "b": {"command": 2}}}',
         ["cannot use server a: /f:1 mcpServers.a.enabled: ", "cannot use server b: /f:1 mcpServers.b.command: "], []),
        (PROJECT, '{"mcpServers": {"a": {"command": "x", "env": {"LD_PRELOAD": "y"}}}}',
         ["cannot use server a: /f:1 mcpServers.a.env.LD_PRELOAD: blocked"], []),
        (MANAGED, '{"deniedMcpServer": [],\n"allowedMcpServers": {}, "zzz": 1}',
         ["cannot use /f:1 deniedMcpServer: unknown key, probably meant as deniedMcpServers",
          "cannot use /f:2 allowedMcpServers: expected a list"], ["/f:2 zzz: unknown key"]),
        (MANAGED, '{"managedMcpServers": {"m": {"type": "http", "url": "http://h/"}}}',
         ["cannot use server m: /f:1 managedMcpServers.m.url: expected an address"], []),
        (LOCAL, '{"version": 1, "project": "/w", "mcpServers": {"a": {"command": "x", "cwd": "y"}}}', [], []),
        (LOCAL, '{"version": 1, "project": "/w", "mcpServers": {"a": 1}}', ["cannot use server a: /f:1"], []),
        (SETTINGS, "x = 1\n[policy]\ndeniedMcpServers = 1\n",
         ["/f: x: unknown key", "cannot use /f:3 policy.deniedMcpServers: expected a list"], []),
        (SETTINGS, "policy = [", ["cannot use /f:1:11: "], []),
        (ENVIRONMENT, "A=1\nwrong\n", ["cannot use /f:2: expected NAME=VALUE"], []),
    ],
)  # fmt: skip
def test_every_problem_and_warning(kind: str, text: str, problems: list[str], warnings: list[str]) -> None:
    """Each names file, line and key, as far as the kind of file has them."""
    for said, wanted in zip(found(kind, text), (problems, warnings), strict=True):
        assert [one[: len(begin)] for one, begin in zip(said, wanted, strict=True)] == wanted


def test_a_variable_that_is_not_set_here_is_a_warning() -> None:
    """The file may be for another machine; what is wrong beside it is still found."""
    entry = {"command": "x", "args": ["${NOPE}"], "timeout": 1, "zzz": 1}
    problems, warnings = found(USER, json.dumps({"mcpServers": {"a": entry}}))
    assert len(problems) == 1
    assert "/f:1 mcpServers.a.timeout: 1 is below 1000" in problems[0]
    assert any("missing variable NOPE" in one for one in warnings)
    assert any("zzz: unknown key" in one for one in warnings)


WORDS = st.sampled_from(
    ["mcpServers", "managedMcpServers", "deniedMcpServers", "allowedMcpServers", "deniedTools", "remoteSettings", "url",
     "version", "project", "serverName", "serverUrl", "serverCommand", "command", "args", "env", "type", "http",
     "policy", "tls", "headersHelper", "${X}", "*", "a", "", "\x1b", "https://h/"]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=12
)
NAMES = st.sampled_from(
    ["/w/.mcp.json", "/u/x.json", "/e/managed-mcp.json", "/e/managed-settings.json", "/u/s.toml", "/u/e"]
)


@given(NAMES, VALUES.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40))
@settings(max_examples=300, deadline=None)
def test_no_content_is_too_much(path: str, data: bytes) -> None:
    """Whatever stands in a file, something is said of it, in lines that name it."""
    kind = file_kind(path, data)
    report = findings(data, path, kind, CONTEXT)
    assert all(path in text for text in report["problems"])

"""What is said against a server before it is written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcphub.cli.admission import ENTERPRISE, judge, refuse_enterprise, refuse_name
from mcphub.config.load import Loaded, load
from mcphub.config.places import Places
from mcphub.config.system_places import SystemPlaces
from mcphub.config.trusted_file import Trust
from mcphub.config.writable import place_for
from mcphub.errors import ConfigError
from mcphub.spec import Scope


class Home:
    """A person's home, and an administrator's directory beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "etc").mkdir(mode=0o755)
        system = SystemPlaces(str(root / "etc"), "", "", Trust(os.geteuid(), str(root)))
        self.places = Places(str(root), str(root / "config"), str(root / "state"), "", system)

    def admin(self, name: str, text: str) -> None:
        path = self.root / "etc" / name
        path.write_text(text)
        path.chmod(0o644)

    def load(self) -> Loaded:
        return load("", {"SET": "1"}, self.places)

    def judge(self, entry: Mapping[str, Any], name: str = "a") -> tuple[str, ...]:
        return judge(self.load(), place_for(Scope.USER, "", self.places), name, entry)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    tmp_path.chmod(0o755)
    return Home(tmp_path)


def test_what_may_be_written(home: Home) -> None:
    """A good entry passes; what is odd about it is told, but not a variable that can still be set."""
    assert home.judge({"command": "x", "args": ["${SET}"]}) == ()
    assert home.judge({"command": "x", "enabled": False}) == ()
    assert "unknown key" in home.judge({"command": "x", "comand": "y"})[0]
    assert home.judge({"command": "x", "env": {"A": "${UNSET}"}}) == ()
    assert home.judge({"command": "x", "envFile": "/later/.env"}) == ()
    assert home.judge({"type": "http", "url": "https://h/", "headers": {"A": "${secret:later}"}}) == ()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"command": 42}, "cannot add server a: .*mcp.json mcpServers.a.command: expected a string"),
        ({"url": "https://h"}, "url without type"),
        ({"type": "http", "url": ""}, "its url is empty"),
        ({"command": "x", "url": "https://h"}, "both command and url"),
        ({"command": "x", "timeout": 30}, "the unit is milliseconds"),
        ({}, "missing; give the program"),
        ({"type": "http", "url": "http://[::1"}, "mcpServers.a.url: "),
        ({"type": "http", "url": "https://h/", "headers": {"A": "x\r\ny: z"}}, "mcpServers.a.headers.A: "),
        ({"type": "http", "url": "${SET}"}, "mcpServers.a.url: "),
        ({"command": "ftp://x"}, "command: is an address and no program"),
        ({"command": "x", "cwd": "~/x"}, "~ is not replaced"),
    ],
)
def test_what_means_nothing(home: Home, entry: dict[str, Any], message: str) -> None:
    """An entry that could not be used is refused before it stands in a file."""
    with pytest.raises(ConfigError, match=message):
        home.judge(entry)


def test_names(home: Home) -> None:
    """C006: a name that no server can have is refused, and shown escaped."""
    for name in ("", "a b", "../x", "__proto__", "a\x1b[2J", "n" * 65):
        with pytest.raises(ConfigError, match="cannot add server ") as caught:
            refuse_name(name)
        assert "\x1b" not in str(caught.value)
        with pytest.raises(ConfigError):
            home.judge({"command": "x"}, name)
    refuse_name("good_name-1")


def test_an_enterprise_is_alone(home: Home) -> None:
    """Where the organisation says which servers there are, even by an empty or broken file, nothing can be added, and
    the text is the one that people know."""
    refuse_enterprise(home.load())
    for text in ('{"mcpServers": {}}', "{"):
        home.admin("managed-mcp.json", text)
        with pytest.raises(ConfigError, match=ENTERPRISE):
            home.judge({"command": "x"})
    assert ENTERPRISE == (
        "Cannot add MCP server: enterprise MCP configuration is active and has exclusive control over MCP servers"
    )


def test_policy_is_asked(home: Home) -> None:
    """What policy would not let run is refused with rule and file; the rest is not."""
    home.admin("managed-settings.json", '{"deniedMcpServers": [{"serverCommand": ["evil"]}, {"serverName": "bad"}]}')
    assert home.judge({"command": "good"}) == ()
    for entry, name in (({"command": "evil"}, "a"), ({"command": "good"}, "bad")):
        with pytest.raises(ConfigError, match=f"cannot add server {name}: denied by policy: .*managed-settings.json"):
            home.judge(entry, name)


def test_a_broken_policy_closes(home: Home) -> None:
    """Where policy cannot be read, nothing is added that it might forbid."""
    home.admin("managed-settings.json", "{")
    with pytest.raises(ConfigError, match="cannot add server a: policy cannot be read"):
        home.judge({"command": "good"})

"""Which entry of a name wins, and what is said about the rest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcphub.config.document import parse_file
from mcphub.config.entries.context import Context, EnvFile
from mcphub.config.layer import Layer
from mcphub.config.places import Places
from mcphub.config.readfile import Reader
from mcphub.config.resolve import in_force, resolve, wanted_env_files
from mcphub.config.sources.embedded import EmbeddedSource
from mcphub.config.sources.request import Request
from mcphub.spec import InProcessSpec, Off, Problem, Scope, StdioSpec

(EMBEDDED,) = EmbeddedSource().load(Request("", Places("/h", "/c", "/s"), Reader()))
CONTEXT = Context({"A": "1"})


def layer(scope: Scope, servers: Mapping[str, Any] | str, directory: str) -> Layer:
    data = servers if isinstance(servers, str) else json.dumps({"mcpServers": servers})
    return parse_file(data.encode(), scope=scope, path=f"{directory}/mcp.json", directory=directory)


def user(servers: Mapping[str, Any] | str) -> Layer:
    return layer(Scope.USER, servers, "/u")


def project(servers: Mapping[str, Any] | str, directory: str = "/w") -> Layer:
    return layer(Scope.PROJECT, servers, directory)


def test_the_whole_entry_wins() -> None:
    """C007: the higher scope's entry is in force as it stands, takes nothing from the one it shadows, and names it."""
    found = resolve(
        [
            project({"db": {"command": "db2"}}),
            user({"db": {"command": "db", "env": {"T": "u"}}, "own": {"command": "o"}}),
        ],
        CONTEXT,
        workspace="/w",
    )
    assert list(found.servers) == ["db", "own"]
    winner = found.servers["db"]
    assert winner.spec is not None
    assert winner.spec.transport == StdioSpec("db2", shown=("db2",), cwd="/w")
    assert winner.workspace == "/w"
    assert [str(origin) for origin in winner.shadows] == ["/u/mcp.json:1 mcpServers.db"]
    assert found.servers["own"].shadows == ()
    assert found.servers["own"].workspace == ""
    assert set(found.specs) == {"db", "own"}
    assert found.workspace == "/w"


def test_the_nearest_project_file_wins() -> None:
    """C018: of several project files the first given wins, and each owns its own entries."""
    found = resolve(
        [project({"a": {"command": "near"}}, "/r/p"), project({"a": {"command": "far"}, "b": {"command": "b"}}, "/r")],
        CONTEXT,
    )
    specs = found.specs
    assert (specs["a"].workspace, specs["b"].workspace) == ("/r/p", "/r")


def test_a_wrong_or_switched_off_winner_still_wins() -> None:
    """C007: what the nearer file says about a name counts even if it is wrong, off or a blank form; nothing falls
    back."""
    good = user({name: {"command": "good"} for name in "abcd"})
    found = resolve(
        [project({"a": {"command": 1}, "b": "x", "c": {"command": "c", "enabled": False}, "d": {"url": ""}}), good],
        CONTEXT,
    )
    assert isinstance(found.servers["a"].outcome, Problem)
    assert isinstance(found.servers["b"].outcome, Problem)
    assert isinstance(found.servers["c"].outcome, Off)
    assert found.servers["c"].spec is not None
    assert found.servers["d"].outcome is None
    assert found.servers["d"].spec is None
    assert all(len(one.shadows) == 1 for one in found.servers.values())
    assert found.specs == {}


def test_the_embedded_server_is_there_only_alone() -> None:
    """The built-in server counts while no file says anything; a broken file is not nothing."""
    alone = resolve([user({}), EMBEDDED], CONTEXT)
    assert [one.transport for one in alone.specs.values()] == [InProcessSpec("welcome")]
    for other in (
        user({"a": {"command": "x"}}),
        user({"a": {"command": 1}}),
        user({"a": {"url": ""}}),
        user("{"),
        user({"": {}}),
    ):
        assert "mcphub" not in resolve([other, EMBEDDED], CONTEXT).servers
        assert in_force([other, EMBEDDED]) == (other,)


def test_problems_and_warnings_are_gathered() -> None:
    """Problems of files are apart from those of entries; warnings of losers are not repeated."""
    found = resolve(
        [
            project("{"),
            project({"a": {"command": "x", "lazy": True}, " ": {}}, "/v"),
            user({"a": {"command": "x", "odd": 1}}),
        ],
        CONTEXT,
    )
    assert [one.message for one in found.problems] == [
        'cannot use /w/mcp.json:1:2: expected a key in double quotes or "}", found the end of the file'
    ]
    assert isinstance(found.servers['" "'].outcome, Problem)
    assert found.warnings == ("/v/mcp.json:1 mcpServers.a.lazy: not used yet",)
    assert found.servers["a"].warnings == found.warnings


def test_wanted_env_files() -> None:
    """Only files that a winning entry names are asked for, once each."""
    layers = [
        project({"a": {"command": "x", "envFile": ".env"}, "b": {"command": "x", "envFile": "./.env"}, "c": "x"}),
        user(
            {
                "a": {"command": "x", "envFile": "/secret"},
                "c": {"command": "x", "envFile": "/s"},
                "d": {"command": "x", "envFile": "d"},
            }
        ),
    ]
    assert wanted_env_files(layers, CONTEXT) == ("/w/.env", "/u/d")
    found = resolve(layers, Context(env_files={"/w/.env": EnvFile({"K": "v"}), "/u/d": EnvFile()}))
    assert found.servers["a"].spec is not None
    assert isinstance(found.servers["a"].spec.transport, StdioSpec)
    assert found.servers["a"].spec.transport.env == {"K": "v"}

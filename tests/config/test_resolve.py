"""Which entry of a name wins, and what is said about the rest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.config.document import file_problem, parse_file
from mcphub.config.entries.context import Context, EnvFile
from mcphub.config.layer import NOT_SEEN, Layer
from mcphub.config.places import Places
from mcphub.config.readfile import Reader
from mcphub.config.resolve import Resolved, in_force, resolve, wanted_env_files
from mcphub.config.sources.embedded import EmbeddedSource
from mcphub.config.sources.request import Request
from mcphub.spec import InProcessSpec, Off, Problem, Scope, StdioSpec
from tests.tables import Row, label, rows

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


def test_an_enterprise_is_alone() -> None:
    """C124: beside its layer every other entry, wherever it comes from, is off and says why; nothing in it is expanded
    and no file is read for it; the built-in server is gone, too."""
    scopes = [scope for scope in Scope if scope not in (Scope.ENTERPRISE, Scope.EMBEDDED)]
    others = [
        layer(scope, {"own": {"command": "x"}, scope: {"command": "${UNSET}", "envFile": "/f"}}, f"/{scope}")
        for scope in scopes
    ]
    enterprise = layer(Scope.ENTERPRISE, {"own": {"command": "e", "envFile": "/e"}}, "/etc/mcphub")
    found = resolve([enterprise, *others, EMBEDDED], Context({}, env_files={"/e": EnvFile()}))
    assert set(found.specs) == {"own"}
    assert found.servers["own"].origin.scope is Scope.ENTERPRISE
    assert [origin.scope for origin in found.servers["own"].shadows] == scopes
    for scope in scopes:
        off = found.servers[scope].outcome
        assert isinstance(off, Off)
        assert (off.because, off.detail) == (
            "enterprise", "ignored: /etc/mcphub/mcp.json has exclusive control over MCP servers"
        )
    assert "mcphub" not in found.servers
    assert wanted_env_files([enterprise, *others], CONTEXT) == ("/e",)
    assert set(exclusive_names("{")) == set(exclusive_names('{"mcpServers": {}}')) == {"u"}


def test_an_enterprise_of_which_nobody_knows() -> None:
    """Where its file cannot even be looked for, it is not claimed to be there."""
    path = "/etc/mcphub/managed-mcp.json"
    unseen = file_problem(Scope.ENTERPRISE, path, "/etc/mcphub", f"{NOT_SEEN} {path}: Permission denied")
    off = resolve([unseen, user({"u": {"command": "u"}})], CONTEXT).servers["u"].outcome
    assert isinstance(off, Off)
    assert off.detail == (
        f"ignored: {path} cannot be looked for, and where it is there it has exclusive control over MCP servers"
    )


def exclusive_names(text: str) -> Mapping[str, Resolved]:
    """What is there beside an enterprise's file with this text: nothing that runs."""
    found = resolve([layer(Scope.ENTERPRISE, text, "/etc/mcphub"), user({"u": {"command": "u"}}), EMBEDDED], CONTEXT)
    assert found.specs == {}
    return found.servers


def test_problems_and_warnings_are_gathered() -> None:
    """Problems of files are apart from those of entries; warnings of losers are not repeated."""
    found = resolve(
        [
            project("{"),
            project({"a": {"command": "x", "alwaysLoad": True}, " ": {}}, "/v"),
            user({"a": {"command": "x", "odd": 1}}),
        ],
        CONTEXT,
    )
    assert [one.message for one in found.problems] == [
        'cannot use /w/mcp.json:1:2: expected a key in double quotes or "}", found the end of the file'
    ]
    assert isinstance(found.servers['" "'].outcome, Problem)
    assert found.warnings == ("/v/mcp.json:1 mcpServers.a.alwaysLoad: not used yet",)
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


#: Highest first, as mcphub.config.sources gives them.
ORDER = [Scope.MANAGED, Scope.DYNAMIC, Scope.LOCAL, Scope.PROJECT, Scope.USER, Scope.PLUGIN, Scope.WEBAPP]
COMMANDS: dict[str, Any] = {"!": {"command": 5}, "-": {"command": "x", "enabled": False}}


def in_order(layers: list[Layer]) -> list[Layer]:
    """By scope, the deepest directory first."""
    return sorted(layers, key=lambda one: (ORDER.index(one.scope), -one.directory.count("/")))


def scoped(text: str) -> list[Layer]:
    """The layers of the second column of tests/data/resolve/scopes.txt, each entry in a file of its own."""
    layers = []
    for one in text.split(" & "):
        where, name, command = one.split()
        scope, _, directory = where.partition("@")
        entry = COMMANDS.get(command, {"command": command})
        layers.append(layer(Scope(scope), {name: entry}, directory))
    return in_order(layers)


def in_words(one: Resolved) -> str:
    """A name as the third column has it."""
    match one.outcome:
        case Problem():
            what = "wrong"
        case Off():
            what = "off"
        case _:
            assert one.spec is not None and isinstance(one.spec.transport, StdioSpec)
            what = one.spec.transport.command
    shadows = ", ".join(str(origin.scope) for origin in one.shadows)
    return f"{one.name} = {what}" + (f" shadows {shadows}" if shadows else "")


@pytest.mark.parametrize("row", rows("resolve", "scopes"), ids=label)
def test_the_table_of_scopes(row: Row) -> None:
    """C007: the first scope that has the name is in force with its whole entry, and names what it shadows."""
    _, entries, expected = row.columns
    found = resolve(scoped(entries), CONTEXT, workspace="/r/pkg")
    assert ", ".join(in_words(one) for one in found.servers.values()) == expected


def test_whose_it_is() -> None:
    """What a person set up for one directory, or a project brings, is for agents there; all else is for everybody."""
    layers = [layer(scope, {str(scope): {"command": "x"}}, "/r") for scope in ORDER]
    owned = {name: one.workspace for name, one in resolve(layers, CONTEXT).servers.items()}
    assert {name for name, workspace in owned.items() if workspace == "/r"} == {"dynamic", "local", "project"}
    assert {name for name, workspace in owned.items() if workspace == ""} == {"managed", "user", "plugin", "webapp"}


FILES = st.lists(
    st.tuples(st.sampled_from(ORDER), st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True)),
    max_size=6,
)


@given(FILES, st.randoms(use_true_random=False))
def test_the_order_of_files_does_not_matter(files: list[tuple[Scope, list[str]]], random: Random) -> None:
    """C007: layers that share no name may come in any order, and so may the entries of one file: the same servers, and
    the same instances."""
    used: set[str] = set()
    layers = []
    for number, (scope, names) in enumerate(files):
        mine = [name for name in names if name not in used]
        used |= set(mine)
        layers.append(layer(scope, {name: {"command": f"c{number}"} for name in mine}, f"/{number}"))
    shuffled = []
    for one in random.sample(layers, len(layers)):
        entries = random.sample(one.entries, len(one.entries))
        shuffled.append(msgspec.structs.replace(one, entries=tuple(entries)))
    first, second = resolve(layers, CONTEXT), resolve(shuffled, CONTEXT)
    assert first.servers == second.servers
    assert {name: spec.key() for name, spec in first.specs.items()} == {
        name: spec.key() for name, spec in second.specs.items()
    }


@given(FILES, st.randoms(use_true_random=False))
def test_only_precedence_decides(files: list[tuple[Scope, list[str]]], random: Random) -> None:
    """C007: whatever order files were found in, sorted by precedence they make the same set; the winner of each name is
    of the first scope that has it, and everything else that has it is named as shadowed, once."""
    layers = [
        layer(scope, {name: {"command": f"c{number}"} for name in names}, "/d" * (number + 1))
        for number, (scope, names) in enumerate(files)
    ]
    found = resolve(in_order(layers), CONTEXT)
    assert found.servers == resolve(in_order(random.sample(layers, len(layers))), CONTEXT).servers
    for name, one in found.servers.items():
        scopes = [each.scope for each in in_order(layers) if name in {entry.name for entry in each.entries}]
        assert [one.origin.scope, *(origin.scope for origin in one.shadows)] == scopes


def test_who_refers_to_a_secret() -> None:
    """Wherever in the entry it stands; a longer name is another one."""
    servers = {
        "env": {"command": "x", "env": {"A": "${secret:gh}"}},
        "args": {"command": "x", "args": ["a", "--k=${secret:gh}-"]},
        "other": {"command": "x", "env": {"A": "${secret:gh2}", "B": "${gh}"}},
    }
    found = resolve([user(servers)], Context(secrets=lambda name: "tok"), workspace="").servers
    assert [name for name, one in found.items() if one.refers_to_secret("gh")] == ["args", "env"]

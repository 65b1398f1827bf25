"""Which servers run once because they are the same, row by row from tests/data/dedupe."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.config.dedupe import Unwrap, dedupe, same_account
from mcphub.config.entries.context import Context
from mcphub.config.layer import Entry, Layer
from mcphub.config.resolve import ResolvedSet, resolve
from mcphub.spec import Off, Origin, Scope, ServerSpec
from tests.tables import Row, label, rows

CONTEXT = Context({"V": "val"})
UNWRAP = Unwrap(("proxy.example", "*.gateway.example"))


def layer(scope: Scope, name: str, entry: object, number: int = 0) -> Layer:
    """A layer of its own for one server, as a source gives it."""
    assert isinstance(entry, dict)
    variables = {}
    if scope is Scope.PLUGIN:
        name = f"plugin:{name}"
        variables = {"CLAUDE_PLUGIN_ROOT": f"/plugins/{number}", "CLAUDE_PLUGIN_DATA": f"/data/{number}"}
    origin = Origin(scope, f"/{number}/mcp.json", f"mcpServers.{name}", 1)
    return Layer(scope, origin.path, "/w", (Entry(name, entry, origin, variables=variables),))


def written(text: str) -> ResolvedSet:
    layers = []
    for number, one in enumerate(text.split(" & ")):
        scope, name, entry = one.split(" ", 2)
        layers.append(layer(Scope(scope), name, json.loads(entry), number))
    return resolve(layers, CONTEXT, workspace="/w")


def off(resolved: ResolvedSet) -> dict[str, Off]:
    return {
        name: one.outcome
        for name, one in resolved.servers.items()
        if isinstance(one.outcome, Off) and one.outcome.because == "duplicate"
    }


@pytest.mark.parametrize("row", rows("dedupe", "same-server"), ids=label)
def test_the_table(row: Row) -> None:
    """C009: only what is the same and brings nothing of its own is off, and it is listed with the one that runs."""
    assert row.setup == (f"unwrap {' '.join(UNWRAP.hosts)}",)
    _, servers, expected = row.columns
    found = off(dedupe(written(servers), UNWRAP))
    pairs = dict(one.split(" = ") for one in expected.split(", ")) if expected != "-" else {}
    assert sorted(found) == sorted(pairs)
    for name, winner in pairs.items():
        assert f"the same server as {winner} (" in found[name].detail


def test_the_loser_names_its_winner_and_the_way_out() -> None:
    """Whoever looks for the plugin's server finds who runs in its place, from which file, and what to do."""
    resolved = dedupe(written('user mine {"command":"db"} & plugin p:x {"command":"db"}'), UNWRAP)
    one = off(resolved)["plugin:p:x"]
    assert one.detail == (
        "the same server as mine (user, /0/mcp.json:1 mcpServers.mine), which runs in its place; to use this one, "
        "remove that"
    )
    assert (one.spec.name, one.workspace) == ("plugin:p:x", "")
    assert isinstance(resolved.servers["mine"].outcome, ServerSpec)


def test_only_where_the_winner_is_seen() -> None:
    """A project's server takes a plugin's place for agents of that project alone."""
    resolved = dedupe(written('project mine {"command":"db"} & plugin p:x {"command":"db"}'), UNWRAP)
    assert off(resolved)["plugin:p:x"].workspace == "/w"


def test_who_does_not_run_takes_no_place() -> None:
    """An entry that waits for approval, or is forbidden, must not cost the server that could run."""
    resolved = written('project mine {"command":"db"} & user own {"command":"db"} & plugin p:x {"command":"db"}')
    found = off(dedupe(resolved, UNWRAP, lambda one: one.origin.scope is not Scope.PROJECT))
    assert "the same server as own" in found["plugin:p:x"].detail
    assert off(dedupe(resolved, UNWRAP, lambda one: one.origin.scope is Scope.PLUGIN)) == {}


def test_nothing_that_somebody_brought() -> None:
    """Without plugins and connectors the set is the one that came."""
    resolved = written('user a {"command":"db"} & user b {"command":"db"}')
    assert dedupe(resolved, UNWRAP) is resolved


def test_unwrapping_ends() -> None:
    """A URL that stands for itself for ever is only followed so far."""
    url = "https://proxy.example/?mcp_url=https://proxy.example/"
    assert UNWRAP.url(url) == "https://proxy.example/"
    assert Unwrap().url(url) == url
    assert Unwrap(("proxy.example",), "u").url("https://proxy.example/?u=https://s/") == "https://s/"
    assert UNWRAP.url("https://[bad") == "https://[bad"


ENTRIES = st.fixed_dictionaries(
    {"command": st.sampled_from(["a", "b"])},
    optional={"args": st.lists(st.sampled_from(["x", "y"]), max_size=1),
              "env": st.dictionaries(st.sampled_from("ST"), st.sampled_from("12"), max_size=2)},
)  # fmt: skip
MANY = st.lists(st.tuples(st.sampled_from([Scope.USER, Scope.PLUGIN, Scope.WEBAPP]), ENTRIES), max_size=8)


@given(MANY)
def test_what_is_off_has_a_winner_that_runs(servers: list[tuple[Scope, dict[str, object]]]) -> None:
    """C009: a person's server is never off; each that is has the same signature and account as one that runs; and no
    two of those that are left are the same with nothing to tell them apart, unless a person wrote both."""
    order = [Scope.USER, Scope.PLUGIN, Scope.WEBAPP]
    servers = sorted(servers, key=lambda one: order.index(one[0]))
    layers = [layer(scope, f"s{number}", entry, number) for number, (scope, entry) in enumerate(servers)]
    before = resolve(layers, CONTEXT)
    after = dedupe(before, UNWRAP)
    gone = off(after)
    assert all(before.servers[name].origin.scope is not Scope.USER for name in gone)
    left = [one for name, one in after.servers.items() if name not in gone]
    for name, one in gone.items():
        loser = before.servers[name]
        [winner] = [other for other in left if f"the same server as {other.name} (" in one.detail]
        assert winner.spec is not None and same_account(loser, winner)
        assert winner.spec.transport.command == one.spec.transport.command  # type: ignore[union-attr]
        assert winner.spec.transport.args == one.spec.transport.args  # type: ignore[union-attr]
    assert dedupe(after, UNWRAP) == after

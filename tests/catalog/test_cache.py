"""What the catalog remembers, and when it looks again."""

from __future__ import annotations

from typing import Any

from mcphub.catalog.cache import Catalog
from mcphub.connection.faults import Fault, FaultKind
from mcphub.connection.machine import Connected, Pending, State
from mcphub.connection.worker import View
from mcphub.spec import InProcessSpec, InstanceKey, Origin, Scope, ServerSpec

UP, DOWN = Connected(0.0), Pending(1, 5.0, Fault(FaultKind.LOST, "serve", "gone"))


def view(name: str, *tools: bytes, state: State = UP, listed: int = 1, **fields: Any) -> View:
    spec = ServerSpec(name, Origin(Scope.USER, "/u/mcp.json", name), InProcessSpec(name), **fields)
    return View(spec.key(), spec, state, None, tools, listed, None)


def tool(name: str) -> bytes:
    return b'{"name":"%b","inputSchema":{"type":"object"}}' % name.encode()


def given(*views: View) -> tuple[dict[str, InstanceKey], dict[InstanceKey, View]]:
    return {v.spec.name: v.key for v in views}, {v.key: v for v in views}


def test_the_same_object_while_nothing_changes() -> None:
    """C185: a toolset is merged once, however often and by however many agents it is asked for."""
    catalog = Catalog()
    a, b = view("a", tool("x")), view("b", tool("y"), state=DOWN)
    toolset = catalog.toolset("", *given(a, b))
    assert list(toolset.routes) == ["mcp__a__x", "mcp__b__y"]
    again = view("a", *a.tools, listed=7)
    assert catalog.toolset("", *given(again, b)) is toolset
    # Whether a server is connected changes how long the list may be kept, not the list.
    assert catalog.toolset("", *given(again, view("b", *b.tools))) is toolset
    assert catalog.toolset("/w", *given(a, b)) is not toolset


def test_another_list_is_another_toolset() -> None:
    """C090: new tools, and a server that comes or goes, are seen at once; one that is lost keeps its tools."""
    catalog = Catalog()
    first = catalog.toolset("", *given(view("a", tool("x"))))
    # The first list of a worker that was started again counts as its first, too.
    second = catalog.toolset("", *given(view("a", tool("z"))))
    assert list(second.routes) == ["mcp__a__z"]
    third = catalog.toolset("", *given(view("a", tool("z"), state=DOWN)))
    assert third.pages == second.pages
    assert list(catalog.toolset("", *given(view("a", tool("x")), view("b", tool("x")))).routes) == [
        "mcp__a__x",
        "mcp__b__x",
    ]
    assert catalog.toolset("", *given(view("a", tool("x")))).pages == first.pages


def test_a_name_that_nothing_runs_for() -> None:
    """A configured name counts for the names of others, though it has no instance."""
    catalog = Catalog()
    a = view("a", tool("b__c"))
    visible, views = given(a)
    (alone,) = catalog.toolset("", visible, views).routes
    (hashed,) = catalog.toolset("", {**visible, "a__b": InstanceKey("a__b", "d")}, views).routes
    assert alone == "mcp__a__b__c"
    assert hashed.startswith("mcp__a__b__c_")


def test_tools_that_the_entry_hides() -> None:
    """Enabled tools are the only ones; disabled ones are hidden in any case; none enabled means none."""
    catalog = Catalog()
    tools = (tool("x"), tool("y"), tool("z"))

    def shown(**fields: Any) -> list[str]:
        return [d.name for d in catalog.definitions(view("a", *tools, **fields))[0]]

    assert shown() == ["x", "y", "z"]
    assert shown(enabled_tools=("x", "y", "gone")) == ["x", "y"]
    assert shown(enabled_tools=()) == []
    assert shown(disabled_tools=("y",)) == ["x", "z"]
    assert shown(enabled_tools=("x", "y"), disabled_tools=("y",)) == ["x"]


def test_hidden_tools_clash_with_nobody() -> None:
    """C141: a tool that is hidden does not change the name of one that is shown."""
    catalog = Catalog()
    shown = view("a", tool("get.file"), tool("get_file"), disabled_tools=("get.file",))
    assert list(catalog.toolset("", *given(shown)).routes) == ["mcp__a__get_file"]


def test_definitions_are_read_once_a_list() -> None:
    """C185: the same list is not read again; warnings stay with it."""
    catalog = Catalog()
    a = view("a", b'{"name":"x"}')
    definitions, warnings = catalog.definitions(a)
    assert warnings == ("tool x: inputSchema has no type, taken as an object",)
    assert catalog.definitions(a)[0] is definitions


def test_what_is_gone_is_forgotten() -> None:
    """C090: five hundred instances and workspaces that came and went leave nothing behind."""
    catalog = Catalog()
    for i in range(500):
        visible, views = given(view("a", tool("x"), workspace=f"/w{i}"))
        catalog.toolset(f"/w{i}", visible, views)
        catalog.forget(views, {f"/w{i}"})
    assert len(catalog._read) == len(catalog._merged) == 1
    kept = catalog.toolset("/w499", visible, views)
    catalog.forget(views, {"/w499"})
    assert catalog.toolset("/w499", visible, views) is kept
    catalog.forget({}, set())
    assert not catalog._read
    assert not catalog._merged


def test_the_limit_on_names() -> None:
    """C142: the limit that was set is the one that is used."""
    (name,) = Catalog(24).toolset("", *given(view("a", tool("x" * 40)))).routes
    assert len(name) == 24

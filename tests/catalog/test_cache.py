"""What the catalog remembers, and when it looks again."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from mcphub.catalog.cache import Catalog
from mcphub.connection.faults import Fault, FaultKind
from mcphub.connection.handshake import Facts
from mcphub.connection.machine import Connected, Pending, State
from mcphub.connection.view import View
from mcphub.policy.rules import AllowList, ToolRule
from mcphub.policy.tools import ToolRules
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
    """C185, K2.1: a toolset is merged once, however often and by however many agents it is asked for."""
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


def test_what_a_call_has_shown() -> None:
    """It is said of this list, once, beside what the list itself says; the tools stay the same objects."""
    catalog = Catalog()
    a = view("a", b'{"name":"x"}')
    toolset, (before, own) = catalog.toolset("", *given(a)), catalog.definitions(a)
    assert [catalog.warn(a, text) for text in ("one", "one", "two")] == [True, False, True]
    assert catalog.definitions(a)[1] == (*own, "one", "two") and catalog.definitions(a)[0] is before
    assert catalog.toolset("", *given(a)) is toolset
    assert catalog.warn(changed := view("a", b'{"name":"y","inputSchema":{"type":"object"}}', listed=2), "one")
    assert catalog.definitions(changed)[1] == ("one",)


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


def test_what_was_taken_out_beside_the_tools_is_said() -> None:
    """C175: characters that nobody is shown are counted for prompts, resources and instructions too."""
    catalog = Catalog()
    facts = Facts("legacy", "2025-11-25", {}, {}, "hello\x1b[8m\U000e0041")
    shelf = {"prompts/list": (b'{"name":"p","description":"a\\u001bb"}',)}
    a = msgspec.structs.replace(view("a", tool("x")), facts=facts, shelf=shelf)
    assert catalog.unclean(a) == (
        "1 control characters removed from its prompts and resources",
        "2 control characters removed from its instructions",
    )
    assert catalog.unclean(view("b", tool("x"))) == ()
    catalog.forget({}, set())
    assert not catalog._unclean


def test_a_name_in_a_view_of_one_server() -> None:
    """C175: there a tool has the server's own name, without what nobody is shown."""
    catalog = Catalog()
    a = view("a", b'{"name":"se\\u001bnd","inputSchema":{"type":"object"}}')
    routes = catalog.toolset("", *given(a), "a").routes
    assert [(exposed, route.definition.name) for exposed, route in routes.items()] == [("send", "se\x1bnd")]


HERE = Origin(Scope.MANAGED, "/etc/rules.json", "deniedTools[0]", 3)


def test_tools_that_policy_takes_away() -> None:
    """A tool that is denied is not listed, for a reason that names rule and file, and comes back with the rule's end;
    what did not change stays the same object."""
    catalog = Catalog()
    a, b = view("a", tool("read"), tool("write")), view("b", tool("write"))
    visible, views = given(a, b)
    before = catalog.toolset("", visible, views)
    rules = ToolRules(denied=(ToolRule("a", "wr*", HERE),))
    catalog.govern(rules)
    after = catalog.toolset("", visible, views)
    assert list(after.routes) == ["mcp__a__read", "mcp__b__write"]
    catalog.govern(ToolRules(denied=rules.denied))
    assert catalog.toolset("", visible, views) is after
    why = "denied by the rule 'a/wr*' of /etc/rules.json:3 deniedTools[0]"
    said = f"The tool write of the server a cannot be used: {why}"
    assert catalog.refusal(visible, views, "mcp__a__write") == said
    assert catalog.refusal({"a": a.key}, views, "write", "a") == said
    assert catalog.refusal(visible, views, "mcp__b__write") == ""
    assert catalog.refusal(visible, views, "mcp__a__gone") == ""
    catalog.govern(ToolRules())
    assert catalog.toolset("", visible, views).pages == before.pages


def test_tools_that_policy_leaves() -> None:
    """A list of what is allowed takes away all others, of every server, whatever the entry enables."""
    catalog = Catalog()
    a, b = view("a", tool("x"), tool("y"), enabled_tools=("x", "y")), view("b", tool("x"))
    catalog.govern(ToolRules((AllowList(HERE, tools=(ToolRule("a", "x", HERE),)),)))
    assert list(catalog.toolset("", *given(a, b)).routes) == ["mcp__a__x"]
    assert "not allowed by policy" in catalog.refusal(*given(a, b), "mcp__b__x")


def test_who_calls_a_hidden_tool_is_told_why() -> None:
    """Its entry, or policy: the caller hears which of them, and where it is written."""
    catalog = Catalog()
    a = view("a", tool("x"), tool("\\u001by"), disabled_tools=("x",))
    b = view("b", tool("x"), enabled_tools=())
    both = given(a, b)
    assert catalog.refusal(*both, "mcp__a__x") == (
        "The tool x of the server a cannot be used: switched off by /u/mcp.json a.disabledTools"
    )
    assert "/u/mcp.json b.enabledTools" in catalog.refusal(*both, "mcp__b__x")
    catalog.govern(ToolRules(denied=(ToolRule("*", "*y", HERE),)))
    assert catalog.refusal(*both, "mcp__a___y").startswith("The tool y of the server a cannot be used: denied")


def test_many_hidden_tools_are_searched_quickly() -> None:
    """C185: an agent that calls what is hidden among ten thousand tools and fifty servers stops nobody."""
    catalog = Catalog()
    views = [view(f"s{n}", *(tool(f"t{i}") for i in range(200)), enabled_tools=()) for n in range(50)]
    both = given(*views)
    catalog.toolset("", *both)
    start = time.perf_counter()
    assert "s49.enabledTools" in catalog.refusal(*both, "mcp__s49__t199")
    assert catalog.refusal(*both, "mcp__s49__none") == ""
    assert time.perf_counter() - start < 10


def test_what_is_too_long_beside_the_tools_is_said() -> None:
    """C177: texts of prompts and resources, and instructions."""
    facts = Facts("legacy", "2025-11-25", {}, {}, "i" * 3000)
    shelf = {"prompts/list": (b'{"name":"p","description":"%b"}' % (b"x" * 400),)}
    a = msgspec.structs.replace(view("a", tool("x")), facts=facts, shelf=shelf)
    assert Catalog(text_length=300).unclean(a) == (
        "1 texts of its prompts and resources are cut to 300 characters",
        "its instructions are cut from 3000 to 2000 characters",
    )
    library = Catalog(text_length=300).library("", *given(a))
    assert b" [cut]" in library.pages["prompts/list"].pages[0].modern


def test_what_is_said_of_other_servers_tools() -> None:
    """C177: a description or instructions that speak of another server's tools are flagged, and listed."""
    facts = Facts("legacy", "2025-11-25", {}, {}, "Use mcp__b__send last.")
    told = b'"description":"Before mcp__b__x%d call mcp__a__t%d.","name"'
    tools = [tool(f"t{n}").replace(b'"name"', told % (n, n)) for n in range(5)]
    a = msgspec.structs.replace(view("a", *tools), facts=facts)
    catalog = Catalog()
    listed, warnings = catalog.definitions(a)
    assert len(listed) == 5
    assert warnings == (
        "descriptions of its tools (t0, t1, t2 and 2 more) speak of tools that other servers may have: mcp__b__x0, "
        "mcp__b__x1, mcp__b__x2 and 2 more",
    )
    assert catalog.unclean(a) == ("its instructions speak of tools that other servers may have: mcp__b__send",)

"""Merged toolsets: routes, rendered lists, stability."""

from __future__ import annotations

import json
import random
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from mcp_types.methods import validate_server_result

from mcphub.catalog.definition import read_definitions
from mcphub.catalog.toolset import Offer, Toolset, merge
from mcphub.spec import InstanceKey

OBJECT = {"type": "object"}


def offer(server: str, *tools: str | dict[str, Any], digest: str = "d") -> Offer:
    raw = [t if isinstance(t, dict) else {"name": t, "inputSchema": OBJECT} for t in tools]
    definitions, _ = read_definitions(tuple(json.dumps(t).encode() for t in raw))
    return Offer(InstanceKey(server, digest), definitions)


def result(toolset: Toolset, *, modern: bool) -> Any:
    """The whole list as a result, from all its pages."""
    pages = toolset.pages
    items = b",".join(page.modern if modern else page.legacy for page in pages.pages.values())
    caching = b',"ttlMs":0,"cacheScope":"private"' if modern else b""
    return json.loads(pages.head(modern) + items + b"]" + caching + b"}")


def names(toolset: Toolset) -> list[str]:
    """The names of the list, checked to be the same in both eras and in the routes."""
    modern = result(toolset, modern=True)
    legacy = result(toolset, modern=False)
    validate_server_result("tools/list", "2026-07-28", modern)
    validate_server_result("tools/list", "2025-11-25", legacy)
    assert legacy.keys() == {"tools"}
    found = [t["name"] for t in modern["tools"]]
    assert [t["name"] for t in legacy["tools"]] == found == list(toolset.routes)
    return found


def test_the_empty_toolset() -> None:
    """Nothing configured is a list like any other."""
    assert names(Toolset()) == []
    assert names(merge([], [])) == []
    assert names(merge([offer("a")], ["a", "b"])) == []


def test_routes_lead_back() -> None:
    """C139, C143: a name leads to its server and to the name that the server itself uses."""
    toolset = merge([offer("b", "x"), offer("a", 'q"\u6f22', "b__c"), offer("a__b", "c")], ["a", "a__b", "b"])
    found = {(r.key.name, r.definition.name): r for r in toolset.routes.values()}
    assert found.keys() == {("b", "x"), ("a", 'q"\u6f22'), ("a", "b__c"), ("a__b", "c")}
    assert toolset.routes["mcp__a__b__c"].key.name == "a__b"
    assert json.loads(found["a", 'q"\u6f22'].quoted) == 'q"\u6f22'
    assert all(toolset.routes[r.exposed] is r for r in found.values())


def test_a_view_of_one_server() -> None:
    """Without a prefix, tools have the names that their server gives them, however long; routes lead back."""
    long = "t" * 128
    toolset = merge([offer("a", "x.y", "b__c", long)], ["a"], prefixed=False)
    assert names(toolset) == ["b__c", long, "x.y"]
    assert toolset.routes["x.y"].exposed == toolset.routes["x.y"].definition.name == "x.y"


def test_order() -> None:
    """C145: servers by name, their tools by name, in every order in which they connect or list."""
    offers = [offer("b", "x", "a"), offer("a", "z", "m"), offer("c", "q")]
    toolset = merge(offers, ["a", "b", "c"])
    assert names(toolset) == ["mcp__a__m", "mcp__a__z", "mcp__b__a", "mcp__b__x", "mcp__c__q"]
    again = merge([offer("c", "q"), offer("a", "m", "z"), offer("b", "a", "x")], ["c", "b", "a"])
    assert again.pages == toolset.pages


def test_names_do_not_wait_for_who_connects() -> None:
    """C145: the names of one server are the same before the other one, which makes them clash, has ever connected."""
    servers = ["a", "a__b"]
    alone = names(merge([offer("a", "b__c", "d")], servers))
    both = names(merge([offer("a", "b__c", "d"), offer("a__b", "c")], servers))
    assert [n for n in both if n != "mcp__a__b__c"] == alone


def test_eras_differ_where_they_must() -> None:
    """An output schema that is no object is for modern agents only."""
    toolset = merge([offer("a", {"name": "x", "inputSchema": OBJECT, "outputSchema": {"type": "array"}}, "y")], ["a"])
    names(toolset)
    assert "outputSchema" in result(toolset, modern=True)["tools"][0]
    assert "outputSchema" not in result(toolset, modern=False)["tools"][0]


def test_pages() -> None:
    """A list of more bytes than a page may have comes in several, which together are the same list."""
    offers = [offer("a", *(f"t{i:03}" for i in range(100))), offer("b", "x")]
    whole, paged = merge(offers, ["a", "b"]), merge(offers, ["a", "b"], page_bytes=1024)
    assert len(whole.pages.pages) == 1 and len(paged.pages.pages) > 3
    assert names(paged) == names(whole)
    assert paged.digest == whole.digest


def test_the_digest_is_of_what_agents_see() -> None:
    """Another process behind the same tools is no change; another description is."""
    first = merge([offer("a", "x")], ["a"])
    assert merge([offer("a", "x", digest="other")], ["a"]).digest == first.digest
    assert merge([offer("a", {"name": "x", "inputSchema": OBJECT, "description": "d"})], ["a"]).digest != first.digest
    assert merge([offer("b", "x")], ["b"]).digest != first.digest


def test_max_length() -> None:
    """C142: the limit on names is a setting."""
    (name,) = names(merge([offer("a", "x" * 40)], ["a"], 24))
    assert re.fullmatch(r"mcp__a__x{9}_[0-9a-f]{6}", name)


@given(
    st.dictionaries(
        st.text("ab_", min_size=1, max_size=3),
        st.lists(st.text("ab_.", min_size=1, max_size=3), unique=True, max_size=3),
        max_size=4,
    ),
    st.randoms(use_true_random=False),
)
def test_every_tool_is_there_once_whatever_the_order(tools: dict[str, list[str]], chance: random.Random) -> None:
    """C139, C145: no tool is lost or doubled by a clash, and the order of connecting changes no byte."""
    offers = [offer(s, *t) for s, t in tools.items()]
    toolset = merge(offers, list(tools))
    assert {(r.key.name, r.definition.name) for r in toolset.routes.values()} == {
        (s, t) for s in tools for t in tools[s]
    }
    names(toolset)
    chance.shuffle(offers)
    assert merge(offers, list(tools)).pages == toolset.pages

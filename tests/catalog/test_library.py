"""The merged prompts, resources and templates of one view."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.catalog.library import (
    MAX_ITEMS,
    MAX_TEMPLATES,
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    Lead,
    Library,
    Shelf,
    merge,
    overlong,
    unclean,
)
from mcphub.protocol.content import ORIGINAL_KEY
from mcphub.spec import InstanceKey

A, B = InstanceKey("a", "1"), InstanceKey("b", "2")


def shelf(key: InstanceKey, **lists: list[Any]) -> Shelf:
    methods = {"prompts": PROMPTS, "resources": RESOURCES, "templates": TEMPLATES}
    raw = {
        methods[kind]: tuple(item if isinstance(item, bytes) else json.dumps(item).encode() for item in items)
        for kind, items in lists.items()
    }
    return Shelf(key, raw)


def merged(*shelves: Shelf, prefixed: bool = True) -> Library:
    return merge(shelves, [s.key.name for s in shelves], prefixed=prefixed)


def items(library: Library, method: str, modern: bool = False) -> Any:
    pages = library.pages[method]
    found = b",".join(page.modern if modern else page.legacy for page in pages.pages.values())
    result = json.loads(pages.head(modern) + found + b"]}")
    return result[{PROMPTS: "prompts", RESOURCES: "resources", TEMPLATES: "resourceTemplates"}[method]]


def test_prompts_are_named_like_tools() -> None:
    """Servers by name, each in its own order; each name leads back."""
    library = merged(
        shelf(B, prompts=[{"name": "p", "title": "P\x00"}]), shelf(A, prompts=[{"name": "z"}, {"name": "p"}])
    )
    assert [item["name"] for item in items(library, PROMPTS)] == ["mcp__a__z", "mcp__a__p", "mcp__b__p"]
    assert library.prompts["mcp__a__p"] == Lead(A, "p") and library.prompts["mcp__b__p"] == Lead(B, "p")
    assert items(library, PROMPTS)[2]["title"] == "P"


def test_prompt_names_that_clash() -> None:
    """Two that fall on one name are both listed, under names of their own, the same in every order."""
    prompts = [{"name": "x.y"}, {"name": "x_y"}, {"name": "漢" * 300}, {"name": "p" * 300}]
    library = merged(shelf(A, prompts=prompts))
    names = [item["name"] for item in items(library, PROMPTS)]
    assert len(set(names)) == 4 and all(len(name) <= 64 for name in names)
    assert [library.prompts[name].original for name in names] == [p["name"] for p in prompts]
    again = merged(shelf(A, prompts=list(reversed(prompts))))
    assert sorted(item["name"] for item in items(again, PROMPTS)) == sorted(names)


def test_one_uri_of_two_servers() -> None:
    """B54, B56: both are listed; each exposed URI leads to its own server, the raw one to both."""
    item = {"uri": "file:///a", "name": "n", "_meta": {"x": 1}}
    library = merged(shelf(A, resources=[item]), shelf(B, resources=[item, {"uri": "file:///b", "name": "b"}]))
    listed = items(library, RESOURCES)
    assert [one["uri"] for one in listed] == [
        "mcphub://a/file:///a",
        "mcphub://b/file:///a",
        "mcphub://b/file:///b",
    ]
    assert listed[0]["_meta"] == {"x": 1, ORIGINAL_KEY: "file:///a"}
    assert library.find("mcphub://a/file:///a") == (Lead(A, "file:///a"),)
    assert library.find("file:///a") == (Lead(A, "file:///a"), Lead(B, "file:///a"))
    assert library.find("file:///b") == (Lead(B, "file:///b"),)
    assert library.find("mcphub://a/anything not listed") == (Lead(A, "anything not listed"),)
    assert library.find("file:///c") == library.find("mcphub://c/file:///a") == ()


def test_a_raw_uri_that_a_template_explains() -> None:
    """It leads to the servers whose templates may have made it; a listed URI counts more."""
    library = merged(
        shelf(A, templates=[{"uriTemplate": "t://{id}/x", "name": "t"}, {"uriTemplate": "t://{+all}", "name": "u"}]),
        shelf(B, templates=[{"uriTemplate": "t://{id}/{rest}"}], resources=[{"uri": "t://1/x", "name": "n"}]),
    )
    assert [one["uriTemplate"] for one in items(library, TEMPLATES)][0] == "mcphub://a/t://{id}/x"
    assert items(library, TEMPLATES)[0]["_meta"][ORIGINAL_KEY] == "t://{id}/x"
    assert library.find("t://1/x") == (Lead(B, "t://1/x"),)
    assert library.find("t://2/x") == (Lead(A, "t://2/x"), Lead(B, "t://2/x"))
    assert library.find("t://2/3/4") == (Lead(A, "t://2/3/4"),)
    # Expanding the exposed template is exposing the expanded one.
    assert library.find("mcphub://b/t://5/x") == (Lead(B, "t://5/x"),)


def test_ui_resources() -> None:
    """Their scheme stays in front; a raw one that looks exposed leads to whoever lists it."""
    library = merged(
        shelf(A, resources=[{"uri": "ui://page", "name": "n"}, {"uri": "ui://b/page", "name": "n"}]),
        shelf(B, resources=[{"uri": "ui://other", "name": "n"}]),
    )
    assert [one["uri"] for one in items(library, RESOURCES)] == ["ui://a/page", "ui://a/b/page", "ui://b/other"]
    assert library.find("ui://a/page") == (Lead(A, "ui://page"),)
    assert library.find("ui://b/other") == (Lead(B, "ui://other"),)
    assert library.find("ui://b/page") == (Lead(A, "ui://b/page"),)
    assert library.find("ui://b/sub/page") == (Lead(B, "ui://sub/page"),)


def test_a_view_of_one_server() -> None:
    """It has the server's own names and URIs; anything is the server's to answer."""
    library = merged(
        shelf(A, prompts=[{"name": "p.q"}], resources=[{"uri": "x:1", "name": "n"}]),
        prefixed=False,
    )
    assert items(library, PROMPTS) == [{"name": "p.q"}]
    assert items(library, RESOURCES) == [{"uri": "x:1", "name": "n"}]
    assert library.find("whatever") == (Lead(A, "whatever"),)
    assert library.expose("a", "x:1") == "x:1"
    assert Library(prefixed=False).find("x") == ()


def test_pages() -> None:
    """A list of more bytes than a page may have comes in several, which together are the same list."""
    shelves = [shelf(A, resources=[{"uri": f"x:{n}"} for n in range(100)])]
    whole, paged = merge(shelves, ["a"]), merge(shelves, ["a"], page_bytes=1024)
    assert len(whole.pages[RESOURCES].pages) == 1 and len(paged.pages[RESOURCES].pages) > 3
    for modern in (False, True):
        assert items(paged, RESOURCES, modern) == items(whole, RESOURCES, modern)
    assert paged.digests == whole.digests


def test_equal_inputs_give_equal_bytes() -> None:
    """B61: whichever server is first, and digests change with the list they belong to alone."""
    a, b = shelf(A, prompts=[{"name": "p"}]), shelf(B, resources=[{"uri": "x:1"}])
    one, two = merged(a, b), merged(b, a)
    assert one.pages == two.pages and one.digests == two.digests
    other = merged(a, shelf(B, resources=[{"uri": "x:2"}]))
    assert other.digests[PROMPTS] == one.digests[PROMPTS] and other.digests[RESOURCES] != one.digests[RESOURCES]


@pytest.mark.parametrize(
    "odd",
    [
        b"5",
        b"null",
        b"[]",
        b'"x"',
        b"{}",
        b'{"name":5,"uri":5,"uriTemplate":5}',
        b'{"name":"","uri":"","uriTemplate":""}',
        b'{"name":null,"uri":null,"uriTemplate":null}',
        b'{"name":["x"],"uri":{},"uriTemplate":[]}',
        b'{"name":"\\ud800","uri":"\\ud800","uriTemplate":"\\ud800"}',
        b'{"name":"x","uri":"x","uriTemplate":"x","y":' + b"[" * 3000 + b"]" * 3000 + b"}",
        b"not json",
        b"",
    ],
)
def test_an_item_that_is_none(odd: bytes) -> None:
    """It is left out; the next one is there."""
    good = {"name": "n", "uri": "x:1", "uriTemplate": "x:{a}"}
    library = merged(shelf(A, prompts=[odd, good], resources=[odd, good], templates=[odd, good]))
    for method in (PROMPTS, RESOURCES, TEMPLATES):
        assert len(items(library, method)) == 1


def test_members_of_the_wrong_type() -> None:
    """Texts that are none are left out, null is as if it were not there, `_meta` that is no object is ours alone."""
    library = merged(shelf(A, resources=[{"uri": "x:1", "name": "n", "title": 5, "description": None, "_meta": [1]}]))
    [item] = items(library, RESOURCES)
    assert item == {"uri": "mcphub://a/x:1", "name": "n", "_meta": {ORIGINAL_KEY: "x:1"}}


def test_a_name_twice() -> None:
    """The first of one server's counts."""
    twice = [{"uri": "x:1", "name": "first"}, {"uri": "x:1", "name": "second"}]
    [item] = items(merged(shelf(A, resources=twice)), RESOURCES)
    assert item["name"] == "first"


def test_more_than_anybody_can_use() -> None:
    """Lists have an end, and so have the templates that a raw URI is compared with."""
    library = merged(
        shelf(
            A,
            resources=[{"uri": f"x:{n}"} for n in range(MAX_ITEMS + 5)],
            templates=[{"uriTemplate": f"y{n}:{{+a}}"} for n in range(MAX_TEMPLATES + 5)],
        )
    )
    assert len(items(library, RESOURCES)) == MAX_ITEMS
    assert len(items(library, TEMPLATES)) == MAX_TEMPLATES + 5
    assert library.find(f"y{MAX_TEMPLATES - 1}:z") != () and library.find(f"y{MAX_TEMPLATES}:z") == ()


def test_unclean_characters_are_removed_and_counted() -> None:
    """C175: names and descriptions of resources, prompts and their arguments are as clean as those of tools."""
    evil, tidy = "a\x1b[8m\x9b\U000e0041b", "a[8mb"
    prompt = {"name": "p", "description": evil, "arguments": [{"name": "x", "description": evil, "title": evil}]}
    resource = {"uri": "file:///a", "name": evil, "title": evil}
    lists = {PROMPTS: (json.dumps(prompt).encode(),), RESOURCES: (json.dumps(resource, ensure_ascii=False).encode(),)}
    library = merge([Shelf(InstanceKey("s", "d"), lists)], ["s"])
    [shown] = json.loads(b"[" + library.pages[PROMPTS].pages[0].modern + b"]")
    assert (shown["description"], shown["arguments"]) == (tidy, [{"name": "x", "description": tidy, "title": tidy}])
    [shown] = json.loads(b"[" + library.pages[RESOURCES].pages[0].modern + b"]")
    assert (shown["name"], shown["title"]) == (tidy, tidy)
    assert unclean(lists) == 5 * 3
    assert unclean({PROMPTS: (b'{"name":"p","description":"d\\n"}', b"{\x7f"), RESOURCES: ()}) == 0
    alone = merge([Shelf(InstanceKey("s", "d"), {PROMPTS: (b'{"name":"p\\u001bq"}',)})], ["s"], prefixed=False)
    assert list(alone.prompts) == ["pq"] and alone.prompts["pq"].original == "p\x1bq"


def test_long_texts_are_cut() -> None:
    """C177: titles and descriptions, those of a prompt's arguments too; names and URIs stay whole."""
    long = "x" * 400
    prompt = {"name": long, "description": long, "arguments": [{"name": long, "description": long}]}
    resource = {"uri": f"file:///{long}", "name": long, "title": long}
    lists = {PROMPTS: (json.dumps(prompt).encode(),), RESOURCES: (json.dumps(resource).encode(),)}
    library = merge([Shelf(InstanceKey("s", "d"), lists)], ["s"], limit=300, prefixed=False)
    short = "x" * 294 + " [cut]"
    [shown] = json.loads(b"[" + library.pages[PROMPTS].pages[0].modern + b"]")
    assert shown == {"name": long, "description": short, "arguments": [{"name": long, "description": short}]}
    [shown] = json.loads(b"[" + library.pages[RESOURCES].pages[0].modern + b"]")
    assert shown == {"uri": f"file:///{long}", "name": long, "title": short}
    assert (overlong(lists, 300), overlong(lists, 400), overlong({PROMPTS: (b"{" * 400,)}, 300)) == (3, 0, 0)

"""Exposed names: safe, unique, stable."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.catalog.naming import exposed_names, may_be_exposed_as

SAFE = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def names(server: str, *tools: str, servers: tuple[str, ...] = ()) -> list[str]:
    return exposed_names(server, tools, servers or (server,))


def hashed(name: str, stem: str, digits: int = 6) -> bool:
    return re.fullmatch(re.escape(stem) + rf"_[0-9a-f]{{{digits}}}", name) is not None


def test_plain_names() -> None:
    """C143: an ordinary name is the prefix and the name; case is kept."""
    assert names("s", "get", "Get", "a-b", "__proto__", "constructor") == [
        "mcp__s__get",
        "mcp__s__Get",
        "mcp__s__a-b",
        "mcp__s____proto__",
        "mcp__s__constructor",
    ]
    assert names("s", "files/read", "Get File") == ["mcp__s__files_read", "mcp__s__Get_File"]


@pytest.mark.parametrize("tool", ["\u5de5\u5177", "\U0001f642", "_", "...", "/"])
def test_names_of_which_nothing_is_left(tool: str) -> None:
    """C143: a name of nothing but odd characters ends in a hash, alone or not."""
    (alone,) = names("s", tool)
    assert hashed(alone, f"mcp__s__{'_' * len(tool)}")
    assert names("s", "x", tool)[1] == alone


def test_one_sanitised_name_for_several() -> None:
    """C141: all members of a clash end in a hash; the others of the server keep their names, in any order."""
    tools = ["get.file", "get_file", "get/file", "other"]
    found = dict(zip(tools, names("s", *tools), strict=True))
    assert len(set(found.values())) == 4
    assert all(hashed(found[t], "mcp__s__get_file") for t in tools[:3])
    assert found["other"] == "mcp__s__other"
    assert dict(zip(tools[::-1], names("s", *tools[::-1]), strict=True)) == found


def test_two_readings() -> None:
    """C139: where a server a__b exists, a's tool b__c ends in a hash; routing never has to split a name."""
    servers = ("a", "a__b")
    assert names("a__b", "c", servers=servers) == ["mcp__a__b__c"]
    (found,) = names("a", "b__c", servers=servers)
    assert hashed(found, "mcp__a__b__c")
    assert names("a", "b__c", servers=("a", "b")) == ["mcp__a__b__c"]
    assert names("a", "c", servers=servers) == ["mcp__a__c"]
    # The border may lie inside a run of underscores.
    (found,) = names("a", "_b", servers=("a", "a_"))
    assert hashed(found, "mcp__a___b")
    assert names("a_", "b", servers=("a", "a_")) == ["mcp__a___b"]


def test_servers_that_sanitise_to_one() -> None:
    """C141: two servers of one sanitised name keep their tools apart, whichever is asked first."""
    servers = ("my.srv", "my_srv")
    assert len({*names("my.srv", "x", servers=servers), *names("my_srv", "x", servers=servers)}) == 2


def test_long_names() -> None:
    """C142: a long name keeps a readable beginning and ends in a hash of the whole pair."""
    server = "awslabs_billing-cost-management-mcp-server"
    found = names(
        server, "get_detailed_cost_breakdown_by_service", "get_detailed_cost_breakdown_by_region", "x" * 3000, "short"
    )
    assert len(set(found)) == 4
    assert all(SAFE.fullmatch(name) for name in found)
    assert all(name.startswith(f"mcp__{server}__") for name in found)
    assert found[3] == f"mcp__{server}__short"
    (exact,) = names("s", "x" * 56)
    assert exact == "mcp__s__" + "x" * 56
    assert hashed(names("s", "x" * 57)[0], "mcp__s__" + "x" * 49)
    for most in (24, 128):
        assert {len(n) for n in exposed_names("s" * 64, ["x" * 100, "y" * 100], ["s" * 64], most)} == {most}


def test_a_plain_name_that_looks_hashed() -> None:
    """A tool that is named like another one's hash takes nobody's name, in either order."""
    (victim, _) = names("s", "get.file", "get_file")
    forged = victim.removeprefix("mcp__s__")
    tools = ["get.file", "get_file", forged]
    found = dict(zip(tools, names("s", *tools), strict=True))
    assert len(set(found.values())) == 3
    assert hashed(found["get.file"], "mcp__s__get_file", 12)
    assert hashed(found[forged], victim)
    assert dict(zip(tools[::-1], names("s", *tools[::-1]), strict=True)) == found


def test_hashes_that_meet() -> None:
    """Five thousand tools that differ only in odd characters have as many names."""
    tools = [chr(0x4E00 + i) + "x" for i in range(5000)]
    found = names("s", *tools)
    assert len(set(found)) == 5000
    shuffled = tools[:]
    random.Random(7).shuffle(shuffled)
    assert dict(zip(shuffled, names("s", *shuffled), strict=True)) == dict(zip(tools, found, strict=True))


PART = st.text("ab_-.\u6f22", min_size=1, max_size=4)


@given(
    st.dictionaries(st.text("ab_", min_size=1, max_size=4), st.lists(PART, unique=True, max_size=4), max_size=5),
    st.randoms(use_true_random=False),
)
def test_names_are_unique_safe_and_stable(tools: dict[str, list[str]], chance: random.Random) -> None:
    """C139, C141, C145: over all servers no two tools share a name, and no order changes one."""
    servers = list(tools)
    found = {(s, t): n for s in servers for t, n in zip(tools[s], exposed_names(s, tools[s], servers), strict=True)}
    assert len(set(found.values())) == len(found)
    assert all(SAFE.fullmatch(name) for name in found.values())
    chance.shuffle(servers)
    for s in servers:
        mixed = tools[s][:]
        chance.shuffle(mixed)
        assert exposed_names(s, mixed, servers) == [found[s, t] for t in mixed]


@given(st.text(st.characters(), max_size=100), st.text(st.characters(), min_size=1, max_size=300), st.integers(24, 128))
def test_any_text_becomes_a_safe_name(server: str, tool: str, most: int) -> None:
    """C143: whatever a server calls itself and its tool, the name is one that every model API takes."""
    (name,) = exposed_names(server, [tool], [server], most)
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", name)
    assert len(name) <= most


@given(st.text("ab_-.", max_size=80), st.lists(PART, min_size=1, unique=True, max_size=4), st.integers(24, 128))
def test_a_name_that_may_be(server: str, tools: list[str], most: int) -> None:
    """Whatever name a tool got, the quick question whether it may be that tool's is never answered with no."""
    for tool, name in zip(tools, exposed_names(server, tools, [server, server + "_"], most), strict=True):
        assert may_be_exposed_as(server, tool, name, most)
    assert not may_be_exposed_as("a", "x", "mcp__b__x")
    assert not may_be_exposed_as("a", "x", "mcp__a__y")

"""How long a list may be kept."""

from __future__ import annotations

import pytest

from mcphub.protocol.caching import MAX_TTL, UNSAID, Freshness, freshness_members, least, read_freshness, uncached
from mcphub.protocol.jsonrpc import Raw


@pytest.mark.parametrize(
    ("ttl", "seconds"),
    [
        ("0", 0),
        ("5000", 5),
        ("1", 0.001),
        ("86400001", MAX_TTL),
        ("9" * 5000, MAX_TTL),
        ("null", 0),
        ("-1", 0),
        ("-0", 0),
        ("5.5", 0),
        ("1e3", 0),
        ('"5000"', 0),
        ("true", 0),
        ("[5]", 0),
        ("{}", 0),
        ("", 0),
    ],
)
def test_what_a_server_says_of_time(ttl: str, seconds: float) -> None:
    """Whole milliseconds from zero on; what is missing, negative or none is zero, what is too long is cut."""
    assert read_freshness(Raw(ttl.encode()), Raw(b"null"), 100.0) == Freshness(100.0 + seconds)


@pytest.mark.parametrize(
    ("scope", "public"),
    [('"public"', True), ('"private"', False), ('"PUBLIC"', False), ("null", False), ("true", False), ("", False)],
)
def test_what_a_server_says_of_scope(scope: str, public: bool) -> None:
    """Public is only what says so."""
    assert read_freshness(Raw(b"1000"), Raw(scope.encode()), 0.0) == Freshness(1.0, public)


def test_a_list_of_parts() -> None:
    """B57: the shortest time; any private part makes all of it private."""
    long, short, private = Freshness(60.0, True), Freshness(5.0, True), Freshness(60.0)
    assert least([long, short]) == short
    assert least([short, private]) == Freshness(5.0)
    assert least(iter([long])) == long
    assert least([]) == UNSAID


def test_what_agents_are_told() -> None:
    """What is left falls with time and ends at zero; never more than was said, and never a fraction."""
    freshness = Freshness(10.0, True)
    assert freshness_members(freshness, 5.0005) == b'"ttlMs":4999,"cacheScope":"public"'
    assert freshness_members(freshness, 10.0) == b'"ttlMs":0,"cacheScope":"public"'
    assert freshness_members(freshness, 1e9) == b'"ttlMs":0,"cacheScope":"public"'
    assert freshness_members(UNSAID, 1.0) == b'"ttlMs":0,"cacheScope":"private"'


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (b'{"contents":[],"ttlMs":60000,"cacheScope":"public"}', b'{"contents":[],"ttlMs":0,"cacheScope":"private"}'),
        (b'{"x":1e400,"contents":[ 1 ]}', b'{"x":1e400,"contents":[ 1 ],"ttlMs":0,"cacheScope":"private"}'),
        (b'{"resultType":"input_required","ttlMs":5}', b'{"resultType":"input_required","ttlMs":5}'),
        (b"[1]", b"[1]"),
        (b"{", b"{"),
    ],
)
def test_what_nobody_may_keep(result: bytes, said: bytes) -> None:
    """B58: what was read is given with no time and for nobody else; the rest keeps its bytes, and so does what is no
    such result."""
    assert uncached(result) == said

"""Which URIs a template may have made."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.protocol.uri_template import MAX_LENGTH, read_template


@pytest.mark.parametrize(
    ("template", "uri", "matches"),
    [
        ("file:///a", "file:///a", True),
        ("file:///a", "file:///ab", False),
        ("test://{id}/data", "test://7/data", True),
        ("test://{id}/data", "test:///data", True),
        ("test://{id}/data", "test://7/8/data", False),
        ("test://{id}/data", "test://7/dat", False),
        ("test://{id}", "test://7?x", False),
        ("test://{id:3}", "test://abc", True),
        ("test://{a,b}", "test://1,2", True),
        ("test://{a*}", "test://1,2", True),
        ("test://{+path}", "test://a/b?c#d", True),
        ("test://x{#frag}", "test://x#a/b", True),
        ("test://x{.ext}", "test://x.txt", True),
        ("test://x{.ext}", "test://x/txt", False),
        ("test://x{/part*}", "test://x/a/b", True),
        ("test://x{/part}", "test://x?a", False),
        ("test://x{;p}", "test://x;p=1", True),
        ("test://x{?q}", "test://x?q=a/b", True),
        ("test://x{?q}", "test://x", True),
        ("test://x{?q}", "test://x?q=1#f", False),
        ("test://x?a=1{&q}", "test://x?a=1&q=2", True),
        ("test://{a}{b}", "test://12", True),
        ("test://{a}{+b}", "test://1/2", True),
        ("{+all}", "any thing \U0001f600", True),
        ("{+all}", "", True),
        ("test://{a", "test://{a", True),
        ("test://{a{b}", "test://{a9", True),
        ("a}b", "a}b", True),
        ("a.c", "abc", False),
        ("", "", True),
        ("", "x", False),
        ("漢{x}字", "漢漢字字", True),
    ],
)
def test_every_operator(template: str, uri: str, matches: bool) -> None:
    """Each operator of RFC 6570 stands for what its expansion can hold; what is no expression for itself."""
    assert read_template(template).matches(uri) is matches


@given(st.text("ab{}+x/", max_size=24), st.text("abx/{}", max_size=12))
def test_as_the_regular_expression_would(template: str, uri: str) -> None:
    """The answer is that of the plain translation to a regular expression."""
    pattern = ""
    at = 0
    for found in re.finditer(r"\{[^{}]*\}", template):
        pattern += re.escape(template[at : found.start()])
        pattern += ".*" if found.group()[1:2] == "+" else "[^?#]*" if found.group()[1:2] == "/" else "[^/?#]*"
        at = found.end()
    # Expressions that touch are one, which holds whatever either may: the order inside does not count.
    if "}{" not in template:
        assert read_template(template).matches(uri) is bool(re.fullmatch(pattern + re.escape(template[at:]), uri))


@pytest.mark.parametrize(
    "template", ["{+a}x" * 400, "{+a}x" * 400 + "y", "{a}{+b}" * 250, "{" * 2000, "a{b}" * 500, "}" * 2000]
)
def test_time_grows_with_the_uri_only(template: str) -> None:
    """A template that would keep a regular expression busy for ever is answered at once."""
    ready = read_template(template)
    began = time.perf_counter()
    for uri in ("x" * MAX_LENGTH, "a" * MAX_LENGTH, "ax" * (MAX_LENGTH // 2 - 1) + "b", "ab" * (MAX_LENGTH // 2)):
        ready.matches(uri)
    assert time.perf_counter() - began < 10


def test_what_is_too_long_matches_nothing() -> None:
    """Neither a huge template nor a huge URI is looked at."""
    assert not read_template("a" * (MAX_LENGTH + 1)).matches("a" * (MAX_LENGTH + 1))
    assert not read_template("{+a}" * 1_000_000).matches("x")
    assert not read_template("{+a}").matches("x" * (MAX_LENGTH + 1))

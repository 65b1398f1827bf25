"""A URL as policy compares it. What patterns make of it is in tests/data/policy/urls.txt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.policy.location import ascii_hosts, canonical_host, normal_path, read_location


def test_parts() -> None:
    """Each part in one form."""
    found = read_location("HTTPS://user:pw@Ok.Example.:0443/a%7Eb/%c3%a9?x=%41#frag")
    assert found is not None
    assert (found.scheme, found.host, found.port) == ("https", "ok.example", 443)
    assert (found.path, found.query, found.plain) == ("/a~b/%C3%A9", "x=A", True)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("127.1", "127.0.0.1"), ("0x7F000001", "127.0.0.1"), ("017700000001", "127.0.0.1"), ("1.2.3", "1.2.0.3"),
        ("0", "0.0.0.0"), ("4294967295", "255.255.255.255"), ("4294967296", None), ("1.256.1", None), ("08", None),
        ("0x", "0.0.0.0"), ("1.2.3.4.5", None), ("a.1", None), ("1a", "1a"), ("a_b.c-d", "a_b.c-d"), ("-a", None),
        ("a" * 64, None), ("a." * 126 + "a", "a." * 126 + "a"), ("a." * 126 + "ab", None), ("", None), (".", None),
        ("a..b", None), ("a%41", None), ("[::1]", "[::1]"), ("[::FFFF:1.2.3.4]", "1.2.3.4"), ("[::1%1]", None),
        ("[1.2.3.4]", None), ("é", "xn--9ca"), ("xn--9ca", "xn--9ca"), ("ß", None), ("\u2488com", None),
    ],
)  # fmt: skip
def test_hosts(text: str, host: str | None) -> None:
    """An address has one form however it is written; what is no host for certain is none."""
    assert canonical_host(text) == host


def test_names_that_two_standards_read_differently() -> None:
    """IDNA 2003 and 2008 do not agree about sharp s: both names are known, and neither is certain."""
    assert ascii_hosts("faß.example") == {"fass.example", "xn--fa-hia.example"}
    assert ascii_hosts("\ud800") == frozenset()


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("/a/b", True), ("/a/b/", True), ("/a/./b", False), ("/a/../b", False), ("/a//b", False),
        ("/.well-known/x", True),
        ("/..x/y", True), ("/a;b", False), ("/a%2fb", False), ("/a%5Cb", False), ("/a%2520", False), ("/a%20b", True),
        ("/a%", False), ("/a%4", False), ("/%2e%2e/b", False), ("/a%00b", True), ("/a%3Fb", False),
    ],
)  # fmt: skip
def test_paths_with_one_reading(path: str, plain: bool) -> None:
    """A path is plain if no program could take it for another one."""
    found = read_location("https://ok.example" + path)
    assert found is not None
    assert found.plain is plain


def test_readings_of_a_path() -> None:
    """Every path that some program could take it for is known."""
    found = read_location("https://ok.example/api/..%252fadmin")
    assert found is not None
    assert "/admin" in found.readings


@given(st.text(max_size=60))
def test_any_text_has_a_place_or_none(text: str) -> None:
    """Whatever a URL holds, it is read or it is none; and reading what was read gives the same."""
    for url in (text, "https://ok.example/" + text, "https://" + text):
        found = read_location(url)
        if found is not None:
            again = read_location(f"{found.scheme}://{found.host}:{found.port or 1}{found.path}")
            assert again is not None
            assert (again.host, again.path) == (found.host, normal_path(found.path))

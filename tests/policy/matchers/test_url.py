"""Which URLs a pattern speaks of, row by row from tests/data/policy/urls.txt."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.policy.candidate import Candidate
from mcphub.policy.matchers.matcher import Refused, Useless
from mcphub.policy.matchers.url import UrlMatcher
from mcphub.spec import Scope, Secret
from tests.policy.tables import Line, lines, unescaped

ROWS = [row for row in lines("urls.txt") if not row.order]
MATCHER = UrlMatcher()


def says(pattern: str, url: str, deny: bool) -> str:
    try:
        found, _ = MATCHER.read(pattern, deny)
    except Refused:
        return "wrong"
    except Useless:
        return "wrong" if deny else "useless"
    subject = MATCHER.subject(Candidate("x", Scope.USER, "remote", urls=(Secret(url),)))
    assert subject is not None
    return "yes" if (MATCHER.denies if deny else MATCHER.allows)(found, subject) else "no"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number}: {' '.join(row.cells[:2])}"[:80])
def test_rows(row: Line) -> None:
    """C127: a pattern is compared part by part, strictly where it allows, broadly where it denies."""
    pattern, url, allows, denies = row.cells
    pattern, url = unescaped(pattern), unescaped(url)
    assert (says(pattern, url, deny=False), says(pattern, url, deny=True)) == (allows, denies)


@given(
    before=st.sampled_from(["", "a.", "evil.com/", "evil.com?", "evil.com#", "evil.com@", "u:p@", "evil.com\\", "x"]),
    between=st.text("ab.:@%", max_size=4),
    after=st.text("ab./@:?#%-\\ ", max_size=12),
)
def test_nothing_around_a_host_makes_it_another(before: str, between: str, after: str) -> None:
    """C127: what is allowed at a host is at that host for every reader of URLs."""
    url = f"https://{before}{between}.ok.example{after}"
    if says("https://*.ok.example/*", url, deny=False) == "yes":
        assert (urlsplit(url).hostname or "").rstrip(".").endswith(".ok.example")


@given(pattern=st.text(max_size=30), url=st.text(max_size=40))
def test_any_text_is_answered(pattern: str, url: str) -> None:
    """No pattern and no URL, however odd, is more than one of the four answers."""
    assert says(pattern, url, deny=False) in ("yes", "no", "useless", "wrong")
    assert says(pattern, url, deny=True) in ("yes", "no", "wrong")


@pytest.mark.parametrize("value", [None, 5, ["https://ok.example/"], {"host": "ok.example"}])
def test_other_values_mean_nothing(value: object) -> None:
    """What is no string is no pattern."""
    with pytest.raises(Refused, match="expected a string"):
        MATCHER.read(value, deny=True)


def test_what_stands_behind_a_proxy_is_denied_and_speaks_for_nobody() -> None:
    """A connector's URL behind a proxy is met by what denies; allowed is the address that is connected to."""
    urls = (Secret("https://proxy.example/?mcp_url=x"), Secret("https://bad.example/mcp"))
    subject = MATCHER.subject(Candidate("x", Scope.WEBAPP, "remote", urls=urls))
    assert subject is not None
    assert MATCHER.denies(MATCHER.read("https://bad.example/*", True)[0], subject)
    assert not MATCHER.allows(MATCHER.read("https://bad.example/*", False)[0], subject)
    assert MATCHER.allows(MATCHER.read("https://proxy.example/*", False)[0], subject)


def test_programs_have_no_url() -> None:
    """A rule by URL does not speak of a program."""
    assert MATCHER.subject(Candidate("x", Scope.USER, "program", argv=("x",))) is None

"""The pages that a person sees in the browser."""

from __future__ import annotations

from mcphub.login import pages

EVIL = "<script>alert('x')</script>\""


def test_what_is_filled_in_is_text() -> None:
    """S11: names, hosts and reasons of others are never markup."""
    for page in (
        pages.invitation(EVIL, EVIL, EVIL),
        pages.could_not_begin(EVIL, EVIL),
        pages.signed_in_already(EVIL),
    ):
        assert "<script" not in page and 'x\')<' not in page and '"">' not in page
        assert "&lt;script&gt;" in page


def test_they_load_nothing() -> None:
    """No page has a script, a style, a form, or an address of anybody but mcphub's own next step."""
    found = (pages.DONE, pages.FAILED, pages.STRANGE, pages.NOT_YOURS, pages.OVER, pages.invitation("a", "h", "/go"))
    for page in found:
        assert page.startswith("<!doctype html>") and "<title>" in page
        for word in ("<script", "<style", "<link", "<img", "<form", "http:", "https:", " src=", "onclick", "onload"):
            assert word not in page, word

"""Lists in pages."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from mcphub.catalog.pages import DEFAULT_PAGE_BYTES, Page, Pages, cut
from mcphub.protocol.envelope import MODERN_HEAD


def walk(pages: Pages) -> list[Page]:
    """The pages in the order in which an agent gets them."""
    found = [pages.pages[0]]
    while found[-1].next:
        found.append(pages.pages[found[-1].next])
    return found


def test_the_empty_list() -> None:
    """It is one empty page, whether anything was merged or not."""
    assert cut("tools", [], []).pages == Pages("tools").pages == {0: Page(b"", b"")}
    assert json.loads(Pages("tools").head(False) + b"]}") == {"tools": []}
    assert Pages("tools").head(True) == MODERN_HEAD + b',"tools":['


def test_ordinary_lists_are_one_page() -> None:
    """Thousands of tools fit on one, since many agents never ask for a second; eras that agree share the bytes."""
    item = b'{"name":"%b"}' % (b"x" * 800)
    [page] = walk(cut("tools", [item] * 5000, [item] * 5000))
    assert len(page.modern) < DEFAULT_PAGE_BYTES
    assert page.legacy is page.modern


def test_an_item_that_is_larger_than_a_page() -> None:
    """It is alone on its page, wherever it stands."""
    small, large = b'"s"', b'"%b"' % (b"l" * 100)
    items = [large, small, small, large, small]
    pages = walk(cut("tools", items, items, 20))
    assert [page.modern for page in pages] == [large, small + b"," + small, large, small]


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 120))
def test_pages_are_the_list(sizes: list[int], most: int) -> None:
    """Whatever the sizes: every item once and in order, in both eras on the same page, and the digest is the list's."""
    new = [b'"%b"' % (b"n" * size) for size in sizes]
    old = [b'"%b"' % (b"o" * (size // 2)) for size in sizes]
    pages = cut("tools", old, new, most)
    found = walk(pages)
    assert len(found) == len(pages.pages)
    assert b",".join(page.modern for page in found) == b",".join(new)
    assert b",".join(page.legacy for page in found) == b",".join(old)
    for start, page in pages.pages.items():
        end = page.next or len(sizes)
        assert page.modern == b",".join(new[start:end]) and page.legacy == b",".join(old[start:end])
        assert len(page.modern) <= most or end - start == 1
    assert pages.digest == cut("tools", old, new).digest
    assert pages.digest != cut("tools", [*old, b"1"], [*new, b"1"], most).digest

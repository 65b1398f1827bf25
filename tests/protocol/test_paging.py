"""How a paged list is walked."""

from __future__ import annotations

import itertools

import pytest

from mcphub.protocol.paging import MAX_PAGES, EndlessList, Walk


def cursors(pages: list[str | None]) -> tuple[list[str | None], str]:
    """What is asked for when each page names the next of these cursors, and why the walk was cut short."""
    walk = Walk()
    asked = [walk.cursor]
    for cursor in pages:
        try:
            if not walk.advance(cursor):
                return asked, ""
        except EndlessList as e:
            return asked, str(e)
        asked.append(walk.cursor)
    raise AssertionError("the walk did not end")


@pytest.mark.parametrize(
    ("pages", "asked", "cut"),
    [
        ([None], [None], ""),
        (["a", "b", None], [None, "a", "b"], ""),
        (["", None], [None, ""], ""),
        (["", ""], [None, ""], "page 2 names a cursor that was followed already"),
        (["p", "p"], [None, "p"], "page 2 names a cursor that was followed already"),
        (["a", "b", "a"], [None, "a", "b"], "page 3 names a cursor that was followed already"),
        (["x" * 100_000, "x" * 100_000], [None, "x" * 100_000], "page 2 names a cursor that was followed already"),
    ],
)
def test_walks(pages: list[str | None], asked: list[str | None], cut: str) -> None:
    """C146: every cursor is followed, an empty one too; a repeated one ends the walk."""
    assert cursors(pages) == (asked, cut)


def test_ever_new_cursors() -> None:
    """C146: a list that never ends is asked for MAX_PAGES pages and no more; one of exactly so many is whole."""
    fresh: list[str | None] = [str(i) for i in range(MAX_PAGES * 2)]
    asked, cut = cursors(fresh)
    assert len(asked) == MAX_PAGES
    assert cut == f"the list has more than {MAX_PAGES} pages"
    whole: list[str | None] = [*itertools.islice(fresh, MAX_PAGES - 1), None]
    assert cursors(whole) == ([None, *whole[:-1]], "")

"""Owns how a paged list is walked: which cursor comes next and when to stop.

It must not send anything. `nextCursor: ""` is followed like any cursor; a repeated cursor or too many pages stops the
walk, and the caller keeps its old complete list (MCP spec, server/utilities/pagination).
"""

from __future__ import annotations

import msgspec

MAX_PAGES = 100


class EndlessList(ValueError):
    """The server's pages do not end; the message says how."""


class Walk(msgspec.Struct):
    """One walk over a list. `cursor` is None for the first page and after the last."""

    cursor: str | None = None
    pages: int = 0
    _seen: set[str] = msgspec.field(default_factory=set)

    def advance(self, next_cursor: str | None) -> bool:
        """Take the page's `nextCursor`; True if there is another page to ask for. Raises EndlessList."""
        self.pages += 1
        self.cursor = next_cursor
        if next_cursor is None:
            return False
        if next_cursor in self._seen:
            raise EndlessList(f"page {self.pages} names a cursor that was followed already")
        if self.pages >= MAX_PAGES:
            raise EndlessList(f"the list has more than {MAX_PAGES} pages")
        self._seen.add(next_cursor)
        return True

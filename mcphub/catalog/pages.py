"""Owns a rendered list in pages: which items are on which page, as the bytes that every agent gets.

It must not know what the items are, cursors, or how long a list may be kept: what differs from one answer to the next
is added by whoever gives it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from mcphub.protocol.envelope import MODERN_HEAD

#: Bytes of items on one page. Many agents never ask for a second one, so ordinary lists must be one page: this is
#: thousands of tools.
DEFAULT_PAGE_BYTES = 4 << 20


class Page(msgspec.Struct, frozen=True):
    """The items of one page for each era, joined by commas; the same object where the eras agree. `next` is the number
    of the item that the next page begins with, 0 where there is none."""

    legacy: bytes
    modern: bytes
    next: int = 0


class Pages(msgspec.Struct, frozen=True):
    """A whole list. `member` is the member of the result that holds it, `pages` are by the number of their first item.
    `digest` changes with what agents see, and with nothing else."""

    member: str
    pages: Mapping[int, Page] = msgspec.field(default_factory=lambda: {0: Page(b"", b"")})
    digest: str = ""

    def head(self, modern: bool) -> bytes:
        """What comes before the items of a page in its result; `]`, more members and `}` come behind them."""
        return (MODERN_HEAD + b',"%b":[' if modern else b'{"%b":[') % self.member.encode()


def cut(member: str, legacy: Sequence[bytes], modern: Sequence[bytes], most: int = DEFAULT_PAGE_BYTES) -> Pages:
    """The items, rendered for each era, on pages of at most `most` bytes; one that is larger is alone on its page.
    Pages begin with the same items in both eras."""
    starts = [0]
    size = 0
    for number, item in enumerate(modern):
        size += len(item) + 1
        if size > most and number > starts[-1]:
            starts.append(number)
            size = len(item) + 1
    whole = hashlib.sha256()
    pages: dict[int, Page] = {}
    for start, end in zip(starts, [*starts[1:], len(modern)], strict=True):
        new = b",".join(modern[start:end])
        old = b",".join(legacy[start:end])
        whole.update(b"," + new if start else new)
        pages[start] = Page(new if old == new else old, new, end if end < len(modern) else 0)
    return Pages(member, pages, whole.hexdigest())

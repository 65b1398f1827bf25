"""Who may use a route."""

from __future__ import annotations

import pytest

from mcphub.control.access import Access, OpenAccess, OwnerAccess, may_connect, refusal
from mcphub.transport.peer import Peer


@pytest.mark.parametrize(
    ("peer", "expected"),
    [(Peer(1000, 1000, 5), True), (Peer(1000, 0, None), True), (Peer(0, 0, 1), False), (None, False)],
)
def test_only_the_owner_is_let_in(peer: Peer | None, expected: bool) -> None:
    """Another uid, root too, and a peer whom the kernel does not name stay out."""
    assert may_connect(peer, 1000) is expected


@pytest.mark.parametrize(
    ("access", "uid", "allowed"),
    [(OpenAccess(), 1000, True), (OpenAccess(), 7, True), (OwnerAccess(), 1000, True), (OwnerAccess(), 7, False)],
)
def test_reading_is_for_everyone_let_in_and_changing_for_the_owner(access: Access, uid: int, allowed: bool) -> None:
    """The difference shows only for a uid that the listener would have let in besides the owner."""
    why = refusal(access, Peer(uid, uid, 1), 1000)
    assert (why is None) is allowed
    assert why is None or "uid 7" in why

"""Owns what is known where tokens are to be had without a person: for whom, from whom, and what there was before.

It must not know by which method.
"""

from __future__ import annotations

import msgspec

from mcphub.auth.discovery import Discovered
from mcphub.auth.home import Home
from mcphub.auth.records import Account, TokenSet


class Occasion(msgspec.Struct, frozen=True):
    """For whom tokens are wanted. `scopes` () = what the server gives by itself. `last` are the tokens before, None =
    there were none. `dpop`: they are to be bound to a key."""

    account: Account
    discovered: Discovered
    scopes: tuple[str, ...]
    home: Home
    last: TokenSet | None = None
    dpop: bool = False

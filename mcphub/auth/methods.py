"""Owns the table of how tokens are had without a person: one method for each mode of an entry's `oauth`.

It must not know how any of them works. What few need is imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from mcphub.auth.occasion import Occasion
from mcphub.auth.records import TokenSet

#: Gets new tokens. Raises SignInFailed, VaultUnavailable.
Obtain = Callable[[Occasion], Awaitable[TokenSet]]


async def _client_credentials(occasion: Occasion) -> TokenSet:
    from mcphub.auth.client_credentials import obtain

    return await obtain(occasion)


async def _xaa(occasion: Occasion) -> TokenSet:
    from mcphub.auth.xaa import obtain

    return await obtain(occasion)


async def _wif(occasion: Occasion) -> TokenSet:
    from mcphub.auth.workload_identity import obtain

    return await obtain(occasion)


#: By mode. A new method is one file and one line here.
METHODS: Mapping[str, Obtain] = {"client_credentials": _client_credentials, "xaa": _xaa, "wif": _wif}

"""Owns what a person is told of a server that wants credentials: that there is a sign-in, or that a header is needed.

It must not sign anybody in, send credentials, or open anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from mcphub import __version__
from mcphub.errors import TransportError
from mcphub.protocol import protected_resource
from mcphub.protocol.http_answer import Refusal
from mcphub.transport.http_request import SIGN_IN

if TYPE_CHECKING:
    from mcphub.net import HttpClient

#: Seconds for all of the looking, and bytes of a document.
LOOK = 5.0
MAX_DOCUMENT = 1 << 18

_HEADERS = [(b"Accept", b"application/json"), (b"User-Agent", b"mcphub/" + __version__.encode())]


async def explained(client: HttpClient, url: str, refusal: Refusal) -> str:
    """The end of a sentence about a server at this URL that refused a request without credentials (case C093).

    Many servers give no challenge with their 401; those that have a sign-in say so in a document at a known place,
    those that want an API key have none.
    """
    if "resource_metadata" in refusal.challenge:
        return f"{SIGN_IN} ({refusal.message})"
    said = ""
    with anyio.move_on_after(LOOK) as looking:
        said = await _looked(client, url, refusal)
    if looking.cancelled_caught:
        said = f"{SIGN_IN} ({refusal.message}; its OAuth metadata did not come within {LOOK:g} s)"
    return said


async def _looked(client: HttpClient, url: str, refusal: Refusal) -> str:
    for place in protected_resource.places(url):
        try:
            async with client.within(place).exchange("GET", _HEADERS) as answer:
                status, document = answer.status, await answer.read(MAX_DOCUMENT)
        except TransportError as e:
            return f"{SIGN_IN} ({refusal.message}; its OAuth metadata cannot be had: {e})"
        if status == 200:
            server = protected_resource.authorization_server(document or b"", url)
            where = f"sign-in at {server}" if server else "its OAuth metadata is none, or another server's"
            return f"{SIGN_IN} ({refusal.message}; {where})"
        if status >= 500 or status == 429:
            return f"{SIGN_IN} ({refusal.message}; its OAuth metadata cannot be had: HTTP {status})"
    why = f"{refusal.message}, no OAuth metadata"
    return f"wants credentials and offers no sign-in ({why}); set a header that it accepts in `headers`?"

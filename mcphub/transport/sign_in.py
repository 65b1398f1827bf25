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
from mcphub.transport.http_request import sign_in_at

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
    if refusal.whole:
        return refusal.message
    if "resource_metadata" in refusal.challenge:
        return f"{sign_in_at(client.signer)} ({refusal.message})"
    said = ""
    with anyio.move_on_after(LOOK) as looking:
        said = await _looked(client, url, refusal)
    if looking.cancelled_caught:
        said = f"{sign_in_at(client.signer)} ({refusal.message}; its OAuth metadata did not come within {LOOK:g} s)"
    return said


async def _looked(client: HttpClient, url: str, refusal: Refusal) -> str:
    for place in protected_resource.places(url):
        try:
            asker = client.within(place)
            asker.signer = None  # what it says of itself is for everybody, and no token goes there
            async with asker.exchange("GET", _HEADERS) as answer:
                status, document = answer.status, await answer.read(MAX_DOCUMENT)
        except TransportError as e:
            return f"{sign_in_at(client.signer)} ({refusal.message}; its OAuth metadata cannot be had: {e})"
        if status == 200:
            server = protected_resource.authorization_server(document or b"", url)
            where = f"sign-in at {server}" if server else "its OAuth metadata is none, or another server's"
            return f"{sign_in_at(client.signer)} ({refusal.message}; {where})"
        if status >= 500 or status == 429:
            return f"{sign_in_at(client.signer)} ({refusal.message}; its OAuth metadata cannot be had: HTTP {status})"
    for place in protected_resource.OWN:
        # Of revision 2025-03-26, where a server is its own authorization server (case C096).
        try:
            asker = client.within(place)
            asker.signer = None
            async with asker.exchange("GET", _HEADERS) as answer:
                document = await answer.read(MAX_DOCUMENT) if answer.status == 200 else None
        except TransportError:
            continue
        if protected_resource.is_server(document or b""):
            return f"{sign_in_at(client.signer)} ({refusal.message}; sign-in at the server itself)"
    if client.signer is not None:
        client.signer.unoffered()
    why = f"{refusal.message}, no OAuth metadata"
    return f"wants credentials and offers no sign-in ({why}); set a header that it accepts in `headers`?"

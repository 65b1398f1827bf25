"""Owns getting one document over HTTPS, or the word that it is still the one that is known.

It must not know what the document is, nor keep it.
"""

from __future__ import annotations

from collections.abc import Mapping

import anyio
import msgspec

from mcphub.errors import TransportError

#: Seconds for the whole of it.
WITHIN = 60.0
MAX_BYTES = 4 * 1024 * 1024


class Document(msgspec.Struct, frozen=True):
    """What the server gave; `etag` names this state of it, "" = it has no name."""

    body: bytes
    etag: str


async def fetch(url: str, etag: str, env: Mapping[str, str], *, accept: str = "application/json") -> Document | None:
    """The document at `url`, None where it still is the one that `etag` names. `env` says the way there and whom to
    trust, as for servers at URLs.

    Raises TransportError, whose text begins with the host, where there is no such answer: redirects to another origin
    and every status but 200 (and 304 to an `etag`) are none.
    """
    from mcphub.net import http_client  # most people have nothing to fetch

    headers = [(b"Accept", accept.encode("ascii")), (b"User-Agent", b"mcphub"), (b"Cache-Control", b"no-cache")]
    if etag:
        headers.append((b"If-None-Match", etag.encode("latin-1", "replace")))
    try:
        with anyio.fail_after(WITHIN):
            async with http_client(url, env) as client, client.exchange("GET", headers) as answer:
                server = client.peer.server
                if answer.status == 304 and etag:
                    return None
                if answer.location:
                    text = f"{server} leads to {answer.location}, where nothing is taken from"
                    raise TransportError(text, kind="refused")
                if answer.status != 200:
                    raise TransportError(f"{server} answered with status {answer.status}", kind="refused")
                body = await answer.read(MAX_BYTES)
                if body is None:
                    text = f"{server} sent more than {MAX_BYTES >> 20} MiB"
                    raise TransportError(text, kind="refused")
                return Document(body, answer.header(b"etag"))
    except TimeoutError:
        raise TransportError(f"no answer within {WITHIN:g} s", kind="no_response") from None

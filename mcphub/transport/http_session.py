"""Owns the session that a legacy server began with `initialize`: its headers, its own stream, streams taken up again.

It must not know the requests but by what their streams said, nor what a message means. Source: MCP spec 2025-11-25,
basic/transports (session management, resumability and redelivery).
"""

from __future__ import annotations

import random
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import anyio

from mcphub.errors import TransportError
from mcphub.protocol import mirrored
from mcphub.protocol.eventstream import EventDecoder, EventTooLarge
from mcphub.protocol.http_answer import Refusal
from mcphub.transport.http_request import HttpRequest, head_of

if TYPE_CHECKING:
    from mcphub.net import Answer, Header, HttpClient

#: Seconds in which a stream must begin, and in which a session may be ended.
BEGIN = 60.0
GOODBYE = 2.0
#: Seconds before a stream is taken up again: where the server named none, the most, and failures in a row that end it.
#: A standing stream waits up to twice as long, by chance.
RETRY = 1.0
RETRY_MOST = 60.0
RESUME_FAILURES = 5
#: A standing stream that ends sooner than this many seconds, and brought nothing, is not asked for again at once.
BRIEF = 5.0
#: Bytes read of an answer that nobody wants.
MAX_IGNORED = 1 << 20

_VISIBLE = re.compile(r"[\x21-\x7e]{1,1024}")

#: Hands on what a stream brings until it ends: (what it said of itself, how many messages it brought).
Follow = Callable[["Answer", HttpRequest | None, str], Awaitable[tuple[EventDecoder, int]]]


class HttpSession:
    """What `initialize` began. Without one, and for modern requests, it is empty. `gate` is closed while the server has
    not heard `notifications/initialized`, which nothing may overtake."""

    def __init__(
        self,
        client: HttpClient,
        common: Sequence[Header],
        follow: Follow,
        odd: Callable[[str, str], None],
        gone: Callable[[], None],
    ) -> None:
        self.id = ""
        #: What every later request carries.
        self.headers: list[Header] = []
        self.gate: anyio.Event | None = None
        #: Its own stream is there, or it has none.
        self.stood = anyio.Event()
        self._client = client
        self._common = common
        self._follow = follow
        self._odd = odd
        self._gone = gone

    def begin(self) -> None:
        """`initialize` is sent: it names no session and no version."""
        self.id, self.headers = "", []

    def take(self, answer: Answer) -> None:
        """`initialize` was accepted: the answer's head may name the session."""
        found = answer.header(b"mcp-session-id")
        if found and not _VISIBLE.fullmatch(found):
            self._odd("bad_session_id", "gave a session id that no header can carry; it is not used")
            found = ""
        self.id = found
        self.headers = [(b"Mcp-Session-Id", found.encode("ascii"))] if found else []

    def agree(self, response: bytes) -> None:
        """`initialize` was answered: its version counts from here on."""
        version = mirrored.agreed_version(response)
        if version:
            self.headers.append((b"MCP-Protocol-Version", version))

    def names(self, request: HttpRequest) -> bool:
        """Whether a request names this session, so that its refusal may speak of it."""
        return bool(self.id) and not request.modern and request.method != "initialize"

    async def goodbye(self) -> None:
        """End it, as far as the server lets itself be told (case C079)."""
        try:
            async with self._client.exchange("DELETE", [*self._common, *self.headers], begin=GOODBYE) as answer:
                await answer.read(MAX_IGNORED)
        except TransportError:
            pass

    def _stream_headers(self, last_id: str) -> list[Header]:
        headers = [(b"Accept", b"text/event-stream"), *self._common, *self.headers]
        if last_id:
            headers.append((b"Last-Event-ID", last_id.encode("utf-8", "replace")))
        return headers

    async def resume(self, request: HttpRequest) -> Refusal | None:
        """The rest of a request's stream that ended before its answer; None once it is answered."""
        failures = 0
        while failures < RESUME_FAILURES:
            wait = RETRY if request.retry is None else min(request.retry, RETRY_MOST)
            await anyio.sleep(max(wait, 2.0**failures) if failures else wait)
            try:
                async with self._client.exchange("GET", self._stream_headers(request.last_id), begin=BEGIN) as answer:
                    head = head_of(answer)
                    if head.streams:
                        failures = 0
                        await self._follow(answer, request, request.last_id)
                    elif head.status in (408, 429) or head.status >= 500:
                        failures += 1
                    else:
                        return Refusal("lost", f"its stream ended and cannot be resumed: HTTP {head.status}")
            except TransportError:
                failures += 1
            except EventTooLarge as e:
                return Refusal("unreadable", str(e))
            if request.answered:
                return None
        return Refusal("lost", "its stream ended and cannot be resumed")

    async def standing(self) -> None:
        """The stream for what no request asked for, if the server has one; it says nothing about its health (C062)."""
        last_id, retry, failures, worked = "", None, 0, False
        while True:
            began = anyio.current_time()
            brought = 0
            try:
                async with self._client.exchange("GET", self._stream_headers(last_id), begin=BEGIN) as answer:
                    head = head_of(answer)
                    self.stood.set()
                    if head.streams:
                        worked = True
                        decoder, brought = await self._follow(answer, None, last_id)
                        last_id, retry = decoder.last_id, decoder.retry if decoder.retry is not None else retry
                    elif not worked:
                        return
                    elif head.status == 404 and self.id:
                        self._gone()
                        return
                    elif head.status < 500 and head.status not in (408, 409, 429):
                        return
            except TransportError:
                pass
            except EventTooLarge as e:
                self._odd("too_large_event", f"its own stream was ended: {e}")
            self.stood.set()
            lasted = anyio.current_time() - began
            failures = 0 if brought or lasted > BRIEF else failures + 1
            wait = RETRY if retry is None else retry
            wait = min(max(wait, 2.0**failures if failures > 1 else 0.0), RETRY_MOST)
            # A thousand servers that went at the same moment are not asked again at the same moment.
            await anyio.sleep(wait * random.uniform(1.0, 2.0))

"""Owns what lasts longer than one HTTP request: a legacy session with its streams, and whether an agent is still there.

It must not know paths or headers; what a message means is the gateway's.
"""

from __future__ import annotations

import asyncio
import secrets

import anyio

from mcphub.channel import Data
from mcphub.sessions.http_answer import Answer, Stream, frames, lasts
from mcphub.sessions.http_replay import Shelf, Track, is_notification, number_in
from mcphub.sessions.session import Session

#: Random bytes of a session's id; the specification asks for 16.
ID_BYTES = 24
#: Random bytes in its events' ids, so that one of another session is not taken for its own.
TAG_BYTES = 4
#: The first version in which clients know events that have an id and no data.
PRIMES = "2025-11-25"


class Presence:
    """Whether an agent that has no connection of its own is still there: requests are open, or were not long ago.

    It is entered for each request. `ready` is set once its workspace is held.
    """

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.ready = anyio.Event()
        self._loop = asyncio.get_running_loop()
        self._open = 0
        self._used = self._loop.time()

    @property
    def idle_since(self) -> float | None:
        """Monotonic seconds; None while a request is open."""
        return None if self._open else self._used

    def __enter__(self) -> None:
        """One request is open."""
        self._open += 1

    def __exit__(self, *error: object) -> None:
        self._open -= 1
        self._used = self._loop.time()

    async def until_idle(self, limit: float) -> str:
        """Wait until nothing was asked for so many seconds, or `over` is set. Returns which it was: idle, over."""
        while not self.over.is_set():
            left = limit if self._open else self._used + limit - self._loop.time()
            if left <= 0:
                return "idle"
            with anyio.move_on_after(left):
                await self.over.wait()
        return "over"


class HttpSession:
    """A legacy session over HTTP, bound to who began it (`principal`) and where (`path`). Implements session.Outlet
    for what no request of the agent's has caused, and http_answer.Home for the answers that are streams."""

    def __init__(self, agent: Session, principal: str, path: str, shelf: Shelf) -> None:
        self.id = secrets.token_urlsafe(ID_BYTES)
        self.agent = agent
        self.principal = principal
        self.path = path
        self.presence = Presence()
        self.stream = Stream()
        #: Answers that are not complete, in the order in which they were asked for.
        self.answers: dict[Answer, None] = {}
        self._shelf = shelf
        self._tag = secrets.token_hex(TAG_BYTES)
        self._begun = 0
        self._kept: dict[str, tuple[Answer, Track]] = {}
        agent.use(self)

    @property
    def primes(self) -> bool:
        return self.agent.version >= PRIMES

    def begin(self, answer: Answer) -> Track:
        self._begun += 1
        name = f"{self._tag}-{self._begun}"

        def forgotten() -> None:
            self._kept.pop(name, None)
            answer.forgotten()

        track = self._shelf.begin(name, self.primes, forgotten)
        if track.kept:
            self._kept[name] = answer, track
        return track

    def over(self, answer: Answer) -> None:
        self.answers.pop(answer, None)

    def stream_of(self, event_id: str) -> tuple[Answer, int] | None:
        """The answer whose stream has said this event, and the event's number; None where it is not kept."""
        found = number_in(event_id)
        if found is None or found[0] not in self._kept:
            return None
        answer, track = self._kept[found[0]]
        return (answer, found[1]) if found[1] <= track.last else None

    def send(self, *parts: Data) -> None:
        for frame in frames(parts):
            # A server's log line belongs beside the call that is running; the stream is for the rest.
            if is_notification(frame) and not lasts(frame) and self.agent.calls:
                answer = next((one for one in reversed(self.answers) if one.waiting), None)
                if answer is not None:
                    answer.send(frame)
                    continue
            self.stream.put(frame)

    def forget(self, mid: bytes) -> None:
        """A request was cancelled: what still comes of it is dropped, and its answer ends without."""
        for answer in list(self.answers):
            answer.forget(mid)

    def end(self, text: str = "the session has ended", data: bytes = b"") -> None:
        """End its stream and its answers; what waits is answered with this error."""
        for answer in list(self.answers):
            answer.end(text, data)
        for _, track in list(self._kept.values()):
            track.forget()
        self.stream.end()
        self.presence.over.set()


class Exchange(Session):
    """A session as one of its requests sees it: all state is the session's, but what is sent goes into the answer to
    this request. For a table that has agents as keys the two are one."""

    __slots__ = ("_answer", "_hash")

    def __init__(self, session: Session, answer: Answer) -> None:
        # Not a copy of the session: whatever the gateway keeps in it must be seen by every other request of the agent.
        self.__dict__ = session.__dict__
        self._answer = answer
        self._hash = hash(session)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Session) and self.__dict__ is other.__dict__

    def __hash__(self) -> int:
        return self._hash

    def send(self, *parts: Data) -> None:
        self._answer.send(*parts)

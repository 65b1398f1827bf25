"""Owns what an open transport looks like to a worker, and what it needs from the daemon to be opened.

It must not know which transports exist; kinds.py lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from mcphub.channel import Channel
from mcphub.protocol.http_answer import as_it_is
from mcphub.spec import ServerSpec
from mcphub.transport.admission import Admission
from mcphub.transport.process import Launcher
from mcphub.transport.wire import Batch

if TYPE_CHECKING:
    from mcphub.net import Signer
    from mcphub.transport.in_process import Embedded


class Signing(Protocol):
    """Who has the credentials of servers that are signed in to; see auth.credentials."""

    def signer(self, spec: ServerSpec, hide: Callable[..., None] | None) -> Signer | None: ...

    def wanted(self, spec: ServerSpec) -> None: ...

    def again(self, spec: ServerSpec) -> None: ...

    def principal(self, spec: ServerSpec) -> str | None: ...


class Surroundings(msgspec.Struct, frozen=True):
    """What openers take from the daemon. `environment` is the hub's: its own plus the environment file. `hide` takes
    secrets that came to be known while a connection lasts, which must not be seen in what is said of its server;
    `clean` takes them, and those of its entry, out of a text. `admission` is told what becomes of its credentials,
    `count` of each odd thing that a transport saw, by its kind."""

    launcher: Launcher
    batch: Batch
    environment: Callable[[], Mapping[str, str]]
    in_process: Mapping[str, Embedded] = msgspec.field(default_factory=dict)
    grace: float = 2.0
    report: Callable[[BaseException], None] | None = None
    hide: Callable[..., None] | None = None
    credentials: Signing | None = None
    clean: Callable[[str], str] = as_it_is
    admission: Admission | None = None
    count: Callable[[str], None] | None = None


class Link(Protocol):
    """One open transport. `pid` is None where there is no process."""

    @property
    def channel(self) -> Channel: ...

    @property
    def pid(self) -> int | None: ...

    @property
    def retry_after(self) -> float:
        """Seconds that the server wants to be left alone, 0 = it did not say."""

    @property
    def returned(self) -> Mapping[int, bytes]:
        """The frames of requests that `unanswered` gave back as `session`, by id."""

    @property
    def deaf(self) -> bool:
        """Whether what the server would say by itself cannot come: it has no stream for it."""

    @property
    def waits_for(self) -> str:
        """What is missing on the way to its server, so that nothing was sent yet; "" = nothing is."""

    def usable(self, tools: tuple[bytes, ...]) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
        """Of the tools just listed, those that can be called over this transport, and warnings about the others."""

    def way_changed(self) -> None:
        """This machine may reach the server by another way now: what is kept open for later requests is not used for
        any. What is under way goes on."""

    async def exit_code(self, wait: float) -> int | None:
        """The process's exit code once it is known, at most `wait` seconds from now; negative = signal."""

"""Owns what servers offer, over restarts of the daemon: gives it back when it is wanted, and saves it when it changes.

It must not know workers or states, nor judge what servers say: policy, hygiene and pins look at what comes from here as
at what was just listed. Nothing is read at the start but what lazy servers offer, and nothing written while servers
start: both happen in a thread, but for lazy servers, which are not started if there is something.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from collections.abc import Awaitable, Callable, Mapping

import anyio
import anyio.to_thread
import msgspec

from mcphub.connection.doubts import MOST
from mcphub.connection.handshake import Facts
from mcphub.connection.rest import Known
from mcphub.connection.source import Source
from mcphub.errors import ConfigError
from mcphub.spec import InstanceKey, ServerSpec
from mcphub.store.catalogues import CatalogueStore
from mcphub.supervisor import catalogue_marks

#: Seconds without a further change after which what has changed is written, and it is looked whether programs are what
#: they were: servers that start come first. After so many in all nothing more is waited for.
SETTLE = 1.0
SETTLE_MOST = 30.0
#: When a server was last seen is written to the day: what has not changed is written once a day, not at each start.
DAY = 86_400

Log = Callable[[str, str], None]
#: Whose credentials a server is used with, "" = none of mcphub's, None = not known now; may look for it.
Principal = Callable[[ServerSpec], Awaitable[str | None]]


async def _nobody(spec: ServerSpec) -> str | None:
    return ""


class _Saved(msgspec.Struct, frozen=True):
    """The content of one file. `facts` are without lists; `program` and `around` are marks of catalogue_marks; `day` is
    the last one at which its server was connected, the second it began."""

    facts: Facts
    tools: tuple[bytes, ...]
    shelf: Mapping[str, tuple[bytes, ...]]
    program: str
    around: str
    source: Source
    day: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Saved).decode
#: What a server may say that no file can hold: numbers without bounds, text that is none.
_UNFIT = (msgspec.MsgspecError, OverflowError, TypeError, ValueError, RecursionError)


class Catalogues:
    """Of all servers. An instance's key is that of its kind, without the agent that it is for. `outdated` is called, on
    the loop, with the kind of a lazy server whose program is another one than when its lists were saved; `confirm` once
    a day, to note all that is connected."""

    def __init__(
        self,
        store: CatalogueStore,
        environment: Callable[[], Mapping[str, str]],
        log: Log,
        principal: Principal = _nobody,
    ) -> None:
        self.outdated: Callable[[InstanceKey], None] = lambda kind: None
        self.confirm: Callable[[], None] = lambda: None
        self._principal = principal
        self._store = store
        self._environment = environment
        self._log = log
        self._pending: dict[InstanceKey, tuple[ServerSpec, Known | None]] = {}
        #: What was read, and not compared with the program yet.
        self._unproven: dict[InstanceKey, tuple[ServerSpec, str]] = {}
        self._news = anyio.Event()
        self._writing = threading.Lock()
        self._complained: set[InstanceKey] = set()

    def recall(self, kind: InstanceKey, spec: ServerSpec) -> Known | None:
        """What a lazy server said when the lists of such an instance were saved last, None = it is to be listed.
        Whether its program is the same is looked at later; whose credentials it is used with shows when they are read.
        """
        saved, problem = self._load(kind, spec, self._environment())
        self._tell(kind, problem)
        if saved is None:
            return None
        self._unproven[kind] = spec, saved.program
        self._news.set()
        return _known(saved)

    async def look_up(self, wanted: Mapping[InstanceKey, ServerSpec]) -> dict[InstanceKey, Known]:
        """The same for servers that are on their way, or down, without a wait of the loop's; as far as it is theirs in
        every respect, and not too old. Raises nothing but cancellation."""
        found = await anyio.to_thread.run_sync(self._look_up, wanted, self._environment())
        known: dict[InstanceKey, Known] = {}
        for kind, (saved, problem) in found.items():
            self._tell(kind, problem)
            if saved is not None and saved.source.principal == await self._principal(wanted[kind]):
                known[kind] = _known(saved)
        return known

    def _look_up(
        self, wanted: Mapping[InstanceKey, ServerSpec], environment: Mapping[str, str]
    ) -> dict[InstanceKey, tuple[_Saved | None, str]]:
        found: dict[InstanceKey, tuple[_Saved | None, str]] = {}
        for kind, spec in wanted.items():
            saved, problem = self._load(kind, spec, environment)
            old = saved is not None and time.time_ns() / 1e9 - saved.day > MOST
            if old or (saved is not None and catalogue_marks.program(spec, environment) != saved.program):
                saved = None
            found[kind] = saved, problem
        return found

    def _load(
        self, kind: InstanceKey, spec: ServerSpec, environment: Mapping[str, str]
    ) -> tuple[_Saved | None, str]:
        """What a file says, and why it cannot be read; such a one is dropped."""
        if not catalogue_marks.is_kept(spec):
            return None, ""
        content, problem = self._store.load(_owner(kind))
        saved: _Saved | None = None
        if content is not None:
            try:
                saved = _decode(content)
            except _UNFIT as error:
                problem = f"what was saved cannot be used ({error})"
        if problem:
            self._store.drop(_owner(kind))
        if saved is not None and saved.around != self._around(spec, environment):
            saved = None
        return saved, problem

    def _around(self, spec: ServerSpec, environment: Mapping[str, str]) -> str:
        return self._store.mark(catalogue_marks.around(spec, environment))

    def _tell(self, kind: InstanceKey, problem: str) -> None:
        if problem:
            self._log("info", f"{kind.name}: what it offers is listed again: {problem}")

    def note(self, kind: InstanceKey, spec: ServerSpec, known: Known | None) -> None:
        """This is what it says now; None: not all of it is known, so that nothing is to be kept."""
        if not catalogue_marks.is_kept(spec):
            return
        self._pending[kind] = spec, known
        self._unproven.pop(kind, None)
        self._news.set()

    async def run(self) -> None:
        """Write what changes, until cancelled; what is left then is written by `flush`."""
        while True:
            with anyio.move_on_after(DAY) as nothing:
                await self._news.wait()
            if nothing.cancelled_caught:
                self.confirm()
                continue
            with anyio.move_on_after(SETTLE_MOST):
                await self._quiet()
            self._news = anyio.Event()
            unproven, self._unproven = self._unproven, {}
            if unproven:
                look = functools.partial(_other_programs, unproven, self._environment())
                for kind in await anyio.to_thread.run_sync(look):
                    self.outdated(kind)
            if self._pending:
                await anyio.to_thread.run_sync(self._flush, self._environment())

    async def _quiet(self) -> None:
        """Until nothing has changed for a while."""
        quiet = False
        while not quiet:
            self._news = anyio.Event()
            with anyio.move_on_after(SETTLE) as silence:
                await self._news.wait()
            quiet = silence.cancelled_caught

    def flush(self) -> None:
        """Write what is not written yet."""
        if self._pending:
            self._flush(self._environment())

    def _flush(self, environment: Mapping[str, str]) -> None:
        with self._writing:
            pending = self._pending.copy()
            for kind, one in pending.items():
                self._write(kind, *one, environment)
                if self._pending.get(kind) is one:
                    del self._pending[kind]
            self._store.prune()

    def _write(
        self, kind: InstanceKey, spec: ServerSpec, known: Known | None, environment: Mapping[str, str]
    ) -> None:
        owner = _owner(kind)
        if known is None:
            self._store.drop(owner)
            return
        facts = dataclasses.replace(known.facts, tools=(), shelf={})
        try:
            saved = _Saved(
                facts,
                known.tools,
                known.shelf,
                catalogue_marks.program(spec, environment),
                self._around(spec, environment),
                known.source,
                int(known.at) // DAY * DAY,
            )
            self._store.save(owner, _encode(saved))
        except (ConfigError, *_UNFIT) as error:
            self._store.drop(owner)
            if kind not in self._complained:
                self._complained.add(kind)
                text = f"what it offers is not saved, so it is not known at the next start: {error}"
                self._log("warning", f"{kind.name}: {text}")


def _owner(kind: InstanceKey) -> str:
    return "\0".join((kind.digest, kind.workspace, kind.name))


def _known(saved: _Saved) -> Known:
    facts = dataclasses.replace(saved.facts, tools=saved.tools, shelf=saved.shelf)
    return Known(facts, saved.tools, saved.shelf, saved.source, float(saved.day))


def _other_programs(
    unproven: Mapping[InstanceKey, tuple[ServerSpec, str]], environment: Mapping[str, str]
) -> list[InstanceKey]:
    return [kind for kind, (spec, program) in unproven.items() if catalogue_marks.program(spec, environment) != program]

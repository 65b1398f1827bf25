"""Owns what lazy servers offer, over restarts of the daemon: gives it back at the start, and saves it when it changes.

It must not know workers or states, nor judge what servers say: policy, hygiene and pins look at what comes from here as
at what was just listed. Blocking but for `run`, which writes in a thread: a server's start waits for no disk.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import threading
from collections.abc import Callable, Mapping

import anyio
import anyio.to_thread
import msgspec

from mcphub.connection.handshake import Facts
from mcphub.connection.rest import Known
from mcphub.errors import ConfigError
from mcphub.spec import InProcessSpec, InstanceKey, ServerSpec, StdioSpec
from mcphub.store.catalogues import CatalogueStore
from mcphub.transport import program_files

#: Seconds for which further changes are waited for before any is written, and after a start before it is looked
#: whether programs are what they were.
SETTLE = 1.0


class _Saved(msgspec.Struct, frozen=True):
    """The content of one file. `facts` are without lists; `program` stands for the files that the program had."""

    facts: Facts
    tools: tuple[bytes, ...]
    shelf: Mapping[str, tuple[bytes, ...]]
    program: str


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Saved).decode
#: What a server may say that no file can hold: numbers without bounds, text that is none.
_UNFIT = (msgspec.MsgspecError, OverflowError, TypeError, ValueError, RecursionError)


class Catalogues:
    """Of all lazy servers. An instance's key is that of its kind, without the agent that it is for. `outdated` is
    called, on the loop, with the kind whose program is another one than when its lists were saved."""

    def __init__(
        self, store: CatalogueStore, environment: Callable[[], Mapping[str, str]], log: Callable[[str, str], None]
    ) -> None:
        self.outdated: Callable[[InstanceKey], None] = lambda kind: None
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
        """What it said when the lists of such an instance were saved last, None = it is to be listed."""
        if isinstance(spec.transport, InProcessSpec):
            return None  # what it is the key does not say, and to ask it costs nothing
        content, problem = self._store.load(_owner(kind))
        if content is None:
            if problem:
                self._log("info", f"{kind.name}: what it offers is listed again: {problem}")
            return None
        try:
            saved = _decode(content)
        except _UNFIT as error:
            self._log("info", f"{kind.name}: what it offers is listed again: what was saved cannot be used ({error})")
            return None
        self._unproven[kind] = spec, saved.program
        self._news.set()
        facts = dataclasses.replace(saved.facts, tools=saved.tools, shelf=saved.shelf)
        return Known(facts, saved.tools, saved.shelf)

    def note(self, kind: InstanceKey, spec: ServerSpec, known: Known | None) -> None:
        """This is what it says now; None: not all of it is known, so that nothing is to be kept."""
        if isinstance(spec.transport, InProcessSpec):
            return
        self._pending[kind] = spec, known
        self._unproven.pop(kind, None)
        self._news.set()

    async def run(self) -> None:
        """Write what changes, until cancelled; what is left then is written by `flush`."""
        while True:
            await self._news.wait()
            await anyio.sleep(SETTLE)
            self._news = anyio.Event()
            unproven, self._unproven = self._unproven, {}
            if unproven:
                look = functools.partial(_other_programs, unproven, self._environment())
                for kind in await anyio.to_thread.run_sync(look):
                    self.outdated(kind)
            if self._pending:
                await anyio.to_thread.run_sync(self._flush, self._environment())

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
            saved = _Saved(facts, known.tools, known.shelf, _program(spec, environment))
            self._store.save(owner, _encode(saved))
        except (ConfigError, *_UNFIT) as error:
            self._store.drop(owner)
            if kind not in self._complained:
                self._complained.add(kind)
                text = f"what it offers is not saved, so it is started for its lists at the next start: {error}"
                self._log("warning", f"{kind.name}: {text}")


def _owner(kind: InstanceKey) -> str:
    return "\0".join((kind.digest, kind.workspace, kind.name))


def _program(spec: ServerSpec, environment: Mapping[str, str]) -> str:
    """What stands for the files of its program, "" for one that is elsewhere. Looks into the file system."""
    if not isinstance(spec.transport, StdioSpec):
        return ""
    stamps = program_files.stamps(spec.transport, environment)
    return hashlib.sha256(ascii(sorted(stamps.items())).encode("ascii")).hexdigest()[:32]


def _other_programs(
    unproven: Mapping[InstanceKey, tuple[ServerSpec, str]], environment: Mapping[str, str]
) -> list[InstanceKey]:
    return [kind for kind, (spec, program) in unproven.items() if _program(spec, environment) != program]

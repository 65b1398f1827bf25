"""Owns what is known of each server's tools while the daemon runs: each list is compared with it, the first becomes it.

It must not know toolsets or agents, nor read definitions. Blocking but for `run`, which writes what was seen for the
first time in a thread: a server's start waits for no disk. What was not written yet counts all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import anyio
import anyio.to_thread
import msgspec

from mcphub.catalog.definition import Definition
from mcphub.catalog.hygiene import clean
from mcphub.connection.view import View
from mcphub.errors import ConfigError
from mcphub.policy.pinning import Change, difference, grade, kept, pin, set_digest, summary
from mcphub.spec import Scope
from mcphub.store.pins import Pin, Pinned, PinStore

#: What becomes of a tool that is not as it was pinned: it is not listed until approved, listed and named in the status,
#: or not looked at.
Mode = Literal["withhold", "flag", "off"]

#: What was seen for the first time is written once nothing new has come for so long, and after so long at the latest,
#: seconds: servers that start one after the other, and their disk and processor, are left alone until they are there.
SETTLE, SETTLE_MOST = 0.5, 5.0

#: Directory whose agents may use it ("" = all), and name.
_Owner = tuple[str, str]


class Judgement(msgspec.Struct, frozen=True):
    """What is to be said about one list. `changes` are the tools that are not as they were pinned, by name; `withheld`
    those of them, or all, that must not be listed, each with what a caller is told."""

    server: str = ""
    changes: Mapping[str, Change] = msgspec.field(default_factory=dict)
    withheld: Mapping[str, str] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def warnings(self, shown: Iterable[str]) -> tuple[str, ...]:
        """One line for each thing that a person should know, as far as it is about the tools of these names."""
        changes = [self.changes[name] for name in shown if name in self.changes]
        if not changes:
            return self.notes
        withheld = any(change.tool in self.withheld for change in changes)
        what = "tools are withheld until you approve them" if withheld else "tools are not as they were first seen"
        return (f"{what}: {summary(changes)}; look at them: mcphub approve --tools {self.server}", *self.notes)


class Review(msgspec.Struct, frozen=True):
    """What a person is shown before approving the tools of one server: each change with its lines, and the tools that
    are gone. `digest` stands for all the tools as they are now."""

    digest: str
    changes: tuple[tuple[Change, tuple[str, ...]], ...] = ()
    gone: tuple[str, ...] = ()
    problem: str = ""


class _Known(msgspec.Struct, frozen=True):
    """What stays in memory of a server: digests by tool, its release; or why its file cannot be used."""

    digests: Mapping[str, str] = msgspec.field(default_factory=dict)
    release: str = ""
    problem: str = ""


class Pins:
    """The pins of all servers. `problems` says which could not be written."""

    def __init__(self, store: PinStore, *, project: Mode = "withhold", others: Mode = "flag") -> None:
        self.problems: dict[_Owner, str] = {}
        self._store = store
        self._project = project
        self._others = others
        self._known: dict[_Owner, _Known | None] = {}
        self._releases: dict[_Owner, str] = {}
        self._pending: dict[_Owner, Pinned] = {}
        self._news = anyio.Event()
        self._writing = threading.Lock()

    def mode(self, view: View) -> Mode:
        scope = view.spec.origin.scope
        if scope is Scope.EMBEDDED:
            return "off"
        return self._project if scope is Scope.PROJECT else self._others

    def judge(self, view: View, tools: Sequence[Definition]) -> Judgement:
        """Compare the tools of a list with what is known; the first list with any becomes what is known."""
        mode, owner = self.mode(view), _owner(view)
        if mode == "off":
            return Judgement()
        if owner not in self._known:
            self._known[owner] = self._load(owner)
        known = self._known[owner]
        now = _pins(tools)
        if known is None:
            if now:
                self._learn(owner, Pinned(*owner, kept(now), release(view)))
            return Judgement(owner[1])
        if known.problem:
            why = f"the tools of {owner[1]} are withheld: {known.problem}. A person must look at them: mcphub approve "
            withheld = dict.fromkeys(now, f"{why}--tools {owner[1]}") if mode == "withhold" else {}
            follows = "its tools are withheld" if withheld else "whether its tools have changed is not known"
            note = f"{known.problem}: {follows}; mcphub approve --tools {owner[1]}"
            return Judgement(owner[1], {}, withheld, (note,))
        changes: dict[str, Change] = {}
        if any(known.digests.get(name) != one.digest for name, one in now.items()):
            changes = grade(self._stored(owner).tools, now)
        withheld = {name: _refusal(owner[1], change) for name, change in changes.items()} if mode == "withhold" else {}
        return Judgement(owner[1], changes, withheld, self._release_note(view, known))

    def review(self, view: View, tools: Sequence[Definition]) -> Review:
        """What would be approved now."""
        now, owner = _pins(tools), _owner(view)
        known = self._known.get(owner)
        if known is None or known.problem:
            return Review(set_digest(now), problem=known.problem if known is not None else "")
        old = self._stored(owner).tools
        changes = grade(old, now)
        shown = tuple((change, difference(old.get(change.was or name), now[name])) for name, change in changes.items())
        return Review(set_digest(now), shown, tuple(name for name in old if name not in now))

    def check(self, view: View) -> None:
        """Raise ConfigError where an approval of this server's tools could not be kept now."""
        self._store.check(*_owner(view))

    def approve(self, view: View, tools: Sequence[Definition]) -> None:
        """These are the tools from now on; those that are gone stay known. Raises ConfigError when it cannot be
        kept."""
        owner = _owner(view)
        known = self._known.get(owner)
        old = self._stored(owner).tools if known is not None and not known.problem else {}
        pinned = Pinned(*owner, kept({**old, **_pins(tools)}), release(view))
        with self._writing:
            self._store.save(pinned)
            self._pending.pop(owner, None)
        self.problems.pop(owner, None)
        self._known[owner] = _digests(pinned)

    # --- the files ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write what was learned, until cancelled; what is left then is written by `flush`."""
        while True:
            await self._news.wait()
            with anyio.move_on_after(SETTLE_MOST):
                await self._quiet()
            self._news = anyio.Event()
            await anyio.to_thread.run_sync(self.flush)

    async def _quiet(self) -> None:
        """Until nothing new has come for a while."""
        quiet = False
        while not quiet:
            self._news = anyio.Event()
            with anyio.move_on_after(SETTLE) as silence:
                await self._news.wait()
            quiet = silence.cancelled_caught

    def flush(self) -> None:
        """Write what was learned and is not written yet."""
        for owner in list(self._pending):
            self._write(owner)

    def _write(self, owner: _Owner) -> None:
        with self._writing:
            pinned = self._pending.get(owner)
            if pinned is None:
                return  # approved meanwhile
            try:
                self._store.save(pinned)
                self.problems.pop(owner, None)
            except (ConfigError, UnicodeEncodeError) as error:
                cause = str(error) if isinstance(error, ConfigError) else f"cannot keep it: {error.reason}"
                self.problems[owner] = f"what the tools of {owner[1]} look like is not remembered: {cause}"
                return  # and stays pending: it counts while the daemon runs
            if self._pending.get(owner) is pinned:
                del self._pending[owner]

    def _learn(self, owner: _Owner, pinned: Pinned) -> None:
        self._known[owner] = _digests(pinned)
        self._pending[owner] = pinned
        self._news.set()

    def _load(self, owner: _Owner) -> _Known | None:
        found, problem = self._store.load(*owner)
        if problem:
            return _Known(problem=problem)
        return None if found is None else _digests(found)

    def _stored(self, owner: _Owner) -> Pinned:
        """What is known, with the definitions. Where the file is not what it was a moment ago, digests alone."""
        if (pinned := self._pending.get(owner)) is not None:
            return pinned
        found, _ = self._store.load(*owner)
        known = self._known.get(owner)
        if found is not None and known is not None and _digests(found).digests == known.digests:
            return found
        digests = known.digests if known is not None else {}
        return Pinned(*owner, {name: Pin(digest) for name, digest in digests.items()})

    def _release_note(self, view: View, known: _Known) -> tuple[str, ...]:
        """What is said while the daemon runs about a server that is of another release than last time (case C182)."""
        owner, now = _owner(view), release(view)
        if now and known.release and now != known.release:
            self._releases[owner] = f"says that it is {now}; when it was last started it was {known.release}"
            self._learn(owner, msgspec.structs.replace(self._stored(owner), release=now))
        return (self._releases[owner],) if owner in self._releases else ()


def release(view: View) -> str:
    """The name and version that a server says it has; "" where it says neither."""
    info = view.facts.server_info if view.facts is not None else None
    said = [info.get(key) for key in ("name", "version")] if info else []
    return clean(" ".join(str(one)[:100] for one in said if one))


def _owner(view: View) -> _Owner:
    return view.spec.workspace, view.spec.name


def _pins(tools: Sequence[Definition]) -> dict[str, Pin]:
    return {tool.name: pin(tool.name, tool.members) for tool in tools}


def _digests(pinned: Pinned) -> _Known:
    return _Known({name: one.digest for name, one in pinned.tools.items()}, pinned.release)


def _refusal(server: str, change: Change) -> str:
    return (
        f"The tool {clean(change.tool)[:80]} of {server} is withheld: it is {change} since a person approved it. "
        f"A person must look at it and allow it: mcphub approve --tools {server}"
    )

"""Owns the way from inputs to wishes: reads the files of every workspace in use, and tells the supervisor what to run.

It must not know agents' messages. Level-triggered: every tick computes the whole again, whatever changed; a workspace
is in use while a session or a question holds it, and a little longer, so that an agent that restarts finds its servers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread

from mcphub.config.load import Loaded, load
from mcphub.config.places import Places
from mcphub.desired import desired_state, visible
from mcphub.spec import InstanceKey
from mcphub.store.approvals import ApprovalStore, Decisions
from mcphub.supervisor.supervisor import Supervisor

#: How long a workspace's servers stay up after its last agent left, seconds.
LINGER = 10.0


class Workspaces:
    """The workspaces in use, "" among them always. `changed` is called when what is visible may be another set; `hide`
    gets the values that no log may show, before anything is started with them."""

    def __init__(
        self,
        supervisor: Supervisor,
        places: Places,
        env: Mapping[str, str],
        changed: Callable[[], None],
        hide: Callable[[Iterable[str]], None],
    ) -> None:
        self.loaded: dict[str, Loaded] = {}
        self.decisions: Decisions = {}
        self.store = ApprovalStore(places.approvals)
        self.store_problems: tuple[str, ...] = ()
        self._supervisor = supervisor
        self._places = places
        self._env = env
        self._changed = changed
        self._hide = hide
        self._users: dict[str, int] = {}
        self._visible: dict[str, dict[str, InstanceKey]] = {}
        self._left: dict[str, float] = {}
        self._one = anyio.Lock()
        self._gone = anyio.Event()

    def visible(self, workspace: str) -> Mapping[str, InstanceKey]:
        """The ordered names that agents of this workspace see; those of no workspace where it is not in use."""
        found = self._visible.get(workspace)
        return found if found is not None else self._visible.get("", {})

    def environment(self) -> Mapping[str, str]:
        """The hub's environment: the daemon's own and the environment file."""
        return self.loaded[""].environment if "" in self.loaded else self._env

    def peek(self, workspace: str, *, again: bool = False) -> dict[str, Loaded]:
        """What is loaded, and this workspace too, which is only looked at: its servers do not start for it.
        `again` reads its files in any case."""
        found = dict(self.loaded)
        if again or workspace not in found:
            found[workspace] = load(workspace, self._env, self._places, previous=found.get(workspace))
        return found

    def decide_again(self) -> None:
        """A decision was written, about the files as they are now: compute the wishes from both."""
        for workspace, one in list(self.loaded.items()):
            if one.stale():
                self.loaded[workspace] = load(workspace, self._env, self._places, previous=one)
        self._apply()

    async def start(self) -> Loaded:
        """Read what every agent shares. Returns it, with the settings."""
        await self.tick(again=True)
        return self.loaded[""]

    @asynccontextmanager
    async def using(self, workspace: str) -> AsyncIterator[None]:
        """Hold a workspace; its servers are wanted when this returns. Files that changed meanwhile are read again."""
        self._users[workspace] = self._users.get(workspace, 0) + 1
        try:
            await self.tick()
            yield
        finally:
            self._users[workspace] -= 1
            if not self._users[workspace]:
                del self._users[workspace]
                if workspace:
                    self._left[workspace] = anyio.current_time() + LINGER
                    gone, self._gone = self._gone, anyio.Event()
                    gone.set()

    async def tick(self, *, again: bool = False) -> None:
        """Compute the whole from the inputs: read what changed (all with `again`), decide, tell the supervisor."""
        async with self._one:
            wanted = {"", *self._users, *self._left}
            for workspace in self._users:
                self._left.pop(workspace, None)
            loaded = await anyio.to_thread.run_sync(self._read, wanted, again)
            if loaded is None:
                return
            self.loaded = loaded
            self._apply()

    def _read(self, wanted: set[str], again: bool) -> dict[str, Loaded] | None:
        """The files of these workspaces, None where nothing is new. Runs in a thread."""
        old = self.loaded
        new: dict[str, Loaded] = {}
        changed = again or set(old) != wanted
        for workspace in wanted:
            before = old.get(workspace)
            if before is None or again or before.stale():
                new[workspace] = load(workspace, self._env, self._places, previous=before)
                changed = True
            else:
                new[workspace] = before
        return new if changed else None

    def _apply(self) -> None:
        # Here and not in the thread that read the files: a decision that was written meanwhile must not be overlooked.
        self.decisions, self.store_problems = self.store.load()
        resolved = {workspace: one.resolved for workspace, one in self.loaded.items()}
        self._visible = {workspace: dict(visible(one)) for workspace, one in resolved.items()}
        for one in self.loaded.values():
            self._hide(one.secrets())
        self._supervisor.want(desired_state(resolved, self.decisions))
        self._changed()

    async def run(self) -> None:
        """Let go of workspaces that were left long enough ago, until cancelled."""
        while True:
            gone = self._gone
            if not self._left:
                await gone.wait()
                continue
            due = min(self._left.values()) - anyio.current_time()
            if due > 0:
                with anyio.move_on_after(due):
                    await gone.wait()
                continue
            now = anyio.current_time()
            for workspace in [w for w, at in self._left.items() if at <= now]:
                del self._left[workspace]
            await self.tick()

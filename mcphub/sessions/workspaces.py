"""Owns the way from inputs to wishes: reads the files of every workspace in use, and tells the supervisor what to run.

It must not know agents' messages. Level-triggered: every tick computes the whole again, whatever changed; a workspace
is in use while a session or a question holds it, and a little longer, so that an agent that restarts finds its servers.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import anyio.to_thread

from mcphub.config.dedupe import Unwrap
from mcphub.config.environment import child_environment, listed
from mcphub.config.load import Loaded, divides, load, load_beside
from mcphub.config.places import Places
from mcphub.config.readfile import Reader, Stamp, changed
from mcphub.config.remote_settings import RemoteSettings
from mcphub.config.resolve import ResolvedSet
from mcphub.config.settings import HubSettings, awaiting_restart
from mcphub.config.sources.project import searched
from mcphub.config.watch import FileNews
from mcphub.config.watched import watched
from mcphub.desired import Executed, desired_state, distinct, visible
from mcphub.policy.combine import policy_of
from mcphub.policy.rules import Policy
from mcphub.spec import DIVIDED, Desired, IdpSpec, InstanceKey, StdioSpec
from mcphub.store.approvals import ApprovalStore, Decisions
from mcphub.store.dynamic import Added, DynamicServers
from mcphub.supervisor.supervisor import Supervisor
from mcphub.transport import shell_prefix
from mcphub.transport.executable import leads_to

from . import always_on
from .plugin_data import make_plugin_data

#: Between a workspace and what tells agents apart that brought variables; no path has it.
_SIGN = "\0"

#: How long a workspace's servers stay up after its last agent left, seconds.
LINGER = 10.0

#: Seconds after which the files of a workspace that came are watched: several that come together are one change.
GATHER = 0.1

#: How often files are looked at, seconds: while the system tells of all that happens to them, of most, of nothing.
SELDOM = 10.0
LOOK = 1.0
POLL = 0.25


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
        secret: Callable[[str], str | None] | None = None,
    ) -> None:
        self.loaded: dict[str, Loaded] = {}
        self.decisions: Decisions = {}
        #: what administrators and the person say together, for every workspace
        self.policy = Policy()
        self.store = ApprovalStore(places.approvals)
        #: what was added over the control API; whoever changes it ticks
        self.dynamic = DynamicServers(places.dynamic)
        self.store_problems: tuple[str, ...] = ()
        self._supervisor = supervisor
        self._places = places
        self._env = env
        self._changed = changed
        self._hide = hide
        self._secret = secret
        #: what commands lead to, looked for once while wishes are computed and until they are computed again
        self._led: dict[tuple[str, str | None, str], tuple[str, ...]] = {}
        self._users: dict[str, int] = {}
        self._visible: dict[str, dict[str, InstanceKey]] = {}
        self._left: dict[str, float] = {}
        #: the variables that agents of a place brought
        self._brought: dict[str, Mapping[str, str]] = {}
        #: The agents that have a place of their own, and what was read to see whether one needs it.
        self._alone: dict[str, str] = {}
        self._seen: dict[str, Loaded] = {}
        #: Whether an agent without a workspace is there.
        self._attended = False
        #: Those whose servers run though nobody works there, and which of them nobody works in; None = not yet known.
        self._kept: frozenset[str] | None = None
        self._unattended: frozenset[str] = frozenset()
        self._one = anyio.Lock()
        self._gone = anyio.Event()
        self._news = FileNews()
        self._others = False
        self._approvals: tuple[Stamp, ...] = ()
        self._begun_with: HubSettings | None = None
        #: What decides which program a command is.
        self._ways = _ways(env)
        #: Set when the wishes were computed again; each time another one.
        self.applied = anyio.Event()

    def visible(self, workspace: str) -> Mapping[str, InstanceKey]:
        """The ordered names that agents of this workspace see; those of no workspace where it is not in use."""
        found = self._visible.get(workspace)
        return found if found is not None else self._visible.get("", {})

    def place(self, workspace: str, env: Mapping[str, str]) -> str:
        """What an agent of this workspace holds that brings these variables: the workspace itself, unless the settings
        list some of them in `clientEnv`. Agents that bring the same share what they see."""
        names = self.loaded[""].settings.client_env if "" in self.loaded else ()
        brought = listed(env, names)
        if not brought:
            return workspace
        digest = hashlib.sha256(repr(sorted((name, str(value)) for name, value in brought.items())).encode())
        place = f"{workspace}{_SIGN}{digest.hexdigest()[:16]}"
        self._brought[place] = brought
        return place

    @property
    def remote(self) -> RemoteSettings | None:
        """Where administrators want further settings to be fetched from."""
        return self.loaded[""].remote if "" in self.loaded else None

    @property
    def settings(self) -> HubSettings:
        """Those in force now."""
        return self.loaded[""].settings if "" in self.loaded else HubSettings()

    @property
    def identity_provider(self) -> IdpSpec | None:
        """The organisation's, where people sign in once for all servers whose entry says so."""
        return self.loaded[""].identity_provider if "" in self.loaded else None

    def warnings(self) -> tuple[str, ...]:
        """What a person must know about how changes of files take effect."""
        found = []
        if self._begun_with is not None and "" in self.loaded:
            keys = awaiting_restart(self._begun_with, self.loaded[""].settings)
            what = "has changed, which counts when mcphub starts the next time; to end it now: mcphub stop"
            found += [f"{self._places.settings}: {key} {what}" for key in keys]
        if self._news.failed:
            found.append(
                f"changes of files are looked for every {POLL:g} s, since this system does not tell of them: "
                f"{self._news.problem}"
            )
        return tuple(found)

    def environment(self) -> Mapping[str, str]:
        """The hub's environment: the daemon's own and the environment file."""
        return self.loaded[""].environment if "" in self.loaded else self._env

    def peek(self, workspace: str, *, again: bool = False) -> dict[str, Loaded]:
        """What is loaded, and this workspace too, which is only looked at: its servers do not start for it.
        `again` reads its files in any case."""
        found = dict(self.loaded)
        if again or workspace not in found:
            found[workspace] = self._load(workspace, found.get(workspace)) if again else self._look_at(workspace)
        return found

    def distinct(self, loaded: Mapping[str, Loaded]) -> dict[str, ResolvedSet]:
        """What these workspaces have, without what runs under another name already."""
        found: dict[str, ResolvedSet] = {}
        for workspace, one in sorted(loaded.items()):
            if one.shared and "" in found:
                found[workspace] = replace(found[""], workspace=workspace)
                continue
            found[workspace] = distinct(one.resolved, self.decisions, _unwrap(one), self._executed)
        return found

    def wishes(self, resolved: Mapping[str, ResolvedSet]) -> Desired:
        """What the servers of these sets shall be, by the policy and the decisions in force."""
        unwrap, executed = self.asked_with()
        return desired_state(resolved, self.decisions, unwrap=unwrap, executed=executed)

    def asked_with(self) -> tuple[Unwrap, Executed]:
        """What rules are asked with beside the policy: see `desired_state`."""
        return _unwrap(self.loaded[""]) if "" in self.loaded else Unwrap(), self._executed

    def _executed(self, spec: StdioSpec) -> tuple[str, ...]:
        path = child_environment(self.environment(), spec).get("PATH")
        asked = spec.command, path, spec.cwd or self._places.home
        if asked not in self._led:
            self._led[asked] = leads_to(*asked)
        return self._led[asked]

    def trial(self, server: Added) -> ResolvedSet:
        """What agents of its directory would have if this server was added."""
        before = [one for one in self.dynamic.added if (one.name, one.directory) != (server.name, server.directory)]
        workspace = server.directory
        loaded = load(
            workspace,
            self._env,
            self._places,
            previous=self.loaded.get(workspace),
            dynamic=(*before, server),
            secret=self._secret,
        )
        return self.distinct({workspace: loaded})[workspace]

    @staticmethod
    def own(workspace: str) -> str:
        """The directory under which servers for agents of this workspace alone are found again."""
        return os.path.realpath(workspace) if workspace else ""

    def owners(self, workspace: str) -> list[str]:
        """The directories whose servers agents of this workspace see, nearest first, "" at the end."""
        return [*searched(workspace, self._places.home, Reader()), ""]

    def _load(self, workspace: str, previous: Loaded | None) -> Loaded:
        # What holds for a moment while administrators write holds for everybody.
        previous = previous or self.loaded.get("")
        directory, _, _ = workspace.partition(_SIGN)
        client = self._brought.get(workspace)
        agent = self._alone.get(workspace, "")
        added = self.dynamic.added
        return load(
            directory,
            self._env,
            self._places,
            previous=previous,
            dynamic=added,
            client=client,
            agent=agent,
            secret=self._secret,
        )

    def decide_again(self) -> None:
        """A decision was written, about the files as they are now: compute the wishes from both."""
        everybody = self.loaded.get("")
        for workspace, one in sorted(self.loaded.items()):
            if one.stale() or (one.shared and self.loaded[""] is not everybody):
                self.loaded[workspace] = self._load(workspace, one)
                self._news.again()
        self._apply()

    async def start(self) -> Loaded:
        """Read what every agent shares. Returns it, with the settings."""
        await self.tick(again=True)
        self._begun_with = self.loaded[""].settings
        return self.loaded[""]

    @asynccontextmanager
    async def using(self, workspace: str, agent: str = "") -> AsyncIterator[str]:
        """Hold a workspace; its servers are wanted when this returns. Files that changed meanwhile are read again.

        Gives what is held: for an agent that is named, and has servers which are its alone, a place of its own."""
        if agent:
            workspace = await self._apart(workspace, agent)
        self._users[workspace] = self._users.get(workspace, 0) + 1
        try:
            await self.tick(about=workspace)
            yield workspace
        finally:
            self._users[workspace] -= 1
            if not self._users[workspace]:
                del self._users[workspace]
                if workspace or self._divided():
                    # An agent that comes again is another one: what was its alone waits for nobody.
                    linger = 0.0 if workspace in self._alone else LINGER
                    self._left[workspace] = anyio.current_time() + linger
                    gone, self._gone = self._gone, anyio.Event()
                    gone.set()

    async def _apart(self, workspace: str, agent: str) -> str:
        """The agent's own place in a workspace that has servers with an instance an agent, else the workspace."""
        async with self._one:
            found = self.loaded.get(workspace) or self._seen.get(workspace)
            if found is None:
                found = await anyio.to_thread.run_sync(self._look_ahead, workspace)
        if not divides(found.resolved, ("agent",)):
            return workspace
        self._seen.pop(workspace, None)
        place = f"{workspace}{_SIGN}agent-{agent}"
        self._alone[place] = agent
        if workspace in self._brought:
            self._brought[place] = self._brought[workspace]
        return place

    def _look_at(self, workspace: str) -> Loaded:
        current = "" in self.loaded and not self.loaded[""].stale()
        beside = self._load_beside(workspace, None, self.loaded) if current else None
        return beside or self._load(workspace, None)

    def _look_ahead(self, workspace: str) -> Loaded:
        """As `_look_at`, kept for the reading that follows where that would come to the same. Runs in a thread."""
        found = self._look_at(workspace)
        if found.shared or not self.loaded[""].stale():
            self._seen[workspace] = found
        return found

    def _divided(self) -> bool:
        return "" in self.loaded and divides(self.loaded[""].resolved)

    def _for_somebody(self, resolved: dict[str, ResolvedSet]) -> dict[str, ResolvedSet]:
        """Without what is divided in the place of agents that have no workspace, while there is none of them: that
        place is always read, and instances of it would be for nobody. Of workspaces in which nobody works what is
        always on is left."""
        resolved = {w: always_on.alone(one) if w in self._unattended else one for w, one in resolved.items()}
        if self._attended or "" not in resolved or not divides(resolved[""]):
            return resolved
        kept = {
            name: one
            for name, one in resolved[""].servers.items()
            if one.spec is None or one.spec.sharing not in DIVIDED
        }
        return {**resolved, "": replace(resolved[""], servers=kept)}

    async def tick(self, *, again: bool = False, about: str | None = None) -> None:
        """Compute the whole from the inputs: read what changed (all with `again`), decide, tell the supervisor.

        With `about` only the files of this workspace are looked at, and those of none: others are watched.
        """
        async with self._one:
            await self._compute(again, about)
            if (self._kept or frozenset()) - self.loaded.keys():
                await self._compute(False, "")  # it was just found that these have something that is always on

    async def _compute(self, again: bool, about: str | None) -> None:
        kept = self._kept or frozenset()
        wanted = {"", *self._users, *self._left, *kept}
        for workspace in self._users:
            self._left.pop(workspace, None)
        looked_at = wanted if about is None else {"", about}
        loaded, anew = await anyio.to_thread.run_sync(self._read, wanted, looked_at, again)
        if loaded is not self.loaded:
            self._others = True
            self._news.again()
        self.loaded = loaded
        self._seen.clear()
        attended = "" in self._users or "" in self._left
        if attended is not self._attended:
            self._attended = attended
            anew = anew or self._divided()
        unattended = kept - self._users.keys() - self._left.keys()
        if unattended != self._unattended:
            self._unattended, anew = unattended, True
        if anew:
            self._apply()
        elif "" in self._visible:
            everybody = self._visible[""]
            self._visible = {workspace: self._visible.get(workspace, everybody) for workspace in loaded}

    def _keep(self, resolved: Mapping[str, ResolvedSet]) -> None:
        """See which workspaces stay though nobody works there."""
        first = always_on.own(self._places) if self._kept is None else set()
        mine = [always_on.lasting(one) for workspace, one in resolved.items() if workspace]
        found = always_on.approved(self.decisions).union(first, *mine)
        self._kept = frozenset(sorted(found)[: always_on.MOST])

    def _read(self, wanted: set[str], looked_at: set[str], again: bool) -> tuple[dict[str, Loaded], bool]:
        """What these workspaces have, and whether anything else is wanted than before. Runs in a thread.

        A workspace that comes or goes and brings nothing of its own changes nothing: that costs no more than a look.
        """
        old = self.loaded
        new: dict[str, Loaded] = {}
        for workspace in sorted(wanted):
            before = old.get(workspace) or self._seen.pop(workspace, None)
            stale = before is None or again or (before.shared and new[""] is not old.get(""))
            if stale or before is None or (workspace in looked_at and before.stale()):
                new[workspace] = self._load_beside(workspace, before, new) or self._load(workspace, before)
            else:
                new[workspace] = before
        others = [one for place, one in old.items() if new.get(place) is not one]
        others += [one for place, one in new.items() if old.get(place) is not one]
        if not others:
            new = old
        return new, again or changed(self._approvals) or any(not one.shared for one in others)

    def _load_beside(self, workspace: str, before: Loaded | None, new: Mapping[str, Loaded]) -> Loaded | None:
        """The workspace where it has what everybody has by `new`, and had nothing else `before`; else None."""
        if not workspace or "" not in new or (before is not None and not before.shared):
            return None
        if workspace in self._brought or workspace in self._alone:
            return None
        return load_beside(new[""], workspace, self._places, dynamic=self.dynamic.added)

    def _apply(self) -> None:
        # Here and not in the thread that read the files: a decision that was written meanwhile must not be overlooked.
        reader = Reader()
        reader.note(self._places.approvals)
        self._approvals = reader.stamps
        self.decisions, self.store_problems = self.store.load()
        self._led.clear()
        distinct_ones = self.distinct(self.loaded)
        self._keep(distinct_ones)
        resolved = self._for_somebody(distinct_ones)
        self._visible = {}
        for workspace, found in sorted(resolved.items()):
            same = self.loaded[workspace].shared and "" in self._visible
            self._visible[workspace] = self._visible[""] if same else dict(visible(found))
        for one in self.loaded.values():
            if not one.shared:
                self._hide(one.secrets())
        self.policy = policy_of(self.loaded[""].resolved) if "" in self.loaded else Policy()
        wishes = self.wishes(resolved)
        make_plugin_data(wishes, self._places)
        self._supervisor.want(wishes)
        if (ways := _ways(self.environment())) != self._ways:
            self._ways = ways
            self._supervisor.look_for_programs()
        self._changed()
        applied, self.applied = self.applied, anyio.Event()
        applied.set()

    async def watch(self) -> None:
        """Let every change of a file take effect, until cancelled. The system is asked to tell of them; it does not
        tell all, so they are looked at as well, only not often."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._news.run)
            followed: tuple[Stamp, ...] = ()
            while True:
                stamps = tuple({stamp.path: stamp for one in self.loaded.values() for stamp in one.stamps}.values())
                if stamps != followed or self._news.told:
                    followed = stamps
                    self._news.follow(await anyio.to_thread.run_sync(watched, (*stamps, *self._approvals)))
                with anyio.move_on_after(self._pause()):
                    await self._news.wait()
                    if self._others:
                        self._others = False
                        await anyio.sleep(GATHER)
                await self.tick()

    def _pause(self) -> float:
        """Seconds until files are looked at though nobody told of a change."""
        pause = POLL if self._news.problem else SELDOM if self._news.complete else LOOK
        due = min((one.due for one in self.loaded.values() if one.due is not None), default=None)
        return pause if due is None else max(0.0, min(pause, due - time.monotonic()))

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
                if workspace not in self._users:
                    self._brought.pop(workspace, None)
                    self._alone.pop(workspace, None)
            await self.tick(about="")


def _ways(env: Mapping[str, str]) -> tuple[str | None, str | None]:
    return env.get("PATH"), env.get(shell_prefix.NAME)


def _unwrap(loaded: Loaded) -> Unwrap:
    rule = loaded.settings.webapp
    return Unwrap(rule.unwrap_hosts, rule.unwrap_parameter)

"""Owns what the agents of one workspace and view see: the servers by name, their toolset, their other lists.

It must not know agents, nor tell anybody that it is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mcphub.catalog.cache import Catalog
from mcphub.catalog.library import Library
from mcphub.catalog.toolset import Toolset
from mcphub.connection.machine import Pending
from mcphub.spec import InstanceKey
from mcphub.supervisor.supervisor import Snapshot
from mcphub.supervisor.watch import Watch


class Sight:
    """`visible(workspace)` gives the ordered names that its agents see, with their instances."""

    def __init__(
        self, snapshot: Watch[Snapshot], catalog: Catalog, visible: Callable[[str], Mapping[str, InstanceKey]]
    ) -> None:
        self._snapshot = snapshot
        self._catalog = catalog
        self._visible = visible
        #: What was shown last of a workspace and view, and of which snapshot and visible names.
        self._shown: dict[tuple[str, str], tuple[object, object, tuple[Toolset, Library]]] = {}

    def seen(self, workspace: str, view: str = "") -> Mapping[str, InstanceKey]:
        """The names that agents of a view see, each with its instance."""
        names = self._visible(workspace)
        if not view:
            return names
        return {view: names[view]} if view in names else {}

    def toolset(self, workspace: str, view: str = "") -> Toolset:
        """The tools of all that is seen."""
        place = self._place(workspace)
        return self._catalog.toolset(place, self.seen(place, view), self._snapshot.value.views, view)

    def library(self, workspace: str, view: str = "") -> Library:
        """The prompts and resources of all that is seen."""
        place = self._place(workspace)
        return self._catalog.library(place, self.seen(place, view), self._snapshot.value.views, view)

    def _place(self, workspace: str) -> str:
        """The workspace, or none where it brings nothing of its own: what was merged for everybody is not merged
        again."""
        return "" if self._visible(workspace) is self._visible("") else workspace

    def both(self, workspace: str, view: str) -> tuple[Toolset, Library]:
        """Both, looked for once while nothing has changed: over HTTP an agent joins with each of its requests."""
        workspace = self._place(workspace)
        snapshot, visible = self._snapshot.value, self._visible(workspace)
        known = self._shown.get((workspace, view))
        if known is not None and known[0] is snapshot and known[1] is visible:
            return known[2]
        found = self.toolset(workspace, view), self.library(workspace, view)
        self._shown[workspace, view] = (snapshot, visible, found)
        return found

    def settled(self, workspace: str, view: str = "") -> bool:
        """Whether no visible server is in its first start. A sick server, one that was tried, is never waited for."""
        views = self._snapshot.value.views
        for key in self.seen(workspace, view).values():
            one = views.get(key)
            if one is not None and not one.listed and not one.tried and isinstance(one.state, Pending):
                return False
        return True

    def renew(self, workspaces: set[str]) -> None:
        """The snapshot, or what is visible, has changed; agents are in these workspaces, besides those in none."""
        self._shown.clear()
        self._catalog.forget(self._snapshot.value.views, {""} | workspaces)

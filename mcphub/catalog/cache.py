"""Owns what the catalog remembers: definitions read once per list, toolsets merged once per combination of lists.

It must not outlive its inputs: an entry goes when its instance or its list does.
"""

from __future__ import annotations

from collections.abc import Mapping

from mcphub.catalog.definition import Definition, read_definitions
from mcphub.catalog.library import Library, Shelf
from mcphub.catalog.library import merge as merge_library
from mcphub.catalog.naming import DEFAULT_MAX_LENGTH
from mcphub.catalog.pages import DEFAULT_PAGE_BYTES
from mcphub.catalog.toolset import Offer, Rendered, Toolset, merge, render
from mcphub.connection.worker import View
from mcphub.spec import InstanceKey

_Read = tuple[tuple[bytes, ...], tuple[Definition, ...], tuple[str, ...]]


class Catalog:
    """Toolsets by view. A view is the ordered names its agents see, each with its instance (None = none runs)."""

    def __init__(self, max_length: int = DEFAULT_MAX_LENGTH, page_bytes: int = DEFAULT_PAGE_BYTES) -> None:
        self._max_length = max_length
        self._page_bytes = page_bytes
        self._read: dict[InstanceKey, _Read] = {}
        #: What each instance brings to a view of these names: fifty servers that start one by one render once each.
        self._parts: dict[
            tuple[InstanceKey, str], tuple[tuple[Definition, ...], tuple[str, ...], tuple[Rendered, ...]]
        ] = {}
        self._merged: dict[tuple[str, str], tuple[object, Toolset]] = {}
        self._libraries: dict[tuple[str, str], tuple[object, Library]] = {}

    def definitions(self, view: View) -> tuple[tuple[Definition, ...], tuple[str, ...]]:
        """The usable tools of one instance that its entry does not hide, and warnings about the others."""
        known = self._read.get(view.key)
        if known is None or known[0] is not view.tools:
            tools, warnings = read_definitions(view.tools)
            spec = view.spec
            if spec.enabled_tools is not None:
                tools = tuple(t for t in tools if t.name in spec.enabled_tools)
            if spec.disabled_tools:
                tools = tuple(t for t in tools if t.name not in spec.disabled_tools)
            known = self._read[view.key] = (view.tools, tools, warnings)
        return known[1], known[2]

    def toolset(
        self, workspace: str, visible: Mapping[str, InstanceKey], views: Mapping[InstanceKey, View], only: str = ""
    ) -> Toolset:
        """The merged toolset of a workspace, or one server's own (`only` is its name, and all that `visible` has); the
        same object while nothing that it shows has changed."""
        shown = [views[key] for key in visible.values() if key in views]
        stamp = (tuple(visible), tuple((v.key, v.tools) for v in shown))
        known = self._merged.get((workspace, only))
        if known is not None and known[0] == stamp:
            return known[1]
        names = tuple(visible)
        offers = []
        for v in shown:
            tools = self.definitions(v)[0]
            part = self._parts.get((v.key, only))
            if part is None or part[0] is not tools or part[1] != names:
                part = (tools, names, render(v.key, tools, names, self._max_length, not only))
                self._parts[v.key, only] = part
            offers.append(Offer(v.key, tools, part[2]))
        toolset = merge(offers, names, self._max_length, not only, self._page_bytes)
        self._merged[workspace, only] = (stamp, toolset)
        return toolset

    def library(
        self, workspace: str, visible: Mapping[str, InstanceKey], views: Mapping[InstanceKey, View], only: str = ""
    ) -> Library:
        """The merged prompts and resources, as `toolset` gives the tools."""
        shown = [views[key] for key in visible.values() if key in views]
        stamp = (tuple(visible), tuple((v.key, v.shelved) for v in shown))
        known = self._libraries.get((workspace, only))
        if known is not None and known[0] == stamp:
            return known[1]
        shelves = [Shelf(v.key, v.shelf) for v in shown]
        library = merge_library(
            shelves,
            tuple(visible),
            prefixed=not only,
            max_length=self._max_length,
            page_bytes=self._page_bytes,
        )
        self._libraries[workspace, only] = (stamp, library)
        return library

    def forget(self, alive: Mapping[InstanceKey, View], workspaces: set[str]) -> None:
        """Drop what no longer exists."""
        for key in [k for k in self._read if k not in alive]:
            del self._read[key]
        for part in [p for p in self._parts if p[0] not in alive]:
            del self._parts[part]
        for view in [v for v in self._merged if v[0] not in workspaces]:
            del self._merged[view]
        for view in [v for v in self._libraries if v[0] not in workspaces]:
            del self._libraries[view]

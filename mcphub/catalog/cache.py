"""Owns what the catalog remembers: definitions read once per list, toolsets merged once per combination of lists.

It must not outlive its inputs: an entry goes when its instance or its list does.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mcphub.catalog.definition import Definition, read_definitions
from mcphub.catalog.hygiene import DEFAULT_LENGTH, clean, clean_counted, mentions
from mcphub.catalog.instructions import MAX_ONE
from mcphub.catalog.library import Library, Shelf, overlong, unclean
from mcphub.catalog.library import merge as merge_library
from mcphub.catalog.naming import DEFAULT_MAX_LENGTH, exposed_names, may_be_exposed_as, prefix
from mcphub.catalog.pages import DEFAULT_PAGE_BYTES
from mcphub.catalog.pinned import Judgement, Pins, Review
from mcphub.catalog.repeatable import repeatable
from mcphub.catalog.toolset import Offer, Rendered, Toolset, merge, render
from mcphub.connection.view import View
from mcphub.policy.tools import NO_TOOL_RULES, ToolRules, entry_refusal, nothing_left
from mcphub.spec import InstanceKey, ServerSpec

#: Names of other servers' tools in one warning.
MAX_NAMED = 3


class Listed(msgspec.Struct, frozen=True):
    """One list of tools as it may be shown. `raw` is the list it was read from, `read` all of its usable tools, `tools`
    those that agents see. `withheld` are tools that they do not see until somebody approves them, `hidden` those that
    the entry or policy takes away; both by the server's own name, each with what a caller of it is told."""

    raw: tuple[bytes, ...]
    read: tuple[Definition, ...]
    tools: tuple[Definition, ...]
    warnings: tuple[str, ...] = ()
    withheld: Mapping[str, str] = msgspec.field(default_factory=dict)
    hidden: Mapping[str, str] = msgspec.field(default_factory=dict)
    judgement: Judgement = msgspec.field(default_factory=Judgement)


class Catalog:
    """Toolsets by view. A view is the ordered names its agents see, each with its instance (None = none runs)."""

    def __init__(
        self,
        max_length: int = DEFAULT_MAX_LENGTH,
        page_bytes: int = DEFAULT_PAGE_BYTES,
        pins: Pins | None = None,
        text_length: int = DEFAULT_LENGTH,
    ) -> None:
        """`text_length`: characters of one title or description that agents see."""
        self._text_length = text_length
        self._max_length = max_length
        self._page_bytes = page_bytes
        self._pins = pins
        self._rules = NO_TOOL_RULES
        self._read: dict[InstanceKey, Listed] = {}
        self._unclean: dict[InstanceKey, tuple[object, tuple[int, int]]] = {}
        #: What each instance brings to a view of these names: fifty servers that start one by one render once each.
        self._parts: dict[
            tuple[InstanceKey, str], tuple[tuple[Definition, ...], tuple[str, ...], tuple[Rendered, ...]]
        ] = {}
        self._merged: dict[tuple[str, str], tuple[object, Toolset]] = {}
        self._libraries: dict[tuple[str, str], tuple[object, Library]] = {}

    def govern(self, rules: ToolRules) -> None:
        """Policy for tools, from now on."""
        if rules != self._rules:
            self._rules = rules
            self._read.clear()
            self._merged.clear()

    def definitions(self, view: View) -> tuple[tuple[Definition, ...], tuple[str, ...]]:
        """The tools of one instance that agents see, and warnings about its list."""
        listed = self.listed(view)
        return listed.tools, listed.warnings

    def listed(self, view: View) -> Listed:
        """The list of one instance, read and judged once: usable, not hidden by its entry, not withheld."""
        known = self._read.get(view.key)
        if known is None or known.raw is not view.tools:
            known = self._read[view.key] = self._judged(view)
        return known

    def _judged(self, view: View) -> Listed:
        read, warnings = read_definitions(view.tools, self._text_length)
        judgement = self._pins.judge(view, read) if self._pins is not None else Judgement()
        tools, own = read, prefix(view.key.name)
        hidden = {t.name: why for t in read if (why := self._hides(view.spec, t.name))}
        if hidden:
            tools = tuple(t for t in read if t.name not in hidden)
        # What is withheld is no part of what the entry hides, so that a caller hears of it for a reason only.
        withheld = {t.name: judgement.withheld[t.name] for t in tools if t.name in judgement.withheld}
        warnings += judgement.warnings(t.name for t in tools)
        speaking = {one.name: others for one in tools if (others := mentions(one.description, own))}
        if speaking:
            which = ", ".join(clean(name)[:80] for name in list(speaking)[:MAX_NAMED])
            which += f" and {len(speaking) - MAX_NAMED} more" if len(speaking) > MAX_NAMED else ""
            others = tuple(dict.fromkeys(name for names in speaking.values() for name in names))
            warnings += (f"descriptions of its tools ({which}) speak of {_few(others)}",)
        if withheld:
            tools = tuple(t for t in tools if t.name not in withheld)
        tools, more = repeatable(view.spec, tools)
        return Listed(view.tools, read, tools, warnings + more, withheld, hidden, judgement)

    def warn(self, view: View, text: str) -> bool:
        """Add a warning about its list that only a call of one of its tools could show; False = it has it already."""
        listed = self.listed(view)
        if text in listed.warnings:
            return False
        self._read[view.key] = msgspec.structs.replace(listed, warnings=(*listed.warnings, text))
        return True

    def _hides(self, spec: ServerSpec, tool: str) -> str:
        """What a caller of a tool is told that policy or the entry takes away, "" = neither does."""
        why = self._rules.refusal(spec.name, tool) or entry_refusal(spec, tool)
        return f"The tool {clean(tool)[:80]} of the server {spec.name} cannot be used: {why}" if why else ""

    def nothing_left(self, view: View) -> str:
        """Why agents see no tool of this instance though it lists some, where policy or its entry take all away."""
        listed = self.listed(view)
        if len(listed.hidden) < len(listed.read):
            return ""
        return nothing_left(self._rules, view.spec, [tool.name for tool in listed.read])

    def unclean(self, view: View) -> tuple[str, ...]:
        """Warnings about what this instance says beside its tools: what agents are not shown of it."""
        known = self._unclean.get(view.key)
        if known is None or known[0] is not view.shelf:
            counted = unclean(view.shelf), overlong(view.shelf, self._text_length)
            known = self._unclean[view.key] = (view.shelf, counted)
        said = view.facts.instructions if view.facts is not None else ""
        removed, cut = known[1]
        counts = (("prompts and resources", removed), ("instructions", clean_counted(said)[1]))
        found = [f"{count} control characters removed from its {what}" for what, count in counts if count]
        if cut:
            found.append(f"{cut} texts of its prompts and resources are cut to {self._text_length} characters")
        if len(said) > MAX_ONE:
            found.append(f"its instructions are cut from {len(said)} to {MAX_ONE} characters")
        if others := mentions(said, prefix(view.key.name)):
            found.append(f"its instructions speak of {_few(others)}")
        return tuple(found)

    def refusal(
        self, visible: Mapping[str, InstanceKey], views: Mapping[InstanceKey, View], exposed: str, only: str = ""
    ) -> str:
        """Why a tool that would have this exposed name cannot be used; "" where none is. Not for the hot path."""
        for key in visible.values():
            if key not in views:
                continue
            listed = self.listed(views[key])
            for name, why in (*listed.withheld.items(), *listed.hidden.items()):
                if not only and not may_be_exposed_as(key.name, name, exposed, self._max_length):
                    continue
                shown = clean(name) if only else exposed_names(key.name, [name], tuple(visible), self._max_length)[0]
                if shown == exposed:
                    return why
        return ""

    def review(self, view: View) -> Review:
        """What a person would approve of this instance's tools, all that it lists."""
        listed = self.listed(view)
        return self._pins.review(view, listed.read) if self._pins is not None else Review("")

    def check(self, view: View) -> None:
        """Raise ConfigError where an approval of this instance's tools could not be kept now."""
        if self._pins is not None:
            self._pins.check(view)

    def approve(self, view: View) -> None:
        """The tools of this instance are as they should be; what was withheld is shown. Raises ConfigError."""
        if self._pins is not None:
            self._pins.approve(view, self.listed(view).read)
        for key in [key for key in self._read if (key.name, key.workspace) == (view.key.name, view.key.workspace)]:
            del self._read[key]
        self._merged.clear()

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be remembered of tools."""
        return tuple(self._pins.problems.values()) if self._pins is not None else ()

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
            limit=self._text_length,
        )
        self._libraries[workspace, only] = (stamp, library)
        return library

    def forget(self, alive: Mapping[InstanceKey, View], workspaces: set[str]) -> None:
        """Drop what no longer exists."""
        for key in [k for k in self._read if k not in alive]:
            del self._read[key]
        for key in [k for k in self._unclean if k not in alive]:
            del self._unclean[key]
        for part in [p for p in self._parts if p[0] not in alive]:
            del self._parts[part]
        for view in [v for v in self._merged if v[0] not in workspaces]:
            del self._merged[view]
        for view in [v for v in self._libraries if v[0] not in workspaces]:
            del self._libraries[view]


def _few(names: tuple[str, ...]) -> str:
    """Tools of other servers that a text names, a few of them."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"tools that other servers may have: {', '.join(names[:MAX_NAMED])}{more}"

"""Owns whether a tool may be listed and called: rules `SERVER/TOOL` of policy, and the names in its server's entry.

It must not know how a tool is exposed: rules are about the server's own name for it, and the name in the configuration.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mcphub.spec import Origin, ServerSpec

from .folding import folded, folded_names
from .glob import glob
from .rules import AllowList, Policy, ToolRule


def read_tool_rule(text: str, origin: Origin) -> ToolRule | None:
    """The rule that `SERVER/TOOL` is, None where it is none. A tool's own name may hold slashes, a server's not."""
    server, slash, tool = text.partition("/")
    return ToolRule(server, tool, origin) if slash and server and tool else None


class ToolRules(msgspec.Struct, frozen=True):
    """What policy says of tools. Equal values say the same."""

    allowed: tuple[AllowList, ...] | None = None
    denied: tuple[ToolRule, ...] = ()

    def refusal(self, server: str, tool: str) -> str:
        """Why policy forbids this tool, "" where it does not; the end of a sentence."""
        if self.denied:
            names, original = folded_names(server), folded(tool)
            for rule in self.denied:
                if any(glob(folded(rule.server), name) for name in names) and glob(folded(rule.tool), original):
                    return f"denied by the rule {rule.text!r} of {rule.origin}"
        if self.allowed is None:
            return ""
        for one in self.allowed:
            if not one.tools:
                return f"not allowed by policy: {one.origin} allows no usable tool"
        for one in self.allowed:
            for rule in one.tools:
                if glob(rule.server, server) and glob(rule.tool, tool):
                    return ""
        places = " and ".join(str(one.origin) for one in self.allowed)
        return f"not allowed by policy: no rule of {places} covers {server}/{tool[:80]}"


    def bars(self, server: str) -> tuple[str, Origin] | None:
        """Why policy forbids every tool of this server, whatever they are, and the place that decides; None where it
        depends on the tool."""
        names = folded_names(server)
        for rule in self.denied:
            if not rule.tool.strip("*") and any(glob(folded(rule.server), name) for name in names):
                return f"denied by the rule {rule.text!r} of {rule.origin}", rule.origin
        if self.allowed is None:
            return None
        for one in self.allowed:
            if not one.tools:
                return f"not allowed by policy: {one.origin} allows no usable tool", one.origin
        if any(glob(rule.server, server) for one in self.allowed for rule in one.tools):
            return None
        places = " and ".join(str(one.origin) for one in self.allowed)
        return f"not allowed by policy: no rule of {places} is about {server}", self.allowed[0].origin


NO_TOOL_RULES = ToolRules()
#: Reasons that are told where each tool has one of its own.
_FIRST = 3


def tool_rules(policy: Policy) -> ToolRules:
    """The part of policy that is about tools."""
    return ToolRules(policy.allowed_tools, policy.denied_tools)


def bars_all(rules: ToolRules, spec: ServerSpec) -> tuple[str, Origin] | None:
    """Why agents can see no tool of this server, whatever it lists: policy forbids it, or its own entry."""
    if (found := rules.bars(spec.name)) is not None:
        return found
    if spec.enabled_tools != ():
        return None
    origin = msgspec.structs.replace(spec.origin, key=f"{spec.origin.key}.enabledTools")
    return f"{origin} names no tool", origin


def nothing_left(rules: ToolRules, spec: ServerSpec, tools: Sequence[str]) -> str:
    """Why agents see none of these tools of a server, with file and key; "" where they see one, or there is none."""
    reasons: dict[str, None] = {}
    for tool in tools:
        reason = rules.refusal(spec.name, tool) or entry_refusal(spec, tool)
        if not reason:
            return ""
        end = f" covers {spec.name}/{tool[:80]}"
        reasons[f"{reason.removesuffix(end)} covers one of them" if reason.endswith(end) else reason] = None
    if not reasons:
        return ""
    barred = bars_all(rules, spec)
    told = [barred[0]] if barred is not None else list(reasons)[:_FIRST]
    more = f"; and {len(reasons) - len(told)} more reasons" if barred is None and len(reasons) > len(told) else ""
    return f"agents see none of its {len(tools)} tools: {'; '.join(told)}{more}"


def entry_refusal(spec: ServerSpec, tool: str) -> str:
    """Why the server's own entry hides this tool, "" where it does not; the end of a sentence."""
    place = f"{spec.origin.path}:{spec.origin.line}" if spec.origin.line else spec.origin.path
    if tool in spec.disabled_tools:
        return f"switched off by {place} {spec.origin.key}.disabledTools"
    if spec.enabled_tools is not None and tool not in spec.enabled_tools:
        return f"not among the tools that {place} {spec.origin.key}.enabledTools names"
    return ""

"""Owns whether a tool may be listed and called: rules `SERVER/TOOL` of policy, and the names in its server's entry.

It must not know how a tool is exposed: rules are about the server's own name for it, and the name in the configuration.
"""

from __future__ import annotations

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


NO_TOOL_RULES = ToolRules()


def tool_rules(policy: Policy) -> ToolRules:
    """The part of policy that is about tools."""
    return ToolRules(policy.allowed_tools, policy.denied_tools)


def entry_refusal(spec: ServerSpec, tool: str) -> str:
    """Why the server's own entry hides this tool, "" where it does not; the end of a sentence."""
    place = f"{spec.origin.path}:{spec.origin.line}" if spec.origin.line else spec.origin.path
    if tool in spec.disabled_tools:
        return f"switched off by {place} {spec.origin.key}.disabledTools"
    if spec.enabled_tools is not None and tool not in spec.enabled_tools:
        return f"not among the tools that {place} {spec.origin.key}.enabledTools names"
    return ""

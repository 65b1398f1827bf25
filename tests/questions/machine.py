"""Owns a machine made of texts: files as layers, resolved, for questions about it.

It must not read files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcphub.config.dedupe import Unwrap
from mcphub.config.document import parse_file
from mcphub.config.entries.context import Context
from mcphub.config.layer import Entry, Layer
from mcphub.config.managed_document import parse_managed
from mcphub.config.own_policy import read_own_policy
from mcphub.config.resolve import ResolvedSet, resolve
from mcphub.questions.explain import Facts, facts
from mcphub.spec import Origin, Scope, StdioSpec
from mcphub.store.approvals import Decisions

SETTINGS, ENTERPRISE = "/etc/mcphub/managed-settings.json", "/etc/mcphub/managed-mcp.json"
USER, PROJECT, OWN = "/u/mcp.json", "/w/.mcp.json", "/u/settings.toml"
#: The names that every machine here has for its files.
PATHS = {Scope.USER: USER, Scope.PROJECT: PROJECT, Scope.ENTERPRISE: ENTERPRISE, Scope.LOCAL: "/s/local.json"}
CATALOGUE = Unwrap(("proxy.example",))


def text(servers: Mapping[str, Any]) -> bytes:
    """One line an entry, so that the first stands in line 2."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in servers.items())
    return f'{{"mcpServers": {{\n{lines}\n}}}}'.encode()


def servers(scope: Scope, entries: Mapping[str, Any]) -> Layer:
    path = PATHS[scope]
    return parse_file(text(entries), scope=scope, path=path, directory=path.rpartition("/")[0])


def plugin(name: str, entries: Mapping[str, Any]) -> Layer:
    path = f"/p/{name}/.mcp.json"
    found = tuple(
        Entry(f"plugin:{name}:{key}", raw, Origin(Scope.PLUGIN, path, f"mcpServers.{key}", 2))
        for key, raw in entries.items()
    )
    return Layer(Scope.PLUGIN, path, f"/p/{name}", found)


def managed(document: Any) -> Layer:
    data = document.encode() if isinstance(document, str) else json.dumps(document, indent=1).encode()
    return parse_managed(data, path=SETTINGS, directory="/etc/mcphub")


def own(toml: str) -> Layer:
    return Layer(Scope.USER, OWN, policy=read_own_policy(toml.encode(), OWN))


def resolved(*layers: Layer, off: Mapping[str, str] | None = None) -> ResolvedSet:
    context = Context({"HOME": "/u"}, "/u/environment", switched_off=off or {}, workspace="/w")
    return resolve(layers, context, workspace="/w")


def nothing(spec: StdioSpec) -> tuple[str, ...]:
    return ()


def asked(name: str, one: ResolvedSet, decisions: Decisions | None = None) -> Facts:
    return facts(name, one, [one], decisions or {}, unwrap=CATALOGUE, executed=nothing)

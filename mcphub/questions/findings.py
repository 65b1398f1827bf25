"""Owns what is wrong with one file, of whatever kind: every problem and every warning, before it is put in force.

It must not read files. What it says is what the hub itself would say: the same readers are asked.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import replace

import msgspec

from mcphub.config import jsonc
from mcphub.config.document import SERVERS, parse_file, parse_servers
from mcphub.config.entries.context import Context, assumed
from mcphub.config.entries.entry import parse_entry
from mcphub.config.environment import parse_environment
from mcphub.config.identity_provider import KEY as IDP
from mcphub.config.identity_provider import WrittenIdp, read_idp, written_in
from mcphub.config.layer import Entry, Layer
from mcphub.config.managed_document import SERVERS as MANAGED_SERVERS
from mcphub.config.managed_document import misspelt_key, parse_managed
from mcphub.config.own_policy import read_own_policy
from mcphub.config.policy_keys import GUARDED, TABLE
from mcphub.config.remote_settings import KEY as REMOTE
from mcphub.config.settings import parse_settings
from mcphub.config.spelling import near_miss
from mcphub.policy.document import read_policy
from mcphub.spec import Origin, Problem, Scope
from mcphub.status import FindingsReport

#: Kinds of file, by what they are called in reports.
PROJECT, USER, ENTERPRISE = "project servers", "servers", "enterprise servers"
LOCAL, MANAGED, SETTINGS, ENVIRONMENT = "local servers", "managed settings", "hub settings", "environment"
#: What a plugin says of itself; it is looked at together with the files that it names.
PLUGIN = "plugin"
#: A property list, which this module is given as a layer.
PREFERENCES = "managed preferences"

_SCOPES = {PROJECT: Scope.PROJECT, USER: Scope.USER, ENTERPRISE: Scope.ENTERPRISE}


def file_kind(path: str, data: bytes) -> str:
    """What the file is by its name, and where that says nothing by its keys."""
    folder, name = posixpath.split(path)
    known = {".mcp.json": PROJECT, "managed-mcp.json": ENTERPRISE, "managed-settings.json": MANAGED}
    if name in known:
        return known[name]
    if name == "plugin.json":
        return PLUGIN
    if name.endswith(".toml"):
        return SETTINGS
    if name.endswith(".plist"):
        return PREFERENCES
    if posixpath.basename(folder) == "managed-settings.d":
        return MANAGED
    if not name.endswith((".json", ".jsonc")):
        return ENVIRONMENT
    try:
        top = jsonc.parse(data).value
    except jsonc.JsoncError:
        return USER
    if not isinstance(top, dict):
        return USER
    if any(key in top for key in (*GUARDED, MANAGED_SERVERS, REMOTE)):
        return MANAGED
    if SERVERS not in top and any(near_miss(key, (TABLE, *GUARDED)) or misspelt_key(key) for key in top):
        return MANAGED  # rules that are all misspelt are no servers yet
    return LOCAL if isinstance(top.get("project"), str) and SERVERS in top else USER


def findings(data: bytes, path: str, kind: str, context: Context) -> FindingsReport:
    """What the hub would say of this content at this path. A variable that is not set here is a warning: it may be set
    where the file is for. `context` is what entries are read against."""
    problems: list[str] = []
    warnings: list[str] = []
    if kind == ENVIRONMENT:
        problems += parse_environment(data, path)[1]
    elif kind == SETTINGS:
        problems += parse_settings(data, path, {})[1]
        settings, _ = parse_settings(data, path, {})
        problems += _idp(written_in(settings.xaa_idp, Origin(Scope.USER, path, IDP)), context)
        document = read_own_policy(data, path)
        if document is not None:
            policy = read_policy(document)
            if not (document.fault and problems):  # the same cause, said already
                problems += policy.closed
            warnings += policy.warnings
    else:
        return layer_findings(server_layer(data, path, kind), kind, context)
    return _report(path, kind, problems, warnings)


def layer_findings(layer: Layer, kind: str, context: Context) -> FindingsReport:
    """As `findings`, of a file that was read."""
    problems = [problem.message for problem in layer.problems]
    warnings = list(layer.warnings)
    problems += _idp(layer.idp, context)
    if layer.policy is not None:
        policy = read_policy(layer.policy)
        problems += policy.closed
        warnings += policy.warnings
    for entry in layer.entries:
        for severe, text in _entry(entry, layer.directory, context):
            (problems if severe else warnings).append(text)
    return _report(layer.path, kind, problems, warnings)


def _idp(written: WrittenIdp | None, context: Context) -> list[str]:
    """What is wrong with `xaaIdp`. What its secret refers to may be set where the file is for."""
    fault = read_idp(written, _Anything(context.env), assumed)[1] if written is not None else ""
    return [fault] if fault else []


class _Anything(dict[str, str]):
    """Variables that are all set."""

    def __missing__(self, key: str) -> str:
        return "x"

    def get(self, key: str, default: str | None = None) -> str:  # type: ignore[override]
        return self[key]


def _report(path: str, kind: str, problems: list[str], warnings: list[str]) -> FindingsReport:
    return FindingsReport(
        path=path, kind=kind, problems=list(dict.fromkeys(problems)), warnings=list(dict.fromkeys(warnings))
    )


def server_layer(data: bytes, path: str, kind: str) -> Layer:
    """A file that holds servers or rules, as the layer that it would be."""
    directory = posixpath.dirname(path)
    if kind == MANAGED:
        return parse_managed(data, path=path, directory=directory)
    if kind == LOCAL:
        document = jsonc.parse(data)
        found = parse_servers(document, SERVERS, scope=Scope.LOCAL, path=path)
        return msgspec.structs.replace(found, directory=document.value["project"])
    return parse_file(data, scope=_SCOPES[kind], path=path, directory=directory)


def _entry(entry: Entry, directory: str, context: Context) -> Iterator[tuple[bool, str]]:
    """(it is a problem, the text) for each thing to know of an entry."""
    parsed = parse_entry(entry, directory, context)
    if isinstance(parsed.outcome, Problem):
        yield not parsed.outcome.missing, parsed.outcome.message
        if parsed.outcome.missing:  # which was met before the rest was looked at
            rest = parse_entry(entry, directory, replace(context, switched_off={entry.name: ""}))
            if isinstance(rest.outcome, Problem):
                yield True, rest.outcome.message
            yield from ((False, text) for text in rest.warnings)
    yield from ((False, text) for text in parsed.warnings)

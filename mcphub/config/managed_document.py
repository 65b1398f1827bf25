"""Owns what one document of managed settings is: its servers as a layer, its rules for policy, where more is fetched.

It must not read files, nor know what a rule means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from mcphub.spec import Origin, Problem, Scope

from . import identity_provider, jsonc, remote_settings
from .document import file_problem, parse_servers
from .identity_provider import WrittenIdp
from .jsonc import Document, kind_of
from .layer import Entry, Layer
from .names import shown_name
from .policy_document import PolicyDocument
from .policy_keys import GUARDED, misspelt
from .remote_settings import RemoteSettings, parse_remote
from .spelling import near_miss

SERVERS = "managedMcpServers"
VERSION = "version"
#: The version of the format that this mcphub knows.
KNOWN_VERSION = 1

_KEYS = (SERVERS, remote_settings.KEY, VERSION)
_NO_SLIPS = frozenset([*GUARDED, "mcpServers"])
#: Those of `oauth` that may be a person's own.
SECRETS = ("clientSecret", "privateKey", "assertion")
#: Keys that decide which server an entry stands for.
_IDENTITY = ("command", "args", "cwd", "envFile", "url")


def parse_managed(data: bytes, *, path: str, directory: str, fetched: bool = False) -> Layer:
    """One file as a layer. Never raises: a document that cannot be used in full is a layer with a problem of name "",
    and its rules are closed. `fetched`: it came from `path`, a URL; then it may hold no programs, and name no place to
    fetch from."""
    try:
        document = jsonc.parse(data)
    except jsonc.JsoncError as error:
        place = f"{path}:{error.line}:{error.column}" if error.line else path
        return broken(path, directory, f"cannot use {place}: {error.message}", error.line)
    return managed_layer(document, path=path, directory=directory, fetched=fetched)


def managed_layer(document: Document, *, path: str, directory: str, fetched: bool = False) -> Layer:
    """As `parse_managed`, of values that were read in another way."""
    top = document.value
    if not isinstance(top, dict):
        message = f"cannot use {path}: expected an object at the top, found {kind_of(top)}"
        return broken(path, directory, message, document.line())
    layer = parse_servers(document, SERVERS, scope=Scope.MANAGED, path=path)
    faults = [problem for problem in layer.problems if problem.name == ""]
    problems = [problem for problem in layer.problems if problem.name != ""]
    entries: list[Entry] = []
    for entry in layer.entries:
        if cause := _entry_fault(entry.raw, fetched):
            message = f"cannot use server {entry.name}: {entry.origin}{cause}"
            problems.append(Problem(entry.name, entry.origin, message))
        else:
            entries.append(entry)

    remote: RemoteSettings | None = None
    if remote_settings.KEY in top:
        origin = Origin(Scope.MANAGED, path, remote_settings.KEY, document.line((remote_settings.KEY,)))
        try:
            if fetched:
                raise ValueError("fetched settings cannot name another place to fetch from")
            remote = parse_remote(top[remote_settings.KEY], origin)
        except ValueError as error:
            faults.append(Problem("", origin, f"cannot use {origin}: {error}"))
    if fault := _version_fault(top):
        origin = Origin(Scope.MANAGED, path, VERSION, document.line((VERSION,)))
        faults.append(Problem("", origin, f"cannot use {origin}: {fault}"))

    slips = {key: meant for key in top if (meant := misspelt_key(key))}
    for key, meant in slips.items():
        origin = Origin(Scope.MANAGED, path, shown_name(key), document.line((key,)))
        faults.append(Problem("", origin, f"cannot use {origin}: {misspelt(meant)}"))

    idp: WrittenIdp | None = None
    if (key := identity_provider.KEY) in top:
        idp = WrittenIdp(Origin(Scope.MANAGED, path, key, document.line((key,))), top[key])

    ours = (SERVERS, remote_settings.KEY, VERSION, "$schema", "mcpServers", *slips)
    rules = {key: value for key, value in top.items() if key not in ours}
    warnings = []
    if "mcpServers" in top:
        place = f"{path}:{document.line(('mcpServers',))} mcpServers"
        warnings.append(f"{place}: this key is not used; servers of managed settings go below {SERVERS!r}")
    policy = PolicyDocument(
        Origin(Scope.MANAGED, path, ""), rules, document.lines, faults[0].message if faults else ""
    )
    return Layer(
        Scope.MANAGED,
        path,
        directory,
        tuple(entries),
        (*faults, *problems),
        (*layer.warnings, *warnings),
        policy=policy,
        remote=remote,
        idp=idp,
    )


def misspelt_key(key: str) -> str:
    """The key of this document, no rule's, that `key` was probably meant to be, "" = none: it is a rule's, or another
    program's."""
    return "" if key in _NO_SLIPS else near_miss(key, _KEYS)


def broken(path: str, directory: str, message: str, line: int = 0) -> Layer:
    """The layer of managed settings of which nothing can be used."""
    layer = file_problem(Scope.MANAGED, path, directory, message, line)
    policy = PolicyDocument(Origin(Scope.MANAGED, path, "", line), fault=message)
    return msgspec.structs.replace(layer, policy=policy)


def _version_fault(top: Mapping[str, Any]) -> str:
    version = top.get(VERSION, KNOWN_VERSION)
    if isinstance(version, bool) or not isinstance(version, int):
        return f"expected a whole number, found {kind_of(version)}"
    if version > KNOWN_VERSION:
        return f"this mcphub knows up to version {KNOWN_VERSION}; install a newer one"
    return ""


def _entry_fault(raw: Mapping[str, Any], fetched: bool) -> str:
    """Why this cannot be a server of the organisation, with the key in front; "" when it can."""
    if fetched and "command" in raw:
        return ".command: settings that are fetched may name servers at https:// addresses only, and no programs"
    url = raw.get("url")
    if isinstance(url, str) and url and not url.lower().startswith("https://"):
        return ".url: expected an address that begins with https://"
    if "headersHelper" in raw:
        return ".headersHelper: a managed server has none"
    if fault := _oauth_fault(raw.get("oauth"), fetched):
        return f".oauth{fault}"
    for key in _IDENTITY:
        if any("${" in text for text in _texts(raw.get(key))):
            return f".{key}: what it is must not depend on a user's environment; write it without ${{...}}"
    return ""


def _oauth_fault(oauth: Any, fetched: bool) -> str:
    """What of `oauth` cannot be an organisation's, with the key in front."""
    if not isinstance(oauth, Mapping):
        return ""
    assertion = oauth.get("assertion")
    if assertion is not None and (fetched or (isinstance(assertion, Mapping) and "command" in assertion)):
        what = "settings that are fetched cannot use this machine's tokens" if fetched else "a managed server has none"
        return f".assertion{'' if fetched else '.command'}: {what}"
    for key, value in oauth.items():
        if key not in SECRETS and any("${" in text for text in _texts(value)):
            return f".{shown_name(key)}: who is signed in to must not depend on a user's environment; write no ${{...}}"
    return ""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (one for one in value if isinstance(one, str))

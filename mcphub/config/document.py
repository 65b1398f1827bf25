"""Owns what a configuration file is as a whole: bytes to a layer of entries, each still as it was written.

It must not read files, nor know what an entry means.
"""

from __future__ import annotations

from mcphub.spec import Origin, Problem, Scope

from . import jsonc
from .jsonc import kind_of
from .layer import Entry, Layer
from .names import case_twins, name_fault, shown_name

SERVERS = "mcpServers"


def parse_file(data: bytes, *, scope: Scope, path: str, directory: str) -> Layer:
    """One file as a layer. Never raises: a file that cannot be used is a layer with one problem of name "".

    The shape is `{"mcpServers": {NAME: {...}}}`; any other top-level key is a warning, VS Code's `servers` a problem.
    An entry that is no object, or has a name outside `[A-Za-z0-9_-]{1,64}`, is a problem of that entry alone.
    """
    try:
        document = jsonc.parse(data)
    except jsonc.JsoncError as error:
        place = f"{path}:{error.line}:{error.column}" if error.line else path
        return file_problem(scope, path, directory, f"cannot use {place}: {error.message}", error.line)
    top = document.value
    if not isinstance(top, dict):
        message = f"cannot use {path}:{document.line()}: expected an object at the top, found {kind_of(top)}"
        return file_problem(scope, path, directory, message, document.line())

    problems: list[Problem] = []
    warnings: list[str] = []
    for key, value in top.items():
        line = document.line((key,))
        place = f"{path}:{line} {shown_name(key)}"
        if key == "servers":
            cause = f"this is VS Code's key; rename it to {SERVERS!r} and the servers below it are read"
            problems.append(Problem("", Origin(scope, path, key, line), f"cannot use {place}: {cause}"))
        elif key not in (SERVERS, "$schema"):
            entry_like = isinstance(value, dict) and ("command" in value or "url" in value)
            hint = f"; a server goes below {SERVERS!r}" if entry_like else ""
            warnings.append(f"{place}: this key is not used{hint}")

    found = parse_servers(document, SERVERS, scope=scope, path=path)
    return Layer(
        scope, path, directory, found.entries, (*problems, *found.problems), (*warnings, *found.warnings)
    )


def parse_servers(document: jsonc.Document, key: str, *, scope: Scope, path: str) -> Layer:
    """The servers below `key` of the object that the document is, as a layer without a directory. Never raises."""
    problems: list[Problem] = []
    warnings: list[str] = []
    servers = document.value.get(key, {})
    if not isinstance(servers, dict):
        line = document.line((key,))
        message = f"cannot use {path}:{line} {key}: expected an object, found {kind_of(servers)}"
        problems.append(Problem("", Origin(scope, path, key, line), message))
        servers = {}
    entries: list[Entry] = []
    for name, raw in servers.items():
        shown = shown_name(name)
        lines = document.lines.below((key, name))
        origin = Origin(scope, path, f"{key}.{shown}", lines.number)
        if cause := name_fault(name):
            problems.append(Problem(shown, origin, f"cannot use server {shown}: {origin}: {cause}"))
        elif not isinstance(raw, dict):
            cause = f"expected an object, found {kind_of(raw)}"
            problems.append(Problem(shown, origin, f"cannot use server {shown}: {origin}: {cause}"))
        else:
            entries.append(Entry(name, raw, origin, lines))
    for name, first in case_twins(list(servers)).items():
        line = document.line((key, name))
        warnings.append(f"{path}:{line} {key}.{name}: differs from {first!r} in upper and lower case only")
    return Layer(scope, path, "", tuple(entries), tuple(problems), tuple(warnings))


def file_problem(scope: Scope, path: str, directory: str, message: str, line: int = 0) -> Layer:
    """The layer of a file that gives nothing, and why."""
    return Layer(scope, path, directory, problems=(Problem("", Origin(scope, path, "", line), message),))

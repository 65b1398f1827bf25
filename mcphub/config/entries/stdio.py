"""Owns what an entry says of a server that is a program: its command, arguments, environment and directory.

It must not know the fields that entries of every kind have, nor read the file that `envFile` names.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any

from mcphub.config.environment import blocked_in_project, valid_name
from mcphub.config.expand import looked_up
from mcphub.config.jsonc import kind_of
from mcphub.config.layer import Entry
from mcphub.config.masking import masked
from mcphub.spec import Scope, Secret, StdioSpec

from .context import Context, EnvFile
from .fields import Fault, hidden, mapping, no_string, one_of, refuse_nul, string, strings
from .limits import read_limits
from .reading import Expansion, Reading

_URL = re.compile(r"(?i)[a-z][a-z0-9+.-]+://")
#: What is to be said of a command that is one.
ADDRESS = "is an address and no program; write type and url for a remote server"
_WINDOWS = re.compile(r"(?i)[a-z]:[\\/].*|cmd|.*\.(?:exe|cmd|bat)")


def read_stdio(reading: Reading) -> StdioSpec:
    """The transport of an entry that has a `command`. Raises `Fault`."""
    raw = reading.raw
    expansion = Expansion(reading)
    command = _command(reading)
    args = strings(raw, "args")
    for index, arg in enumerate(args):
        if hidden(arg):
            reading.note("holds an invisible character", "args", index)
    _warn_of_secrets(reading, command, "command")
    for index, arg in enumerate(args):
        _warn_of_secrets(reading, arg, "args", index)
    env = _env(raw)
    cwd = string(raw, "cwd")
    env_file = string(raw, "envFile")
    shown = (command, *args) if reading.project else (command, *map(masked, args))

    expanded_command = expansion.expand(command, "command")
    expanded_args = tuple(Secret(expansion.expand(arg, "args", index)) for index, arg in enumerate(args))
    # A plugin's programs find its places in their environment too, as its hooks do.
    expanded_env = {name: Secret(text) for name, text in reading.entry.variables.items()}
    expanded_env |= {name: Secret(expansion.expand(text, "env", name)) for name, text in env.items()}
    expanded_cwd = expansion.expand(cwd, "cwd")
    if reading.project:
        _refuse_blocked(env, "env")
    if reading.enabled and env_file:
        from_file = _from_env_file(reading, env_file)
        if reading.project:
            _refuse_blocked(from_file, "envFile")
        expanded_env = from_file | expanded_env
    expansion.refuse_missing()
    if not expanded_command:
        raise Fault("is empty after its variables were replaced", "command")

    directory = _cwd(reading, expanded_cwd)
    if reading.told.get("cwd") == expanded_cwd:
        reading.told["cwd"] = directory
    return StdioSpec(
        command=expanded_command,
        args=expanded_args,
        env=expanded_env,
        shown=shown,
        cwd=directory,
        inherit_env=_inherit_env(raw),
        stdio=one_of(raw, "stdio", ("socketpair", "pipe"), "socketpair"),
        limits=read_limits(reading),
        shown_cwd=cwd if "$" in cwd else "",
    )


def is_address(command: object) -> bool:
    """Whether somebody wrote where a server is in the place of the program to run."""
    return isinstance(command, str) and _URL.match(command) is not None


def env_file_path(entry: Entry, directory: str, context: Context) -> str | None:
    """The absolute path of the file that `envFile` names, for the caller to read; None when there is none to read."""
    text = entry.raw.get("envFile")
    reading = Reading(entry, directory, context)
    if not isinstance(text, str) or not reading.enabled:
        return None
    try:
        return _env_file_path(reading, text)
    except Fault:
        # Reading the entry meets the same fault and reports it.
        return None


def _command(reading: Reading) -> str:
    command = reading.raw["command"]
    if isinstance(command, list):
        raise Fault("expected a string, found a list; put what follows the program into args", "command")
    command = string(reading.raw, "command")
    if not command.strip():
        raise Fault("is empty; give the program to run", "command")
    if command != command.rstrip():
        raise Fault("ends in white space, and no program is called so; remove it", "command")
    if command != command.lstrip():
        reading.note("begins with white space, which is part of the program's name", "command")
    elif "/" not in command and "\\" not in command and re.search(r"\s", command):
        reading.note("holds white space and is not split; put what follows the program into args", "command")
    if is_address(command):
        reading.note(ADDRESS, "command")
    if hidden(command):
        reading.note("holds an invisible character", "command")
    if _WINDOWS.fullmatch(command):
        reading.note("looks like an entry for Windows; this system may not have that program", "command")
    return command


def _warn_of_secrets(reading: Reading, text: str, *path: str | int) -> None:
    names = [name for name in looked_up(text) if name.startswith("secret:")]
    if names:
        one = ascii(f"${{{names[0]}}}")[1:-1]
        reading.note(f"puts {one} into the command line, where others can read it; use env instead", *path)


def _env(raw: Mapping[str, Any]) -> Mapping[str, str]:
    env = mapping(raw, "env")
    for name, value in env.items():
        if not valid_name(name):
            raise Fault("no variable can have this name", "env", name)
        if not isinstance(value, str):
            raise no_string(value, "env", name)
        refuse_nul(value, "env", name)
    return env


def _inherit_env(raw: Mapping[str, Any]) -> bool | tuple[str, ...]:
    value = raw.get("inheritEnv", False)
    if isinstance(value, bool):
        return value
    if not isinstance(value, list):
        raise Fault(f"expected true, false or a list of names, found {kind_of(value)}", "inheritEnv")
    return tuple(sorted(set(strings(raw, "inheritEnv"))))


def _cwd(reading: Reading, text: str) -> str:
    """The absolute directory; a project's servers start in its workspace, all others in the home directory ("").

    What is relative starts in the workspace, in a plugin's entry at the plugin's root."""
    if not text:
        return reading.workspace
    if posixpath.isabs(text):
        return posixpath.normpath(text)
    if not reading.enabled and "$" in text:
        return text
    if text.startswith("~"):
        raise Fault("~ is not replaced; write ${HOME}", "cwd")
    base = reading.workspace or (reading.directory if reading.entry.origin.scope is Scope.PLUGIN else "")
    if not base:
        raise Fault("expected an absolute path, for example ${HOME}/project", "cwd")
    return posixpath.normpath(posixpath.join(base, text))


def _env_file_path(reading: Reading, text: str) -> str:
    expansion = Expansion(reading)
    path = expansion.expand(text, "envFile")
    expansion.refuse_missing()
    if path.startswith("~"):
        raise Fault("~ is not replaced; write ${HOME}", "envFile")
    path = posixpath.normpath(posixpath.join(reading.directory, path))
    if not posixpath.isabs(path):
        raise Fault("expected an absolute path, for example ${HOME}/.env", "envFile")
    return path


def _from_env_file(reading: Reading, text: str) -> dict[str, Secret]:
    path = _env_file_path(reading, text)
    found = reading.context.env_files.get(path, EnvFile(error=f"cannot read {path}: No such file"))
    # A variable of the path is told as the file has it.
    shown = text if "$" in text else path
    if found.error:
        raise Fault(found.error.replace(path, shown), "envFile")
    for warning in found.warnings:
        reading.note(warning.replace(path, shown), "envFile")
    return {name: Secret(value) for name, value in found.values.items()}


def _refuse_blocked(names: Iterable[str], key: str) -> None:
    blocked = blocked_in_project(names)
    if not blocked:
        return
    path = (key, blocked[0]) if key == "env" else (key,)
    raise Fault(
        f"blocked: a project file may not set {', '.join(blocked)}, which can change the code that runs or whom it "
        "trusts; if you want it, set the server up in your own mcp.json",
        *path,
    )

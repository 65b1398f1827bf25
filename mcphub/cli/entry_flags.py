"""Owns what the flags of `mcphub add` mean as an entry of `mcpServers`; they are those of `claude mcp add`.

It must not write anything, nor read the process's environment. No message holds the value of a variable or a header.
"""

from __future__ import annotations

import re

from mcphub.cli.usage import UsageError
from mcphub.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

TRANSPORTS = ("stdio", "http", "sse", "ws")
#: The options of `add` that are followed by a value, for who sorts a command line.
_WITH_VALUE = (
    "-t", "--transport", "-s", "--scope", "-e", "--env", "-H", "--header", "--client-id", "--callback-port",
)
_URL = re.compile(r"(?i)(?:http|ws)s?://")
_ANY_URL = re.compile(r"(?i)[a-z][a-z0-9+.-]*://")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def sorted_arguments(arguments: Sequence[str]) -> list[str]:
    """The same command line with options first, then NAME, then `--` and what follows, since people write
    `add NAME --env K=V -- command --its-option` and `add NAME URL --header ...` as well. What stands behind `--` is
    never an option of ours; the first word that is no option is NAME, and once a word of a command follows it, neither
    is anything behind that."""
    options: list[str] = []
    words: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*options, *words, "--", *rest]
        if len(words) >= 2 and not _URL.match(words[1]):
            words += [word, *(one for one in rest)]
            return [*options, words[0], "--", *words[1:]]
        if word.startswith("-") and word != "-":
            options.append(word)
            if word in _WITH_VALUE and rest:
                options.append(rest.pop(0))
        else:
            words.append(word)
    return [*options, *words]


def entry_of(
    transport: str | None,
    words: Sequence[str],
    env: Sequence[str],
    headers: Sequence[str],
    environ: Mapping[str, str],
) -> tuple[dict[str, Any], dict[str, str]]:
    """The entry, and the variables that it refers to and that are to be kept for it.

    `words` are the command and its arguments, or one URL. `env` holds `K=V`, or `K`: its value is then taken from
    `environ`, and the entry gets `${K}` only, so that it stands neither in a process list nor in a file of servers.
    Raises UsageError, and ConfigError where `environ` lacks a variable.
    """
    if not words:
        raise UsageError("cannot add the server: give its URL, or -- and its command")
    if transport is None:
        alone = len(words) == 1 and _URL.match(words[0])
        transport = ("ws" if words[0].lower().startswith("ws") else "http") if alone else "stdio"
    if transport == "stdio":
        if headers:
            raise UsageError("cannot add the server: --header is for a server at a URL; a program has --env")
        if _URL.match(words[0]):
            raise UsageError("cannot add the server: a URL is no command; add --transport http (or sse, ws)")
        if _ANY_URL.match(words[0]):
            text = "servers are at http://, https://, ws:// or wss:// addresses; this one is no command either"
            raise UsageError(f"cannot add the server: {text}")
        variables, kept = _variables(env, environ)
        entry: dict[str, Any] = {"command": words[0]}
        if len(words) > 1:
            entry["args"] = list(words[1:])
        if variables:
            entry["env"] = variables
        return entry, kept
    if len(words) > 1:
        raise UsageError(f"cannot add the server: --transport {transport} takes one URL, and no arguments")
    if env:
        raise UsageError(
            "cannot add the server: --env is for a program; write --header 'Name: Bearer ${VARIABLE}', and keep the "
            "variable by `mcphub env set VARIABLE`"
        )
    entry = {"type": transport, "url": words[0]}
    if headers:
        entry["headers"] = _headers(headers)
    return entry, {}


def oauth_of(entry: Mapping[str, Any], client_id: str, port: int | None, secret: str) -> dict[str, Any]:
    """The `oauth` of an entry, {} where nothing was said. `secret` is the name that the client's secret is kept under,
    "" = it has none. Raises UsageError."""
    found: dict[str, Any] = {}
    if client_id:
        found["clientId"] = client_id
    if secret:
        if not client_id:
            raise UsageError("cannot add the server: --client-secret is the secret of --client-id")
        found["clientSecret"] = f"${{secret:{secret}}}"
    if port is not None:
        if not 0 < port < 65536:
            raise UsageError("cannot add the server: --callback-port takes 1 to 65535")
        found["callbackPort"] = port
    if found and entry.get("type") not in ("http", "sse"):
        raise UsageError("cannot add the server: --client-id and what belongs to it are for a server at an http URL")
    return found


def _variables(env: Sequence[str], environ: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    variables: dict[str, str] = {}
    kept: dict[str, str] = {}
    for item in env:
        name, equals, value = item.partition("=")
        if not name:
            raise UsageError("cannot add the server: --env takes NAME=VALUE or NAME")
        if name in variables:
            raise UsageError(f"cannot add the server: --env {name} is given twice")
        if not equals:
            if name not in environ:
                raise ConfigError(f"cannot add the server: --env {name}: your environment has no variable {name}")
            kept[name] = environ[name]
            value = f"${{{name}}}"
        variables[name] = value
    return variables, kept


def _headers(headers: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in headers:
        name, colon, value = item.partition(":")
        name = name.strip()
        if not colon or not _HEADER_NAME.fullmatch(name):
            raise UsageError("cannot add the server: --header takes 'Name: value'")
        if name.lower() in (one.lower() for one in found):
            raise UsageError(f"cannot add the server: --header {name} is given twice")
        found[name] = value.strip()
    return found

"""Owns which values of a server's entry must be seen nowhere, and what is shown in place of each: by position alone.

It must not know where text comes from, nor clean any: the log, stderr and faults are cleaned by what stands here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote

from mcphub.spec import SHORTEST_SECRET, HttpSpec, InProcessSpec, StdioSpec

from .masking import MASK, option_value
from .urls import secrets_of, shown_host, split_url

_REFERENCE = re.compile(r"\$\{[^{}]*\}")


def secret_values(
    transport: StdioSpec | HttpSpec | InProcessSpec, known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Value -> what is shown for it: those of `env` and `headers`, user and query of a URL, and each argument that is
    not shown as it is.

    `known` are variables that mcphub itself gave to the entry. Short values are left out, see `SHORTEST_SECRET`.
    """
    found: dict[str, str] = {}
    if isinstance(transport, StdioSpec):
        known = known or {}
        for name, value in transport.env.items():
            if known.get(name) != value:
                found[str(value)] = MASK
                if name == "PATH":  # a message has its absolute directories alone
                    found[":".join(one for one in value.split(":") if one.startswith("/"))] = MASK
        for arg, shown in zip(transport.args, transport.shown[1:], strict=False):
            if arg != shown:
                found[str(arg)] = shown
    elif isinstance(transport, HttpSpec):
        found = dict.fromkeys(secrets_of(transport), MASK)
    return {value: shown for value, shown in found.items() if len(value) >= SHORTEST_SECRET}


def own_values(transport: StdioSpec | HttpSpec | InProcessSpec) -> dict[str, str]:
    """Value -> what is shown for it where text is about this server; in others it is too common to be looked for.

    Command, helper, directory and address that hold a variable, as the file has them, with `${VAR}` kept; and of
    arguments that are not shown as they are: their variables, the value of an `--option=`, what they carry as a URL.
    """
    found: dict[str, str] = {}
    if isinstance(transport, StdioSpec):
        for arg, shown in zip(transport.args, transport.shown[1:], strict=False):
            if arg != shown:
                found |= dict.fromkeys(_inside(str(arg)), MASK)
                found |= _variables(shown, str(arg))
        if transport.shown and transport.command != transport.shown[0]:
            found |= _variables(transport.shown[0], transport.command)
            found[transport.command] = transport.shown[0]
        if "$" in transport.shown_cwd:
            found |= _variables(transport.shown_cwd, transport.cwd)
            found[transport.cwd] = transport.shown_cwd
    elif isinstance(transport, HttpSpec):
        if transport.helper is not None:
            words = zip(transport.helper.words, shlex.split(transport.helper.shown), strict=False)
            found |= {str(word): shown for word, shown in words if word != shown}
        if transport.tls is not None:
            found |= {getattr(transport.tls, part): text for part, text in transport.tls.shown}
        parts = split_url(str(transport.url)) if "$" in transport.shown else None
        if parts is not None:
            if host := shown_host(transport.shown):
                found[parts.hostname or ""] = host
            path = transport.shown.rpartition("://")[2].partition("?")[0].partition("/")[2]
            if "$" in path:
                found |= _variables(f"/{path}", parts.path)
                found[parts.path] = f"/{path}"
    return {value: shown for value, shown in found.items() if len(value) >= SHORTEST_SECRET}


def _variables(shown: str, text: str) -> dict[str, str]:
    """What the variables of `shown` were replaced by in `text`, as far as it can be told, with their references. A path
    is left out, as above."""
    found: dict[str, str] = {}
    at, last, name = 0, 0, ""
    for reference in (*_REFERENCE.finditer(shown), None):
        literal = shown[last : reference.start() if reference else len(shown)]
        begin = at
        if reference is None and literal:
            end = len(text) - len(literal) if text.endswith(literal) else -1
        else:
            end = text.find(literal, at) if literal or reference is not None else len(text)
        if end < begin:
            break
        if name and end > begin and not text[begin:end].startswith(("/", ".", "~")):
            found[text[begin:end]] = name
        if reference is not None:
            at, last, name = end + len(literal), reference.end(), reference.group()
    return found


def _inside(arg: str) -> set[str]:
    """What an argument carries that is a secret by itself. A path is none: it would blot out half of a log."""
    found: set[str] = set()
    value = option_value(arg)
    if value and not value.startswith(("/", ".", "~")):
        found.add(value)
    parts = split_url(value or arg)
    if parts is not None and parts.scheme and parts.netloc:
        found.discard(value)
        user, _, _ = parts.netloc.rpartition("@")
        found |= {user, *user.split(":"), *map(unquote, user.split(":"))}
        found |= {parts.query, *(text for _, text in parse_qsl(parts.query))}
    return found

"""Owns what a saved catalogue depends on that the key of its instance does not hold, as marks that can be compared.

It must not know catalogues or files of them, nor ask anybody: what only a connection can tell is in connection.source.
What the key holds: program, arguments, variables and directory, or URL and headers; `oauth` of the entry; workspace and
agent; a pinned era. What it does not: files behind it, variables that it takes over, and mcphub itself.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

from mcphub import __version__
from mcphub.config.environment import child_environment
from mcphub.config.urls import is_credential
from mcphub.protocol.versions import ALL
from mcphub.spec import HttpSpec, InProcessSpec, ServerSpec, StdioSpec
from mcphub.transport import program_files

#: Where somebody else says who mcphub is, each time: whose a list was cannot be told from one time to the next.
_NAMED_ELSEWHERE = ("wif", "xaa")


def is_kept(spec: ServerSpec) -> bool:
    """Whether a catalogue of such a server may be used by another daemon. Those in the daemon are what they are called,
    and asked at no cost; where a program, or an organisation, names the principal, only it could tell whether it is the
    same one."""
    transport = spec.transport
    if isinstance(transport, HttpSpec):
        return transport.helper is None and transport.oauth.mode not in _NAMED_ELSEWHERE
    return not isinstance(transport, InProcessSpec)


def program(spec: ServerSpec, environment: Mapping[str, str]) -> str:
    """What stands for the files of its program, "" for one that is elsewhere. Looks into the file system."""
    if not isinstance(spec.transport, StdioSpec):
        return ""
    stamps = program_files.stamps(spec.transport, environment)
    return hashlib.sha256(ascii(sorted(stamps.items())).encode("ascii")).hexdigest()[:32]


def around(spec: ServerSpec, environment: Mapping[str, str]) -> str:
    """What stands for the credentials that come from around it, and for what mcphub itself says; holds secrets."""
    transport = spec.transport
    parts: list[object] = [__version__, ALL]
    if isinstance(transport, StdioSpec) and transport.inherit_env:
        named = transport.inherit_env
        brought = child_environment(environment, transport)
        wanted = [name for name in brought if is_credential(name)] if isinstance(named, bool) else named
        names = [name for name in wanted if name in brought]
        parts += [(name, brought[name]) for name in sorted(names) if name not in transport.env]
    if isinstance(transport, HttpSpec) and transport.tls is not None:
        parts += [_stamp(path) for path in (transport.tls.cert, transport.tls.key, transport.tls.ca) if path]
    return ascii(parts)


def _stamp(path: str) -> tuple[str, int, int, int]:
    try:
        now = os.stat(path)
    except (OSError, ValueError):
        return path, 0, 0, 0
    return path, now.st_ino, now.st_size, now.st_mtime_ns

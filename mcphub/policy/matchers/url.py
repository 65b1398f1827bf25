"""Owns rules by URL: `{"serverUrl": "https://*.example.com/*"}`. Both sides are parsed and compared part by part.

It must not turn a pattern into a regular expression: a wildcard never reaches from one part of a URL into another
(case C127).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from mcphub.config.jsonc import kind_of
from mcphub.policy.candidate import Candidate
from mcphub.policy.glob import glob
from mcphub.policy.location import (
    DEFAULT_PORTS,
    Location,
    ascii_hosts,
    canonical_host,
    normal_path,
    normal_text,
    port_number,
    read_location,
    split_port,
)

from .matcher import Refused, Useless

_VARIABLE = re.compile(r"\$\{[^}]*\}")
_SCHEME = re.compile(r"[A-Za-z0-9+.*-]+")
_HOST = re.compile(r"[a-z0-9_*-]+(?:\.[a-z0-9_*-]+)*")
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\]")
#: A WebSocket is an HTTP connection that was taken over.
_SAME = {"wss": "https", "ws": "http"}


class UrlPattern(msgspec.Struct, frozen=True):
    """The parts of a pattern; None = every. `port` "" = the scheme's own, where the pattern is to allow.

    `hosts` are the names that the host stands for, each split at a leading `*.` into (`below`, the rest).
    """

    scheme: str | None
    hosts: tuple[tuple[bool, str], ...] | None
    port: int | None | str
    path: str | None
    query: str | None


_ANYWHERE = UrlPattern(None, None, None, None, None)


class UrlMatcher:
    """A pattern that allows means exactly its scheme, host, port and path: no port is the scheme's own, a leading `*.`
    one or more labels, another `*` part of one label or of one segment, at the end of the path all that follows. One
    that denies ignores scheme and port where it does not name them, and its `*` stops at nothing but the part's end. A
    pattern without a path means every path. A URL that cannot be read for certain is denied, and never allowed."""

    kind = "serverUrl"

    def read(self, value: Any, deny: bool) -> tuple[Any, str]:
        if not isinstance(value, str):
            raise Refused(f"expected a string, found {kind_of(value)}")
        if not value:
            raise Useless("the pattern is empty")
        warning = ""
        text = value
        if _VARIABLE.search(text):
            if not deny:
                raise Useless("variables are not replaced in policy; write the value")
            text = _VARIABLE.sub("*", text)
            warning = "a variable stands for any text in a rule that denies"
        if text == "*":
            return _ANYWHERE, warning
        pattern = _parse(text, deny)
        return pattern, warning

    def subject(self, candidate: Candidate) -> tuple[Location | None, ...] | None:
        return tuple(map(read_location, candidate.urls)) if candidate.kind == "remote" else None

    def key(self, pattern: UrlPattern, deny: bool) -> str | None:
        if pattern.hosts is None or len(pattern.hosts) != 1:
            return None
        tail = _tail(pattern.hosts[0][1])
        return None if "*" in tail else tail

    def keys(self, subject: tuple[Location | None, ...], deny: bool) -> set[str] | None:
        places = subject if deny else subject[:1]
        if None in places:
            return None
        return {key for where in places if where for key in (_tail(where.host), where.host.rpartition(".")[2])}

    def allows(self, pattern: UrlPattern, subject: tuple[Location | None, ...]) -> bool:
        # What stands behind a proxy cannot speak for the proxy that the connection goes to.
        where = subject[0]
        if where is None:
            return False
        if pattern is _ANYWHERE:
            return True
        return (
            (pattern.scheme is None or glob(pattern.scheme, where.scheme))
            and (pattern.hosts is None or any(_allowed_host(*host, where.host) for host in pattern.hosts))
            and (pattern.port is None or where.port == (pattern.port or DEFAULT_PORTS.get(where.scheme)))
            and (pattern.path is None or (where.plain and _allowed_path(pattern.path, where.path)))
            and (pattern.query is None or glob(pattern.query, where.query or ""))
        )

    def denies(self, pattern: UrlPattern, subject: tuple[Location | None, ...]) -> bool:
        return any(where is None or _denies(pattern, where) for where in subject)


def _parse(text: str, deny: bool) -> UrlPattern:
    if _UNSAFE.search(text):
        raise Refused("a pattern has no blanks, backslashes or control characters")
    scheme, mark, rest = text.partition("://")
    if not mark or "/" in scheme:
        if not deny:
            raise Useless(f"a pattern that allows names the scheme; write https://{text.lstrip('/')[:60]}")
        scheme, rest = "*", text.removeprefix("//")
    if not _SCHEME.fullmatch(scheme):
        raise Refused("this is no scheme; write https://HOST/PATH")
    scheme = scheme.lower()
    authority, path, query = _split(rest)
    if "@" in authority:
        raise Refused("a pattern has no user or password")
    split = split_port(authority)
    if split is None:
        raise Refused("host and port cannot be told apart; write https://HOST:PORT/PATH")
    host, port_text = split
    port: int | None | str = None if deny else ""
    if port_text == "*":
        port = None
    elif port_text:
        port = port_number(port_text)
        if port is None:
            raise Refused("this is no port; write a number from 1 to 65535, or *")
    try:
        normal = None if path is None else normal_path(path)
        normal_query = None if query is None else normal_text(query)
    except UnicodeEncodeError as error:
        raise Refused("holds half of a surrogate pair") from error
    if normal == "/*" or (deny and normal == "/"):
        normal = None
    return UrlPattern(None if scheme == "*" else scheme, _hosts(host, deny), port, normal, normal_query)


def _split(rest: str) -> tuple[str, str | None, str | None]:
    """(authority, path, query) of what stands behind `://`; a fragment says nothing."""
    rest = rest.partition("#")[0]
    rest, mark, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    return authority, "/" + path if slash else None, query if mark else None


def _hosts(text: str, deny: bool) -> tuple[tuple[bool, str], ...] | None:
    if text == "*":
        return None
    if not text:
        raise Refused("the pattern names no host; write * for every host")
    if "*" not in text:
        return tuple((False, host) for host in _names(text, deny))
    below = text.startswith("*.")
    rest = text.removeprefix("*.").removesuffix(".")
    if "*" not in rest:
        names = _names(rest, deny)
        if below and any(name.startswith("[") or name[-1].isdigit() for name in names):
            raise Useless("an address has nothing below it")
        return tuple((below, host) for host in names)
    text = text.removesuffix(".").lower()
    if not _HOST.fullmatch(text):
        raise Refused("this is no host; write letters that are not ASCII in their xn-- form beside a *")
    if not deny and "*" in text.rpartition(".")[2]:
        raise Useless("a * in the last part of the host would allow strangers' hosts; write the host in full, then /*")
    return ((below, rest.lower()),) if below else ((False, text),)


def _names(text: str, deny: bool) -> frozenset[str]:
    """The names that a host without wildcard stands for."""
    if not text.isascii():
        names = frozenset(filter(None, map(canonical_host, ascii_hosts(text))))
        if len(names) > 1 and not deny:
            raise Useless("programs disagree about this name; write its xn-- form")
    else:
        host = canonical_host(text)
        names = frozenset() if host is None else frozenset([host])
    if not names:
        raise Refused("this is no host")
    return names


def _tail(host: str) -> str:
    """The last two labels, or the only one."""
    rest, dot, last = host.rpartition(".")
    return f"{rest.rpartition('.')[2]}.{last}" if dot else last


def _allowed_host(below: bool, pattern: str, host: str) -> bool:
    labels, wanted = host.split("."), pattern.split(".")
    if below:
        if len(labels) <= len(wanted):
            return False
        labels = labels[-len(wanted) :]
    if "*" not in pattern:
        return labels == wanted
    return len(labels) == len(wanted) and all(map(glob, wanted, labels))


def _allowed_path(pattern: str, path: str) -> bool:
    if "*" not in pattern:
        return path == pattern
    ours, theirs = pattern.split("/"), path.split("/")
    if pattern.endswith("*") and len(theirs) >= len(ours):
        last = "/".join(theirs[len(ours) - 1 :])
        theirs = [*theirs[: len(ours) - 1], last]
    return len(ours) == len(theirs) and all(map(glob, ours, theirs))


def _denies(pattern: UrlPattern, where: Location) -> bool:
    if pattern.hosts is not None and not any(_denied_host(*host, where.host) for host in pattern.hosts):
        return False
    if pattern.scheme is not None and not (
        glob(pattern.scheme, where.scheme)
        or glob(_SAME.get(pattern.scheme, pattern.scheme), _SAME.get(where.scheme, where.scheme))
    ):
        return False
    if pattern.port not in (None, where.port):
        return False
    if pattern.path is not None and not any(_denied_path(pattern.path, path) for path in where.readings):
        return False
    return pattern.query is None or glob(pattern.query, where.query or "")


def _denied_host(below: bool, pattern: str, host: str) -> bool:
    if "*" in pattern:
        return glob("*." + pattern if below else pattern, host)
    return host.endswith("." + pattern) if below else host == pattern


def _denied_path(pattern: str, path: str) -> bool:
    # "" is the reading of a path that nobody can be sure of.
    return path == "" or glob(pattern, path) or glob(pattern.rstrip("/"), path.rstrip("/"))

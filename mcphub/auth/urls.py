"""Owns which URLs may be asked or shown while signing in, and when two are of one place (S1, S2; RFC 9728, RFC 8252).

It must not resolve or connect: what a name leads to is judged where it is connected to. URLs stay raw strings; what
is compared with another server's word is compared code point by code point.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit, urlunsplit

from mcphub.address import is_loopback
from mcphub.auth.failures import FlowFailure, SignInFailed, said

#: Characters of a URL that a server names.
LONGEST = 2048

_BAD = re.compile(r"[\x00-\x20\x7f\\<>\"`{}|^]")
_PORTS = {"http": 80, "https": 443}


def fault(url: str, *, plain: bool = False) -> str:
    """Why this URL may not be used for signing in, as the end of a sentence; "" = it may. `plain`: http is allowed too,
    on this machine: the server's own URL leads there, or its entry says so."""
    if len(url) > LONGEST:
        return f"is longer than {LONGEST} characters"
    if _BAD.search(url) or not url.isascii():
        return "has characters that no URL has"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "is no URL"
    if parts.scheme not in _PORTS or not parts.hostname:
        return "is not https:// with a host"
    if "@" in parts.netloc:
        return "has a user name in it"
    if "%" in parts.netloc:
        return "has a host that can be read in two ways"
    if "#" in url:
        return "has a fragment"
    if parts.scheme == "http" and not (plain and is_loopback(parts.hostname)):
        return "is plain http"
    return ""


def checked(url: object, field: str, *, plain: bool) -> str:
    """A URL that another server named in this field. Raises SignInFailed (`unsafe_url`) naming the field."""
    if not isinstance(url, str) or not url:
        raise SignInFailed(FlowFailure.DISCOVERY_FAILED, f"{field} is missing or no string")
    if why := fault(url, plain=plain):
        raise SignInFailed(FlowFailure.UNSAFE_URL, f"{field} {said(ascii(url)[1:-1])!r} {why}")
    return url


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host in lower case, port. `url` has been checked."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme, 0)


def origin_text(url: str) -> str:
    """`scheme://host[:port]` of a URL, for building others on it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def host_of(url: str) -> str:
    """Its host, for a person."""
    return urlsplit(url).netloc.rpartition("@")[2]


def local(url: str) -> bool:
    """Whether a URL leads to this machine itself."""
    return is_loopback(urlsplit(url).hostname or "")


def covers(resource: str, url: str) -> bool:
    """Whether a `resource` that metadata names is that of the server at `url`: the same origin, and a path that is
    equal to the server's or a whole-segment prefix of it (RFC 9728, 3.3)."""
    try:
        if _BAD.search(resource) or "#" in resource or "@" in urlsplit(resource).netloc:
            return False
        if origin(resource) != origin(url):
            return False
    except ValueError:
        return False
    prefix, path = urlsplit(resource).path.rstrip("/"), urlsplit(url).path.rstrip("/")
    return path == prefix or path.startswith(prefix + "/")


def canonical(url: str) -> str:
    """The resource that stands for a server without metadata: scheme and host in lower case, no default port, no
    fragment, nothing of a user (RFC 8707)."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port and parts.port != _PORTS.get(parts.scheme) else ""
    return urlunsplit(SplitResult(parts.scheme.lower(), host + port, parts.path, parts.query, ""))


def with_query(url: str, query: str) -> str:
    """`url` with more parameters behind those it has."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query=f"{parts.query}&{query}" if parts.query else query))

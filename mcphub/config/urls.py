"""Owns what the URL and the headers of an entry may be, and which variables a project may not put into them.

It must not know entries or files: a fault is the end of a sentence, "" where nothing is wrong.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from mcphub.address import is_loopback
from mcphub.spec import HttpSpec

DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
#: What an address of a server begins with, over HTTP and over a WebSocket.
HTTP_SCHEMES = ("http", "https")
WS_SCHEMES = ("ws", "wss")

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_NOT_IN_URL = re.compile(r"[\x00-\x20\x7f\\]")
_BREAKS = re.compile(r"[\r\n\x00]")
_CONTROLS = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]")

# What the hub or its HTTP client writes itself; a second value would contradict it.
_OURS = frozenset(
    [
        "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect",
        "host", "keep-alive", "last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    ]
)
_OURS_PREFIXES = ("mcp-param-", "sec-websocket-")

# Parts of a variable's name, between underscores, that say its value is a credential; and names that hold one inside.
_CREDENTIAL_PARTS = frozenset(
    [
        "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "KEY", "KEYS", "APIKEY", "AUTH",
        "COOKIE", "COOKIES", "PAT", "DSN", "CREDENTIAL", "CREDENTIALS", "BEARER", "PWD",
    ]
)
_CREDENTIAL_NAMES = frozenset(["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "DATABASE_URL", "REDIS_URL", "MONGODB_URI"])


def url_fault(url: str, schemes: tuple[str, ...] = HTTP_SCHEMES) -> str:
    """Why no server can be reached at this URL, which has one of these schemes."""
    if _NOT_IN_URL.search(url):
        return "a URL has no blanks, backslashes or control characters"
    parts = split_url(url)
    if parts is None:
        return "this is no URL"
    if parts.scheme not in schemes:
        return f"expected an address that begins with {' or '.join(f'{scheme}://' for scheme in schemes)}"
    if not parts.hostname:
        return "the URL names no host"
    return ""


def sign_in_fault(url: str) -> str:
    """Why nobody can be signed in at this URL: https, or http on this machine, and nothing that hides where it
    leads."""
    if fault := url_fault(url):
        return fault
    parts = split_url(url)
    assert parts is not None
    if open_host(url):
        return "expected an https:// address; http is for this machine alone"
    if "@" in parts.netloc:
        return "a URL for signing in has no user in it"
    return "a URL for signing in has no fragment" if "#" in url else ""


def open_host(url: str) -> str:
    """The host that a URL without TLS leads to, "" where TLS is used or the host is this machine."""
    parts = split_url(url)
    if parts is None or parts.scheme not in ("http", "ws") or not parts.hostname or is_loopback(parts.hostname):
        return ""
    return parts.hostname


def shown_host(shown: str) -> str:
    """The host as a URL that may be printed has it, where it holds a variable; "" = it holds none."""
    host = shown.rpartition("://")[2].partition("?")[0].partition("/")[0].rpartition("@")[2]
    return host if "$" in host else ""


def split_url(url: str) -> SplitResult | None:
    """The parts of a URL, host and port among them; None where it is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port, parts.hostname
    except ValueError:
        return None
    return parts


def secrets_of(transport: HttpSpec) -> set[str]:
    """What must not be seen of a remote server: the values of its headers, whole and without the word in front (as in
    `Bearer abc`), user and password of its URL, and the values of its query."""
    found = {str(value) for value in transport.headers.values()}
    found |= {value.partition(" ")[2].strip() for value in found}
    parts = split_url(str(transport.url))
    if parts is not None:
        user, _, _ = parts.netloc.rpartition("@")
        found |= {user, *user.split(":"), *map(unquote, user.split(":"))}
        found |= {parts.query, *(value for _, value in parse_qsl(parts.query))}
    if transport.helper is not None:
        # A word that holds no variable stands in the file just so.
        found |= {str(word) for word in transport.helper.words if word not in transport.helper.shown}
    oauth = transport.oauth
    found |= {str(oauth.client_secret), str(oauth.private_key)}
    if oauth.assertion is not None:
        found |= {str(word) for word in oauth.assertion.words if word not in oauth.assertion.shown}
    return found - {""}


def header_fault(name: str) -> str:
    """Why no header can have this name."""
    return "" if _TOKEN.fullmatch(name) else "no header can have this name"


def written_by_us(name: str) -> bool:
    """Whether mcphub itself writes this header."""
    return name.lower() in _OURS or name.lower().startswith(_OURS_PREFIXES)


def value_fault(value: str) -> str:
    """Why a header cannot have this value. The value itself is not repeated: it may be a secret."""
    if _BREAKS.search(value):
        return "a header's value cannot hold a line break or a NUL character"
    if _CONTROLS.search(value):
        return "a header's value cannot hold a control character"
    if not value.isascii() and any(ord(letter) > 0xFF for letter in value):
        return "a header's value cannot hold characters beyond Latin-1"
    return ""


def is_credential(variable: str) -> bool:
    """Whether a variable is a credential by its name. Its value must not leave with what a repository wrote."""
    name = variable.upper()
    return name in _CREDENTIAL_NAMES or not _CREDENTIAL_PARTS.isdisjoint(name.split("_"))

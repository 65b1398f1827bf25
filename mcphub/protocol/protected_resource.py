"""Owns where a server at a URL says who signs people in to it, and what of that is to be believed (RFC 9728).

It must not send anything. A person is told of a sign-in only where there is one.
"""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

import msgspec

from mcphub.protocol.jsonrpc import Raw

WELL_KNOWN = "/.well-known/oauth-protected-resource"
#: Where a server of revision 2025-03-26 says that it is its own authorization server.
OWN = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class _Metadata(msgspec.Struct):
    resource: str
    authorization_servers: list[Raw]


class _Server(msgspec.Struct):
    issuer: str
    authorization_endpoint: str


_decode = msgspec.json.Decoder(_Metadata).decode
_decode_server = msgspec.json.Decoder(_Server).decode
_string = msgspec.json.Decoder(str).decode


def places(url: str) -> tuple[str, ...]:
    """Where to look for the document, within the origin of the server's URL, in this order (RFC 9728, 3.1)."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    if not path:
        return (WELL_KNOWN,)
    query = f"?{parts.query}" if parts.query else ""
    return (f"{WELL_KNOWN}{path}{query}", WELL_KNOWN)


def authorization_server(document: bytes, url: str) -> str:
    """The first authorization server that the document names, as `scheme://host:port`, fit to be shown; "" where it is
    no such document, or one of another resource."""
    try:
        said = _decode(document)
        first = _string(said.authorization_servers[0])
        server, resource, own = urlsplit(first), urlsplit(said.resource), urlsplit(url)
        if _origin(resource) != _origin(own) or not _within(own.path, resource.path) or resource.fragment:
            return ""
        if server.scheme not in _DEFAULT_PORTS or not server.hostname:
            return ""
        port = f":{server.port}" if server.port else ""
    except (msgspec.DecodeError, RecursionError, IndexError, ValueError):
        return ""
    return ascii(f"{server.scheme}://{server.hostname}{port}")[1:-1][:120]


def is_server(document: bytes) -> bool:
    """Whether this is what an authorization server says of itself (RFC 8414)."""
    try:
        return bool(_decode_server(document).authorization_endpoint)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)


def _within(path: str, prefix: str) -> bool:
    """Whether a path lies below another, by whole segments."""
    prefix = prefix.rstrip("/")
    return path.rstrip("/") == prefix or path.startswith(prefix + "/")

"""Owns whom TLS trusts: the system's certificates, or those that the environment names.

It must not know servers.
"""

from __future__ import annotations

import functools
import os
import ssl
from collections.abc import Mapping

import httpx2

from mcphub.errors import TransportError
from mcphub.outbound.tls_handshake import TellingHandshake


def tls_context(env: Mapping[str, str]) -> ssl.SSLContext:
    """Whom to trust: the system's store, or SSL_CERT_FILE and SSL_CERT_DIR in its place; NODE_EXTRA_CA_CERTS adds to
    either. Verification cannot be turned off. Raises TransportError (kind `config`)."""
    names = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
    paths = [env.get(name) or env.get(name.lower()) or "" for name in names]
    for name, path in zip(names, paths, strict=True):
        if path and not os.path.exists(path):
            raise TransportError(f"cannot read the certificates of {name}: there is no {path}", kind="config")
    try:
        return _tls_context(*paths, tuple(os.stat(path).st_mtime_ns if path else 0 for path in paths))
    except (OSError, ssl.SSLError) as e:
        given = ", ".join(f"{name}={path}" for name, path in zip(names, paths, strict=True) if path)
        raise TransportError(f"cannot use the certificates of {given or 'the system'}: {e}", kind="config") from None


@functools.lru_cache(maxsize=4)
def _tls_context(file: str, directory: str, extra: str, changed: tuple[int, ...]) -> ssl.SSLContext:
    """Made once for all servers: the system's store is a megabyte, and 20 ms to read."""
    if file or directory:
        context = ssl.create_default_context(cafile=file or None, capath=directory or None)
    else:
        context = httpx2.create_ssl_context(trust_env=False)
    if extra:
        context.load_verify_locations(cafile=extra)
    context.sslobject_class = TellingHandshake
    return context


def trusting_nobody() -> ssl.SSLContext:
    """For http:// alone; costs nothing to make."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

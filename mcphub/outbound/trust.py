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
from mcphub.spec import TlsFiles

#: Bytes of a file that are looked through for what is missing.
_MOST = 1 << 20


def tls_context(env: Mapping[str, str], files: TlsFiles | None = None) -> ssl.SSLContext:
    """Whom to trust: the system's store, or SSL_CERT_FILE and SSL_CERT_DIR in its place; NODE_EXTRA_CA_CERTS adds to
    either. What an entry names in `files` counts for its server alone: its authorities are in place of all these.
    Verification cannot be turned off. Raises TransportError (kind `config`)."""
    context = _of_authorities(files.ca) if files is not None and files.ca else _of_environment(env, files is not None)
    if files is not None and files.cert:
        _show(context, files)
    return context


def _of_environment(env: Mapping[str, str], own: bool) -> ssl.SSLContext:
    """`own`: one that nobody else has, since a certificate that is loaded into it is shown to every server."""
    names = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
    paths = [env.get(name) or env.get(name.lower()) or "" for name in names]
    for name, path in zip(names, paths, strict=True):
        if path and not os.path.exists(path):
            raise TransportError(f"cannot read the certificates of {name}: there is no {path}", kind="config")
    try:
        if own:
            return _made(*paths)
        return _kept(*paths, tuple(os.stat(path).st_mtime_ns if path else 0 for path in paths))
    except (OSError, ssl.SSLError) as e:
        given = ", ".join(f"{name}={path}" for name, path in zip(names, paths, strict=True) if path)
        raise TransportError(f"cannot use the certificates of {given or 'the system'}: {e}", kind="config") from None


@functools.lru_cache(maxsize=4)
def _kept(file: str, directory: str, extra: str, changed: tuple[int, ...]) -> ssl.SSLContext:
    """Made once for all servers: the system's store is a megabyte, and 20 ms to read."""
    return _made(file, directory, extra)


def _made(file: str, directory: str, extra: str) -> ssl.SSLContext:
    if file or directory:
        context = ssl.create_default_context(cafile=file or None, capath=directory or None)
    else:
        context = httpx2.create_ssl_context(trust_env=False)
    if extra:
        context.load_verify_locations(cafile=extra)
    context.sslobject_class = TellingHandshake
    return context


def _of_authorities(path: str) -> ssl.SSLContext:
    """One that trusts those of this file alone."""
    try:
        context = ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as e:
        raise TransportError(f"cannot use the certificates of tls.ca {path}: {_why(e)}", kind="config") from None
    context.sslobject_class = TellingHandshake
    return context


def _show(context: ssl.SSLContext, files: TlsFiles) -> None:
    """Let it show the client certificate that the entry names."""
    try:
        # Without this the library asks for the password of a key on the terminal.
        context.load_cert_chain(files.cert, files.key or None, password=lambda: b"")
    except (OSError, ValueError) as e:  # of TLS too
        named = f"tls.cert {files.cert}" + (f" with tls.key {files.key}" if files.key else "")
        why = _lacks(files) or _why(e)
        raise TransportError(f"cannot use the client certificate of {named}: {why}", kind="config") from None


def _lacks(files: TlsFiles) -> str:
    """What is not in the files that name a client certificate, "" = nothing: TLS calls all of that by one name."""
    try:
        with open(files.cert, "rb") as file:
            cert = file.read(_MOST)
        with open(files.key or files.cert, "rb") as file:
            key = file.read(_MOST)
    except (OSError, ValueError):
        return ""
    if b"CERTIFICATE-----" not in cert:
        return "there is no certificate in tls.cert; PEM is expected"
    if b"PRIVATE KEY-----" in key:
        return ""
    if files.key:
        return "there is no private key in tls.key; PEM is expected, without a password"
    return "the private key is missing: name its file in tls.key, or put it into that of tls.cert"


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return "key values mismatch: the key is not that of the certificate"
    if isinstance(error, ssl.SSLError):
        return f"{(error.reason or str(error)).replace('_', ' ').lower()}; PEM is expected, without a password"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def trusting_nobody() -> ssl.SSLContext:
    """For http:// alone; costs nothing to make."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

"""Owns a TLS handshake that says whose certificate was refused: issuer and subject, which Python's error leaves out.

It must not decide whom to trust, nor know servers. A person behind a company's inspecting proxy knows it by the issuer.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Any

import anyio

#: Seconds for finding out whether a server wants TLS, or a certificate.
LOOK = 2.0
#: A type of record and one of message (RFC 8446, 5.1 and 4).
_HANDSHAKE = 22
_CERTIFICATE_REQUEST = 13

_SHORT = {"commonName": "CN", "organizationName": "O", "organizationalUnitName": "OU", "countryName": "C"}
#: Characters of a name that are shown.
SHOWN = 120


class TellingHandshake(ssl.SSLObject):
    """For `SSLContext.sslobject_class`. Refusals carry the note `issuer: ...; subject: ...`, where they can be had."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except ssl.SSLCertVerificationError as e:
            if said := _parties(self.__dict__.get("_sslobj")):
                e.add_note(said)
            raise


def parties(error: ssl.SSLCertVerificationError) -> str:
    """The note of a refusal in parentheses, "" where there is none."""
    return "".join(f" ({note})" for note in getattr(error, "__notes__", ()))


async def speaks_tls(host: str, port: int) -> bool:
    """Whether a server answers a TLS handshake, whoever it is: nothing is sent after it, and nobody is trusted."""
    return await _shaken(host, port, _trusting_anybody())


async def asks_for_certificate(host: str, port: int) -> bool:
    """Whether a server asks for a client certificate in its handshake, as it may do and still go without. Nothing is
    sent after it, nobody is trusted, and no certificate is shown."""
    context, asked = _trusting_anybody(), []

    def look(connection: object, direction: str, version: object, content: object, message: int, data: bytes) -> None:
        if direction == "read" and content == _HANDSHAKE and message == _CERTIFICATE_REQUEST:
            asked.append(True)

    # Not documented; where there is no such thing, nobody was asked.
    context._msg_callback = look  # type: ignore[attr-defined]
    await _shaken(host, port, context)
    return bool(asked)


def _trusting_anybody() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _shaken(host: str, port: int, context: ssl.SSLContext) -> bool:
    try:
        with anyio.fail_after(LOOK):
            stream = await anyio.connect_tcp(
                host, port, tls=True, ssl_context=context, tls_hostname=host, tls_standard_compatible=False
            )
            await anyio.aclose_forcefully(stream)
    except (OSError, anyio.BrokenResourceError, anyio.EndOfStream, ValueError):  # of TLS, and of time, too
        return False
    return True


def _parties(connection: Any) -> str:
    try:
        # Public from Python 3.13 on, and there only as bytes that the standard library cannot read.
        shown = connection.get_unverified_chain()[0].get_info()
        return f"issuer: {distinguished(shown['issuer'])}; subject: {distinguished(shown['subject'])}"
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, ssl.SSLError):
        return ""


def distinguished(name: Iterable[Iterable[tuple[str, str]]]) -> str:
    """A distinguished name as text (after RFC 4514), fit to be shown: it is the word of whoever answered."""
    parts = [f"{_SHORT.get(key, key)}={value}" for attributes in name for key, value in attributes]
    return ascii(", ".join(parts))[1:-1][:SHOWN] or "no name"

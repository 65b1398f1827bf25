"""Owns what an answer repeats of the secrets in the request that it is for: they are taken out of what is told of it.

It must not send, nor know any flow: which fields are secret is known by their names (RFC 6749, RFC 7521, RFC 7636,
RFC 8693). A server may have cut what it repeats, and may show it as it was sent or as it understood it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, quote, quote_plus, unquote_plus

from mcphub.auth.flow import Ask

MASK = "***"
#: Characters below which a value is not looked for, and those of a part that counts where a text was cut.
LEAST = 4
PART = 10

_FIELDS = frozenset(
    [
        "assertion", "client_assertion", "client_secret", "code", "code_verifier", "refresh_token", "subject_token",
        "actor_token", "token",
    ]
)
_HEADERS = frozenset(["authorization", "dpop"])


def secrets_of(ask: Ask) -> tuple[str, ...]:
    """All that is secret in a request, in every form in which it may come back, the longest first."""
    found: set[str] = set()
    for name, value in ask.headers:
        if name.lower() in _HEADERS:
            word, _, rest = value.partition(" ")
            found.add(rest or word)
            if word == "Basic":
                found |= _of_pair(rest)
    if ask.method == "POST" and not ask.body.startswith((b"{", b"[")):
        for name, value in parse_qsl(ask.body.decode("utf-8", "replace")):
            if name in _FIELDS:
                found.add(value)
    forms = {form for value in found for form in _forms(value)}
    return tuple(sorted((form for form in forms if len(form) >= LEAST), key=len, reverse=True))


def _of_pair(encoded: str) -> set[str]:
    """The secret of `Basic`, as it is in the pair and as it was before it was form-encoded."""
    try:
        secret = base64.b64decode(encoded).decode("utf-8").partition(":")[2]
    except ValueError:
        return set()
    return {secret, unquote_plus(secret), encoded.rstrip("=")}


def _forms(value: str) -> Iterable[str]:
    escaped = json.dumps(value)[1:-1]
    return value, escaped, escaped.replace("/", "\\/"), quote(value, safe=""), quote_plus(value), quote(value)


def veiled(text: str, secrets: tuple[str, ...]) -> str:
    """A text without them, nor the part of one that it begins or ends with."""
    if not secrets or not text:
        return text
    text = re.sub("|".join(map(re.escape, secrets)), MASK, text, flags=re.IGNORECASE)
    for secret in secrets:
        text = _without_ends(text, secret)
    return text


def _without_ends(text: str, secret: str) -> str:
    most = min(len(secret), len(text))
    for size in range(most, PART - 1, -1):
        if text.startswith(secret[-size:]):
            text = MASK + text[size:]
            break
    for size in range(min(len(secret), len(text)), PART - 1, -1):
        if text.endswith(secret[:size]):
            return text[:-size] + MASK
    return text

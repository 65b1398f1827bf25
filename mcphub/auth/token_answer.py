"""Owns what the answer of a token, registration or revocation endpoint means, whatever its form (RFC 6749, 5).

It must not know which grant was asked for, nor keep anything.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

import msgspec

from mcphub.auth import documents, quirks
from mcphub.auth.documents import Document
from mcphub.auth.echo import veiled
from mcphub.auth.failures import said
from mcphub.auth.flow import Answered, Reply, Unanswered
from mcphub.spec import Secret

#: Lifetimes above this many seconds are junk.
LONGEST_LIFE = 10 * 366 * 86400.0


class Granted(msgspec.Struct, frozen=True):
    """Tokens, as the answer has them. `expires_in` None = not said, or junk; `scopes` None = as requested."""

    access_token: Secret
    token_type: str
    expires_in: float | None = None
    refresh_token: Secret = Secret("")
    scopes: tuple[str, ...] | None = None
    document: Document = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Granted({self.token_type})"


class Refused(msgspec.Struct, frozen=True):
    """An OAuth error. `error` is a name of RFC 6749 where the server's word stands for one; `detail` what the server
    said of it, fit to be shown. `transient`: the same may work later. `retry_after` seconds, 0 = not said. `nonce`: a
    DPoP-Nonce that came with it."""

    error: str
    detail: str
    status: int = 0
    transient: bool = False
    retry_after: float = 0.0
    nonce: str = ""


class Malformed(msgspec.Struct, frozen=True):
    """A success that holds no usable token."""

    detail: str
    status: int = 0


class Lost(msgspec.Struct, frozen=True):
    """No answer came; `sent`: the server may have acted on the request. `transient`: another try may fare better, which
    it does not where the address may not be asked."""

    detail: str
    sent: bool
    transient: bool = True


Outcome = Granted | Refused | Malformed | Lost


def read_token(answer: Reply, *, dpop: bool = False, other: str = "") -> Outcome:
    """What a token endpoint answered. `dpop`: a proof was sent, so that a token may be bound to it. `other` is the
    `token_type` that is expected in place of one for a header (RFC 8693: `N_A`)."""
    found = read(answer)
    if not isinstance(found, tuple):
        return found
    document, status = found
    user = document.get("authed_user")
    if not documents.text(document, "access_token") and isinstance(user, dict):
        document = user  # Slack, for tokens of a person
    token = documents.text(document, "access_token")
    if not token:
        return Malformed("the answer has no access_token", status)
    if any(not 0x21 <= ord(sign) <= 0x7E for sign in token):
        return Malformed("the access_token has characters that no header can hold", status)
    kind = documents.text(document, "token_type").lower()
    shown = said(veiled(kind, answer.secrets)) if isinstance(answer, Answered) else ""
    if other:
        if kind != other.lower():
            return Malformed(f"its token_type is {shown!r}, not {other}", status)
        kind = other
    elif kind == "dpop" and dpop:
        kind = "DPoP"
    elif kind in quirks.BEARERS:
        kind = "Bearer"
    else:
        return Malformed(f"its token_type is {shown!r}", status)
    scope = document.get("scope")
    if isinstance(scope, list):
        scope = " ".join(one for one in scope if isinstance(one, str))
    return Granted(
        Secret(token),
        kind,
        lifetime(document.get("expires_in")),
        Secret(documents.text(document, "refresh_token")),
        tuple(dict.fromkeys(scope.replace(",", " ").split())) if isinstance(scope, str) else None,
        document,
    )


def read(answer: Reply) -> tuple[Document, int] | Refused | Malformed | Lost:
    """(the document of a success, its status), or what else it is. For every endpoint that a client posts to."""
    if isinstance(answer, Unanswered):
        if answer.kind == "redirect":
            return Refused("invalid_response", answer.detail)
        if answer.kind == "too_large":
            return Malformed(answer.detail)
        return Lost(answer.detail, answer.sent, transient=answer.kind != "unsafe")
    document = _document(answer)
    error = document.get("error") if document is not None else None
    if isinstance(error, dict):
        error = error.get("code") or error.get("type")  # some gateways put an object there
    if document is not None and (isinstance(error, str) or document.get("ok") is False):
        word = error if isinstance(error, str) and error else "invalid_request"
        word = veiled(word, answer.secrets)  # before it is cut, since half a secret is one too
        name = quirks.standard(word)
        text = documents.text(document, "error_description") or documents.text(document, "message")
        text = veiled(text, answer.secrets)
        status = answer.status if answer.status >= 400 else 400
        transient = name == "temporarily_unavailable" or (answer.transient and name not in quirks.DECIDED)
        detail = said(f"{word}: {text}" if text else word)
        return Refused(name, detail, status, transient, _after(answer), answer.headers.get("dpop-nonce", ""))
    if not answer.ok:
        text = f"HTTP {answer.status}"
        nonce = answer.headers.get("dpop-nonce", "")
        return Refused("", text, answer.status, answer.transient, _after(answer), nonce)
    if document is None:
        if not answer.body.strip():
            return {}, answer.status
        kind = answer.headers.get("content-type", "no type").partition(";")[0]
        return Malformed(f"the answer is no JSON ({said(kind)})", answer.status)
    return document, answer.status


def lifetime(value: object) -> float | None:
    """Seconds of `expires_in`, 0 = it is over; None where nothing usable is said (case C107)."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        value = int(value.strip()[:20])
    if not isinstance(value, int | float) or not value <= LONGEST_LIFE:
        return None
    return float(value) if value > 0 else 0.0


def _document(answer: Answered) -> Document | None:
    document = documents.read(answer.body)
    if document is not None:
        return document
    if not answer.body.lstrip().startswith(_OTHER) and (b"access_token=" in answer.body or b"error=" in answer.body):
        try:
            pairs = parse_qsl(answer.body.decode("ascii"), max_num_fields=64)
        except ValueError:
            return None
        return dict(pairs)
    return None


#: How a page or a broken document begins, and no form does.
_OTHER = (b"<", b"{", b"[", b'"')


def _after(answer: Answered) -> float:
    text = answer.headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0.0

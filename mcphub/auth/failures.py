"""Owns the closed lists of why a sign-in, a renewal or an exchange came to nothing: their names are API.

It must not know what is done about any of them, nor how a request is sent.
"""

from __future__ import annotations

import enum
import unicodedata

import msgspec

from mcphub.errors import McphubError

#: Characters of what another server said that are kept (S11).
MOST_SAID = 300


class FlowFailure(enum.StrEnum):
    """Why a person's sign-in did not end with a token."""

    DISCOVERY_FAILED = "discovery_failed"
    UNSAFE_URL = "unsafe_url"
    RESOURCE_MISMATCH = "resource_mismatch"
    ISSUER_MISMATCH = "issuer_mismatch"
    PKCE_UNSUPPORTED = "pkce_unsupported"
    CLIENT_REQUIRED = "client_required"
    CLIENT_UNUSABLE = "client_unusable"
    REGISTRATION_FAILED = "registration_failed"
    CALLBACK_UNAVAILABLE = "callback_unavailable"
    BROWSER_UNAVAILABLE = "browser_unavailable"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    DENIED = "denied"
    PROVIDER_ERROR = "provider_error"
    STATE_MISMATCH = "state_mismatch"
    EXCHANGE_FAILED = "exchange_failed"
    TOKEN_MALFORMED = "token_malformed"
    SCOPE_DENIED = "scope_denied"
    STORE_FAILED = "store_failed"


class RefreshFailure(enum.StrEnum):
    """Why an access token could not be had without a person."""

    METADATA_UNAVAILABLE = "metadata_unavailable"
    CLIENT_MISSING = "client_missing"
    CLIENT_REJECTED = "client_rejected"
    GRANT_REJECTED = "grant_rejected"
    SCOPE_REJECTED = "scope_rejected"
    TRANSIENT_EXHAUSTED = "transient_exhausted"
    REQUEST_REJECTED = "request_rejected"
    MALFORMED_ANSWER = "malformed_answer"
    STORE_FAILED = "store_failed"


class XaaFailure(enum.StrEnum):
    """Why an organisation's sign-in did not lead to a token for one server (SEP-990)."""

    IDP_LOGIN_REQUIRED = "idp_login_required"
    IDP_UNAVAILABLE = "idp_unavailable"
    ID_TOKEN_INVALID = "id_token_invalid"
    EXCHANGE_REJECTED = "exchange_rejected"
    POLICY_DENIED = "policy_denied"
    ASSERTION_REJECTED = "assertion_rejected"


class Unmet(enum.StrEnum):
    """What is wanted where nothing has failed: a person's first sign-in, one that allows more, the vault."""

    LOGIN_REQUIRED = "login_required"
    INSUFFICIENT_SCOPE = "insufficient_scope"
    STORE = "store"


Reason = FlowFailure | RefreshFailure | XaaFailure | Unmet

#: How the detail of IDP_LOGIN_REQUIRED begins where there was no login before.
NOBODY_YET = "nobody has signed in"
#: How a failure begins that says why a sign-in would be in vain: there is no place for its tokens.
NOT_KEPT = "its tokens could not be kept"

#: What a later try without a person may mend: tokens are kept, the server is not in `needs-auth` for it.
TRANSIENT = frozenset(
    [
        RefreshFailure.METADATA_UNAVAILABLE,
        RefreshFailure.TRANSIENT_EXHAUSTED,
        RefreshFailure.STORE_FAILED,
        XaaFailure.IDP_UNAVAILABLE,
    ]
)


class Failure(msgspec.Struct, frozen=True):
    """`detail` is one line for a person, free of secrets. `http_status` 0 and `oauth_error` "" = there was none.
    `retry`: the same may work later, without anybody doing anything."""

    reason: Reason
    detail: str
    http_status: int = 0
    oauth_error: str = ""
    retry: bool = False

    def __str__(self) -> str:
        return f"{self.detail} ({self.reason})"


class SignInFailed(McphubError):
    """A step of signing in came to nothing; `failure` says why."""

    def __init__(
        self, reason: Reason, detail: str, *, status: int = 0, error: str = "", retry: bool | None = None
    ) -> None:
        self.failure = Failure(reason, detail, status, error, reason in TRANSIENT if retry is None else retry)
        super().__init__(str(self.failure))

    @property
    def reason(self) -> Reason:
        return self.failure.reason


def without(failure: Failure, *secrets: str) -> Failure:
    """The same, where none of these values is left in what is said: a server may repeat what it was sent."""
    detail = failure.detail
    for secret in secrets:
        if secret:
            detail = detail.replace(str(secret), "***")
    return msgspec.structs.replace(failure, detail=detail) if detail != failure.detail else failure


def said(text: str) -> str:
    """What another server said, fit to be shown: no control or format characters, at most MOST_SAID long."""
    clean = "".join(" " if unicodedata.category(c) in _UNSEEN else c for c in text[: 2 * MOST_SAID])
    clean = " ".join(clean.split())
    return clean if len(clean) <= MOST_SAID else clean[: MOST_SAID - 1] + "…"


_UNSEEN = frozenset(["Cc", "Cf", "Cs", "Co", "Zl", "Zp"])

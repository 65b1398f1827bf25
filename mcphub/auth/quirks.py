"""Owns how authorization servers in the field differ from RFC 6749: their own words for its errors, as data.

It must not decide what follows from an error.
"""

from __future__ import annotations

from collections.abc import Mapping

_ALIASES: Mapping[str, str] = {
    "invalid_grant": "invalid_refresh_token expired_refresh_token bad_refresh_token token_expired token_revoked"
    " invalid_code code_already_used bad_verification_code authorization_not_found",
    "invalid_client": "incorrect_client_credentials bad_client_secret invalid_client_id bad_client_id",
    "unsupported_grant_type": "invalid_grant_type",
    "temporarily_unavailable": "ratelimited rate_limited internal_error fatal_error service_unavailable"
    " request_timeout server_error",
}
_STANDARD = {alias: name for name, aliases in _ALIASES.items() for alias in aliases.split()}

#: Errors that are an authorization server's decision: whatever the status of the answer, a later try brings the same.
DECIDED = frozenset(
    [
        "access_denied",
        "invalid_client",
        "invalid_grant",
        "invalid_scope",
        "invalid_target",
        "unauthorized_client",
        "unsupported_grant_type",
    ]
)
#: Words for a bearer token that are no `token_type` of any standard.
BEARERS = frozenset(["bearer", "user", "bot", ""])
#: Words of an `invalid_request` that is about the refresh token that was sent.
ABOUT_REFRESH_TOKENS = ("refresh token", "refresh_token", "refreshtoken")


def standard(error: str) -> str:
    """The error of RFC 6749 that such a word stands for; itself where it stands for none."""
    return _STANDARD.get(error.lower(), error)

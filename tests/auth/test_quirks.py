"""Words of authorization servers in the field for the errors of RFC 6749."""

from __future__ import annotations

import pytest

from mcphub.auth.quirks import BEARERS, DECIDED, standard


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "invalid_grant",
            "invalid_refresh_token expired_refresh_token bad_refresh_token token_expired token_revoked invalid_code"
            " code_already_used bad_verification_code authorization_not_found Invalid_Refresh_Token",
        ),
        ("invalid_client", "incorrect_client_credentials bad_client_secret invalid_client_id bad_client_id"),
        ("unsupported_grant_type", "invalid_grant_type"),
        (
            "temporarily_unavailable",
            "ratelimited rate_limited internal_error fatal_error service_unavailable request_timeout server_error",
        ),
    ],
)
def test_what_a_word_stands_for(name: str, words: str) -> None:
    """C107: each is that error, and the error is itself."""
    assert {standard(word) for word in (name, *words.split())} == {name}


@pytest.mark.parametrize("word", ["", "invalid_scope", "something_else", "Invalid"])
def test_any_other_word(word: str) -> None:
    """It stays what it is."""
    assert standard(word) == word


def test_the_tables() -> None:
    """Trouble is no decision; a bearer token has four names."""
    assert "temporarily_unavailable" not in DECIDED and "invalid_grant" in DECIDED
    assert {"bearer", "user", "bot", ""} == BEARERS

"""Why a sign-in came to nothing: closed lists, and what another server said about it."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from mcphub.auth.failures import (
    MOST_SAID,
    TRANSIENT,
    Failure,
    FlowFailure,
    RefreshFailure,
    SignInFailed,
    Unmet,
    XaaFailure,
    said,
)


def test_the_lists_are_closed() -> None:
    """Their names are API: who reads --json relies on them."""
    assert {str(one) for one in RefreshFailure} == {
        "metadata_unavailable", "client_missing", "client_rejected", "grant_rejected", "scope_rejected",
        "transient_exhausted", "request_rejected", "malformed_answer", "store_failed",
    }  # fmt: skip
    assert {str(one) for one in FlowFailure} == {
        "discovery_failed", "unsafe_url", "resource_mismatch", "issuer_mismatch", "pkce_unsupported",
        "client_required", "client_unusable", "registration_failed", "callback_unavailable", "browser_unavailable",
        "cancelled", "timed_out", "denied", "provider_error", "state_mismatch", "exchange_failed", "token_malformed",
        "scope_denied", "store_failed",
    }  # fmt: skip
    assert {str(one) for one in XaaFailure} == {
        "idp_login_required", "idp_unavailable", "id_token_invalid", "exchange_rejected", "policy_denied",
        "assertion_rejected",
    }  # fmt: skip
    assert {str(one) for one in Unmet} == {"login_required", "insufficient_scope", "store"}


def test_what_may_pass_by_itself() -> None:
    """Only trouble on the way, and at the place where tokens are kept; a caller can say otherwise."""
    assert {str(one) for one in TRANSIENT} == {
        "metadata_unavailable", "transient_exhausted", "store_failed", "idp_unavailable",
    }  # fmt: skip
    assert SignInFailed(RefreshFailure.TRANSIENT_EXHAUSTED, "x").failure.retry
    assert not SignInFailed(RefreshFailure.GRANT_REJECTED, "x").failure.retry
    assert SignInFailed(FlowFailure.DISCOVERY_FAILED, "x", retry=True).failure.retry


def test_a_failure_is_a_sentence_with_its_name() -> None:
    """The text for a person ends with the name that programs know."""
    failed = SignInFailed(FlowFailure.DENIED, "as.example says no", status=400, error="access_denied")
    assert str(failed) == "as.example says no (denied)"
    assert failed.failure == Failure(FlowFailure.DENIED, "as.example says no", 400, "access_denied")
    assert failed.reason is FlowFailure.DENIED


@given(st.text(max_size=700))
def test_what_another_server_said(text: str) -> None:
    """S11: one line of at most 300 signs, and none that a terminal or a reader does not show."""
    found = said(text)
    assert len(found) <= MOST_SAID
    assert not {unicodedata.category(sign) for sign in found} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    assert said(found) == found


def test_what_is_cut() -> None:
    """S11: what is too long ends with a sign for that; what turns the direction of reading is gone."""
    assert said("x" * 301) == "x" * 299 + "…"
    assert said("a\x1b[31mb\u202ec\r\n  d") == "a [31mb c d"

"""Tables for what close codes say."""

from __future__ import annotations

import pytest

from mcphub.outbound.close_codes import UNAUTHORIZED, closed, said


@pytest.mark.parametrize(
    ("code", "reason", "text"),
    [
        (1000, "", "1000 normal closure"),
        (1011, "out of memory", "1011 internal error: 'out of memory'"),
        (4999, "", "4999"),
        (4999, "\u001b[2J\u6f22", "4999: '\\x1b[2J\\u6f22'"),
        (1008, "x" * 500, f"1008 policy violation: '{'x' * 120}'"),
    ],
)
def test_said(code: int, reason: str, text: str) -> None:
    """A known code has its name; a server's own words are bounded, and fit to be shown."""
    assert said(code, reason) == text


@pytest.mark.parametrize("code", [1000, 1008, 1011, 3000, 3003, 4000, 4401, 4403])
def test_which_ask_for_credentials(code: int) -> None:
    """C183: the registered codes, and those that are written for 401 and 403."""
    assert closed(code, "").startswith(UNAUTHORIZED) == (code in (3000, 3003, 4401, 4403))

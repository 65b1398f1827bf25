"""Tables for what is printed of arguments and URLs."""

from __future__ import annotations

import pytest

from mcphub.config.masking import masked, masked_url


@pytest.mark.parametrize(
    ("arg", "shown"),
    [
        ("plain", "plain"),
        ("--flag", "--flag"),
        ("--api-key=tok-4", "--api-key=***"),
        ("-k=tok", "-k=***"),
        ("--api-key=${KEY}", "--api-key=${KEY}"),
        ("--api-key=${KEY:-tok}", "--api-key=***"),
        ("--empty=", "--empty="),
        ("https://u:pw@h.example/mcp?token=tok-3#x", "https://***@h.example/mcp?***"),
        ("https://h.example/mcp", "https://h.example/mcp"),
        ("postgres://me:pw@db/x", "postgres://***@db/x"),
    ],
)
def test_masking_is_by_position(arg: str, shown: str) -> None:
    """C025: what may hold a secret by its place is not shown, whatever it is called."""
    assert masked(arg) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h.example/mcp", "https://h.example/mcp"),
        ("https://u:pw@h.example:8443/mcp?token=t#x", "https://***@h.example:8443/mcp?***"),
        ("https://${TOKEN}@h.example/${EMPTY}?k=${TOKEN}", "https://***@h.example/${EMPTY}?***"),
        ("${BASE}/mcp?token=t", "${BASE}/mcp?***"),
        ("https://h.example/a@b", "https://h.example/a@b"),
    ],
)
def test_what_is_shown_of_a_url(url: str, shown: str) -> None:
    """C025: what stands before the host and behind the path is masked by position; `${VAR}` stays as it is written."""
    assert masked_url(url) == shown

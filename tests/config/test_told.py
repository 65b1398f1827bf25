"""Texts with their variables replaced, as a person sees them."""

from __future__ import annotations

import pytest

from mcphub.config.expand import Variables
from mcphub.config.told import told

ENV = {
    "PROG": "/usr/bin/python3", "API_TOKEN": "tok-12345", "DSN": "postgres://u:tok-12345@h/db", "EMPTY": "",
    "HOST": "evil.example", "OPEN": "https://me:pw@h/p?q=secret", "PIN": "1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("${PROG}", "/usr/bin/python3"),
        ("-m${PIN}${EMPTY}", "-m1"),
        ("${NONE:-/bin/sh}", "/bin/sh"),
        ("${workspaceFolder}/run", "/w/run"),
        ("--key=${API_TOKEN}", "--key=${API_TOKEN}"),
        ("${DSN}", "${DSN}"),
        ("--key=${secret:mine}", "--key=${secret:mine}"),
        ("https://${HOST}/mcp", "https://evil.example/mcp"),
        ("https://${PIN}:x@${HOST}/mcp?d=${PROG}", "https://***@evil.example/mcp?***"),
        ("--url=${OPEN}", "--url=https://***@h/p?***"),
        ("$HOME ${A-b} plain", "$HOME ${A-b} plain"),
    ],
)
def test_told(text: str, shown: str) -> None:
    """C133: the program and the place are told; a secret, and what holds one, stays a reference or is masked."""
    secrets = {"mine": "sec-12345"}
    assert told(text, Variables(ENV, "/w", None, secrets.get)) == shown

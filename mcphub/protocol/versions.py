"""Owns the protocol versions: which exist, which era each belongs to, what to answer to whom.

It must not know transports or sessions. Source: MCP spec, basic/versioning (2026-07-28), basic/lifecycle (2025-11-25).
"""

from __future__ import annotations

from typing import Literal

Era = Literal["legacy", "modern"]

LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
MODERN = ("2026-07-28",)
ALL = MODERN + LEGACY
LATEST_LEGACY = LEGACY[0]
LATEST_MODERN = MODERN[0]
#: Only peers of this version may send JSON-RPC batches.
BATCH_VERSION = "2025-03-26"


def answer_to_initialize(asked: str) -> str:
    """The version an `initialize` is answered with: the one asked for, else the newest that has a handshake."""
    return asked if asked in LEGACY else LATEST_LEGACY


def choose_modern(supported: list[str]) -> str | None:
    """The newest modern version that both sides speak."""
    return next((v for v in MODERN if v in supported), None)

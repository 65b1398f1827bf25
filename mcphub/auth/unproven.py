"""Owns what a JWT says before anybody has proved that it is genuine: for clear messages, never for a decision to trust.

It must not know keys, nor who made the token.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any


def claims_of(token: str) -> Mapping[str, Any] | None:
    """What is in it, None where it is no JWT."""
    return _part(token, 1)


def header_of(token: str) -> Mapping[str, Any] | None:
    """What its header says, None where it is no JWT."""
    return _part(token, 0)


def type_of(token: str) -> str:
    """The `typ` of its header in lower case, "" = it names none."""
    found = (header_of(token) or {}).get("typ")
    return found.lower().removeprefix("application/") if isinstance(found, str) else ""


def _part(token: str, number: int) -> Mapping[str, Any] | None:
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[number] + "=" * (-len(parts[number]) % 4)))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None

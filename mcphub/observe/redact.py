"""Owns the secrets that must not be logged, and their removal from text.

It must not know where a secret comes from, nor print one: a Redactor's repr shows none.
"""

from __future__ import annotations

import json
import re
from urllib.parse import quote

#: Characters below which a value is not looked for: `1`, `yes` and `on` would blot out the whole log.
LEAST = 4
MASK = "***"


class Redactor:
    """Replaces every registered value, also where it stands JSON-escaped, quoted by repr or percent-encoded."""

    __slots__ = ("_forms", "_pattern")

    def __init__(self) -> None:
        self._forms: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def hide(self, *values: str) -> None:
        """Register values; of one that spans lines, such as a key in PEM form, each line too."""
        before = len(self._forms)
        for value in map(str, values):  # a Secret as its plain text
            for text in {value, value.strip(), *value.splitlines()}:
                if len(text) >= LEAST:
                    self._forms |= {text, json.dumps(text)[1:-1], repr(text)[1:-1], quote(text, safe="")}
        if len(self._forms) > before:
            longest_first = sorted(self._forms, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def clean(self, text: str) -> str:
        """The text with every registered value masked."""
        return self._pattern.sub(MASK, text) if self._pattern else text

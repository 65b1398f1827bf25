"""Owns the secrets that must not be logged, and their removal from text.

It must not know where a secret comes from, nor print one: a Redactor's repr shows none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from urllib.parse import quote

#: Characters below which a value is not looked for: `1`, `yes` and `on` would blot out the whole log.
LEAST = 4
MASK = "***"
#: So many values that are renewed again and again are kept in mind; so many for each owner that is named.
FOR_NOW = 64
FOR_OWNER = 8
#: Values of an owner that are shorter are looked for like others; END is how many signs they are found by.
LONG = 12
END = 8
_GAP = re.compile(r"\s")
_RUN = re.compile(rf"\S{{{LONG},}}")


class Redactor:
    """Replaces every registered value, also where it stands JSON-escaped, quoted by repr or percent-encoded."""

    __slots__ = ("_ends", "_forms", "_owned", "_passing", "_pattern", "_shown")

    def __init__(self) -> None:
        self._forms: set[str] = set()
        #: Form -> what stands in its place, where that is not MASK.
        self._shown: dict[str, str] = {}
        #: Values that are forgotten in time, the oldest first.
        self._passing: dict[str, None] = {}
        #: By owner; and the forms of all of them by their last signs.
        self._owned: dict[str, dict[str, None]] = {}
        self._ends: dict[str, set[str]] = {}
        self._pattern: re.Pattern[str] | None = None

    def hide(self, *values: str, owner: str = "") -> None:
        """Register values; of one that spans lines, such as a key in PEM form, each line too. Of an owner, whose values
        others will follow, only the last FOR_OWNER are looked for."""
        if owner:
            self._own(owner, values)
            return
        before = len(self._forms)
        for value in values:
            self._forms |= _forms_of(value)
        if len(self._forms) > before:
            self._look_for()

    def show(self, texts: Mapping[str, str]) -> None:
        """Register values, each with the text that may stand in its place: `***` or what a file has for it."""
        for value, text in texts.items():
            self._shown |= dict.fromkeys(_forms_of(value), text)
        self.hide(*texts)

    def hide_for_now(self, *values: str) -> None:
        """Register values that others will follow, such as tokens that expire; only the last FOR_NOW are looked for."""
        for value in values:
            self._passing.pop(value, None)
            self._passing[value] = None
        while len(self._passing) > FOR_NOW:
            del self._passing[next(iter(self._passing))]
        self._look_for()

    def _own(self, owner: str, values: tuple[str, ...]) -> None:
        kept = self._owned.setdefault(owner, {})
        for value in map(str, values):
            if len(value) < LONG or _GAP.search(value):
                self.hide_for_now(value)
                continue
            kept.pop(value, None)
            kept[value] = None
            for form in _forms_of(value):
                self._ends.setdefault(form[-END:], set()).add(form)
        while len(kept) > FOR_OWNER:
            del kept[old := next(iter(kept))]
            for form in _forms_of(old):
                forms = self._ends[form[-END:]]
                forms.discard(form)
                if not forms:
                    del self._ends[form[-END:]]

    def _without_owned(self, text: str) -> str:
        """Tokens may be thousands, of a thousand characters each, and others every minute: too many for one pattern.
        Each is found by its last signs, which are chance where the first ones are the same for many."""
        parts: list[str] = []
        done = 0
        for run in _RUN.finditer(text):
            for end in range(run.start() + END, run.end() + 1):
                for form in self._ends.get(text[end - END : end], ()):
                    if end - len(form) >= done and text.endswith(form, 0, end):
                        parts += (text[done : end - len(form)], MASK)
                        done = end
                        break
        return "".join((*parts, text[done:])) if parts else text

    def _look_for(self) -> None:
        forms = self._forms.union(*map(_forms_of, self._passing))
        if forms:
            self._pattern = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))

    def clean(self, text: str) -> str:
        """The text with every registered value masked."""
        if self._ends:
            text = self._without_owned(text)
        if self._pattern is None:
            return text
        if not self._shown:
            return self._pattern.sub(MASK, text)
        return self._pattern.sub(lambda found: self._shown.get(found.group(), MASK), text)


def _forms_of(value: str) -> set[str]:
    """All that the value may look like in a text."""
    forms: set[str] = set()
    value = str(value)  # a Secret as its plain text
    for text in {value, value.strip(), *value.splitlines()}:
        if len(text) >= LEAST:
            escaped = json.dumps(text)[1:-1]
            forms |= {text, escaped, escaped.replace("/", "\\/"), repr(text)[1:-1], quote(text, safe="")}
    return forms

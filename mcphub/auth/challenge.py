"""Owns what a server says with a 401 or 403: the challenges of `WWW-Authenticate` (RFC 9110, 11.6; RFC 6750, 3).

It must not know what follows from one. The header is read sign by sign: a pattern over the whole of it would find
parameters inside the texts of others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

#: Bytes of all such headers of one answer, and challenges in them.
MOST_BYTES = 8192
MOST_CHALLENGES = 16

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TOKEN68 = re.compile(r"[A-Za-z0-9\-._~+/]+=*(?=[ \t]*(?:,|$))")
_BLANKS = re.compile(r"[ \t]*")
_SEPARATORS = re.compile(r"[ \t,]*")
_SCHEMES = ("bearer", "dpop")


class Challenge(msgspec.Struct, frozen=True):
    """What is used of a challenge; `scheme` is `bearer`, `dpop` or "" = the answer had none that we know."""

    scheme: str = ""
    resource_metadata: str = ""
    scope: str = ""
    error: str = ""
    error_description: str = ""

    @property
    def scopes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.scope.split()))


def parse(lines: Sequence[str]) -> Challenge:
    """The first challenge of a scheme that we know; what cannot be read ends the reading, and nothing else."""
    text = ", ".join(lines)[:MOST_BYTES]
    for number, (scheme, parameters) in enumerate(_challenges(text)):
        if number == MOST_CHALLENGES:
            break
        if scheme in _SCHEMES:
            names = ("resource_metadata", "scope", "error", "error_description")
            return Challenge(scheme, *(parameters.get(name, "") for name in names))
    return Challenge()


def _challenges(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    at = 0
    scheme: str | None = None
    parameters: dict[str, str] = {}
    while True:
        at = _past(_SEPARATORS, text, at)
        word = _TOKEN.match(text, at)
        if word is None:
            break
        parameter = _parameter(text, word) if scheme is not None else None
        if parameter is not None:
            name, value, at = parameter
            parameters.setdefault(name, value)
            continue
        if scheme is not None:
            yield scheme, parameters
        scheme, parameters = word[0].lower(), {}
        at = word.end()
        if not text.startswith((" ", "\t"), at):
            continue
        at = _past(_BLANKS, text, at)
        token68 = _TOKEN68.match(text, at)
        if token68 is not None:
            at = token68.end()
    if scheme is not None:
        yield scheme, parameters


def _parameter(text: str, word: re.Match[str]) -> tuple[str, str, int] | None:
    """(name, value, where it ends) of `name=value`, None where this is none."""
    at = _past(_BLANKS, text, word.end())
    if not text.startswith("=", at):
        return None
    at = _past(_BLANKS, text, at + 1)
    if text.startswith('"', at):
        value, at = _quoted(text, at + 1)
    else:
        plain = _TOKEN.match(text, at)
        # Some servers leave the quotes out around a URL.
        end = plain.end() if plain is not None else at
        while end < len(text) and text[end] not in ' \t,"':
            end += 1
        value, at = text[at:end], end
    return word[0].lower(), value, at


def _quoted(text: str, at: int) -> tuple[str, int]:
    out: list[str] = []
    while at < len(text):
        sign = text[at]
        if sign == '"':
            return "".join(out), at + 1
        if sign == "\\" and at + 1 < len(text):
            at += 1
            sign = text[at]
        out.append(sign)
        at += 1
    return "".join(out), at


def _past(what: re.Pattern[str], text: str, at: int) -> int:
    found = what.match(text, at)
    return found.end() if found is not None else at

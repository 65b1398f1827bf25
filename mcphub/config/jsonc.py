"""Owns reading JSON with comments and trailing commas into values, with the line of every key.

It must not know what the values mean, nor which file they came from.

Grammar: RFC 8259, plus `// line` and `/* block */` comments wherever white space may stand, plus one comma after the
last member of an object or array. Everything else is strict, because what was reviewed must be what runs: a key may
stand once in an object, NaN and Infinity are refused, numbers must fit, strings hold no raw control character and no
lone half of a surrogate pair, nesting ends at 100. Bytes are UTF-8; a leading BOM and CRLF line ends are accepted.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mcphub.errors import ConfigError

MAX_DEPTH = 100

_BLANK = re.compile(r"[ \t\r\n]*(?://[^\r\n]*|/\*.*?\*/|[ \t\r\n]+)*", re.DOTALL)
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<fraction>\.[0-9]+)?(?P<exponent>[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z0-9_.+-]+")
_NEWLINE = re.compile(r"\r\n|\n|\r")
_HEX4 = re.compile(r"[0-9A-Fa-f]{4}")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS: Mapping[str, Any] = {"true": True, "false": False, "null": None}
_KINDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
    type(None): "null",
}
#: Longer integers would make CPython's int() refuse or crawl; no number of a config file comes near.
_MAX_DIGITS = 300


class JsoncError(ConfigError):
    """The text is not acceptable. `line` and `column` are 1-based, columns count characters; 0 where there is no
    text."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


class Lines(msgspec.Struct, frozen=True):
    """The line that a value starts on (for a member: that of its key), and the same for all that is inside it."""

    number: int = 0
    inside: Mapping[str | int, Lines] = msgspec.field(default_factory=dict)

    def below(self, path: tuple[str | int, ...]) -> Lines:
        """The lines at `path`; where it does not lead anywhere, those of the nearest value above it."""
        found = self
        for step in path:
            child = found.inside.get(step)
            if child is None:
                return Lines(found.number)
            found = child
        return found

    def line(self, path: tuple[str | int, ...] = ()) -> int:
        """The 1-based line at `path`, or that of the nearest value above it."""
        return self.below(path).number


@dataclass(frozen=True, slots=True)
class Document:
    """What a file says: plain Python values, and where each key stands."""

    value: Any = field(repr=False)
    lines: Lines = field(repr=False)

    def line(self, path: tuple[str | int, ...] = ()) -> int:
        """The 1-based line of the key (or array element) at `path`."""
        return self.lines.line(path)


def parse(data: bytes) -> Document:
    """Read one whole document.

    Raises `JsoncError` for anything outside the grammar above; never RecursionError, never a partial value.
    """
    return _Reader(_decode(data)).document()


def kind_of(value: Any) -> str:
    """What kind of JSON value this is, as the end of "expected ..., found"."""
    return _KINDS.get(type(value), "something else")


def _decode(data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise JsoncError("not UTF-8 at byte 0 (this looks like UTF-16; save it as UTF-8)", 0, 0)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsoncError(f"not UTF-8 at byte {error.start}", 0, 0) from error
    return text.removeprefix("\ufeff")


class _Reader:
    """One pass over one text; `at` is the offset of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._starts = [0, *(found.end() for found in _NEWLINE.finditer(text))]

    def document(self) -> Document:
        self._blank()
        number = self._line(self.at)
        value, inside = self._value(0)
        self._blank()
        if self.at < len(self.text):
            raise self._error("text after the end of the document")
        return Document(value, Lines(number, inside))

    def _line(self, offset: int) -> int:
        return bisect_right(self._starts, offset)

    def _error(self, message: str, offset: int | None = None) -> JsoncError:
        at = self.at if offset is None else offset
        line = self._line(at)
        return JsoncError(message, line, at - self._starts[line - 1] + 1)

    def _blank(self) -> None:
        found = _BLANK.match(self.text, self.at)
        assert found is not None
        self.at = found.end()
        if self.text.startswith("/*", self.at):
            raise self._error("comment without end: expected */")

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _value(self, depth: int) -> tuple[Any, Mapping[str | int, Lines]]:
        first = self._next()
        if first in ("{", "["):
            if depth >= MAX_DEPTH:
                raise self._error(f"nested deeper than {MAX_DEPTH} levels")
            return self._object(depth + 1) if first == "{" else self._array(depth + 1)
        if first == '"':
            return self._string(), {}
        return self._scalar(), {}

    def _object(self, depth: int) -> tuple[dict[str, Any], Mapping[str | int, Lines]]:
        value: dict[str, Any] = {}
        lines: dict[str | int, Lines] = {}
        self.at += 1
        while True:
            self._blank()
            if self._next() == "}":
                self.at += 1
                return value, lines
            start = self.at
            if self._next() != '"':
                raise self._error(f'expected a key in double quotes or "}}", found {self._found()}')
            key = self._string()
            number = self._line(start)
            if key in value:
                shown = key if len(key) <= 64 else key[:64] + "..."
                first = lines[key].number
                raise self._error(f"duplicate key {shown!a}, first on line {first}, again on line {number}", start)
            self._blank()
            if self._next() != ":":
                raise self._error(f'expected ":" after a key, found {self._found()}')
            self.at += 1
            self._blank()
            value[key], inside = self._value(depth)
            lines[key] = Lines(number, inside)
            self._separator("}")

    def _array(self, depth: int) -> tuple[list[Any], Mapping[str | int, Lines]]:
        value: list[Any] = []
        lines: dict[str | int, Lines] = {}
        self.at += 1
        while True:
            self._blank()
            if self._next() == "]":
                self.at += 1
                return value, lines
            number = self._line(self.at)
            item, inside = self._value(depth)
            lines[len(value)] = Lines(number, inside)
            value.append(item)
            self._separator("]")

    def _separator(self, end: str) -> None:
        """Past the comma, if one is next; only `end` may stand there otherwise."""
        self._blank()
        if self._next() == ",":
            self.at += 1
        elif self._next() != end:
            raise self._error(f'expected "," or "{end}", found {self._found()}')

    def _string(self) -> str:
        start = self.at
        self.at += 1
        parts: list[str] = []
        while True:
            plain = _PLAIN.match(self.text, self.at)
            assert plain is not None
            parts.append(plain.group())
            self.at = plain.end()
            stop = self._next()
            if stop == '"':
                self.at += 1
                return "".join(parts)
            if stop == "\\":
                parts.append(self._escape())
            elif stop in ("\n", "\r", ""):
                raise self._error("string without end: expected a closing double quote", start)
            else:
                raise self._error(f"control character U+{ord(stop):04X} inside a string; write it as an escape")

    def _escape(self) -> str:
        start = self.at
        letter = self.text[self.at + 1 : self.at + 2]
        if letter == "u":
            code = self._hex4(start)
            if 0xDC00 <= code <= 0xDFFF:
                raise self._error("half of a surrogate pair", start)
            if 0xD800 <= code <= 0xDBFF:
                low = self._hex4(start) if self.text.startswith("\\u", self.at) else 0
                if not 0xDC00 <= low <= 0xDFFF:
                    raise self._error("half of a surrogate pair", start)
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            return chr(code)
        if letter not in _ESCAPES:
            raise self._error("unknown escape in a string", start)
        self.at += 2
        return _ESCAPES[letter]

    def _hex4(self, start: int) -> int:
        found = _HEX4.match(self.text, self.at + 2)
        if found is None:
            raise self._error("expected four hex digits after \\u", start)
        self.at = found.end()
        return int(found.group(), 16)

    def _scalar(self) -> Any:
        word = _WORD.match(self.text, self.at)
        if word is None:
            raise self._error(f"expected a value, found {self._found()}")
        text = word.group()
        if text in _LITERALS:
            self.at = word.end()
            return _LITERALS[text]
        number = _NUMBER.fullmatch(text)
        if number is None:
            raise self._error(f"expected a value, found {text[:40]!a}")
        if len(text) > _MAX_DIGITS:
            raise self._error("number with too many digits")
        value = int(text) if number["fraction"] is None and number["exponent"] is None else float(text)
        if value in (float("inf"), float("-inf")):
            raise self._error("number too large")
        self.at = word.end()
        return value

    def _found(self) -> str:
        next_ = self._next()
        return "the end of the file" if next_ == "" else ascii(next_)

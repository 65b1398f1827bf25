"""Owns how text that others wrote is made fit for a terminal or a log: what is not plainly visible becomes an escape.

It must not know who wrote it, nor import anything heavy: the command line starts with it. Pure.

Not plainly visible are the C0 and C1 controls with ESC, line breaks, bidirectional controls, Unicode tags, zero-width
characters, fillers, lone surrogates, private and unassigned characters.
"""

from __future__ import annotations

#: Blanks other than the space, which are harmless and which Chinese, Japanese and French text uses.
_BLANKS = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
#: Joiners that words of several scripts, and emoji, are written with; in a name they would only deceive.
_JOINERS = "\u200c\u200d"
#: Printable in Unicode's eyes, invisible in a person's: fillers, and variation selectors that can carry hidden text.
_INVISIBLE = frozenset([0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0xE0100, 0xE01F0)])
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def line(text: str) -> str:
    """The text on one line, its line breaks escaped."""
    return text if text.isascii() and text.isprintable() else _escaped(text, _BLANKS)


def block(text: str) -> str:
    """The text over several lines: line breaks, tabs and joiners stay, CR LF becomes LF."""
    text = text.replace("\r\n", "\n")
    return text if text.isascii() and text.isprintable() else _escaped(text, _BLANKS + _JOINERS + "\n\t")


def json_document(text: str) -> str:
    """A JSON document with its invisible characters as JSON escapes; outside strings JSON has none but line breaks."""
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(char if _visible(char) or char == "\n" else _json_escape(ord(char)) for char in text)


def _escaped(text: str, keep: str) -> str:
    return "".join(char if _visible(char) or char in keep else _NAMED.get(char) or _escape(ord(char)) for char in text)


def _visible(char: str) -> bool:
    return char.isprintable() and ord(char) not in _INVISIBLE


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(code: int) -> str:
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"

"""Owns changing one variable of an environment file that a person wrote: text in, text out.

It must not know files, nor what a variable is for. What is not the changed line stays byte for byte.
"""

from __future__ import annotations

import re

from mcphub.errors import ConfigError

from .environment import parse_environment

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LINE = re.compile(
    r"(?P<head>\ufeff?[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=)[^\n]*?(?P<end>\r?\n?)"
)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}


def name_fault(name: str) -> str:
    """Why an environment file cannot hold this name, "" when it can."""
    return "" if _NAME.fullmatch(name) else "a variable has letters, digits and _, and begins with no digit"


def set_variable(data: bytes | None, name: str, value: str) -> bytes:
    """`data` with this variable: the line that counts is changed in its place, else one is added at the end.

    Raises ConfigError for a name or value that no such file can hold, or a file that is not UTF-8; no text of it holds
    the value.
    """
    if fault := name_fault(name):
        raise ConfigError(fault)
    if "\0" in value:
        raise ConfigError("a value cannot hold a NUL character")
    text = _text(data)
    lines = _lines(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    places = [index for index, line in enumerate(lines) if _sets(line, name)]
    written = _written(value)
    if places:
        found = _LINE.fullmatch(lines[places[-1]])
        assert found is not None
        lines[places[-1]] = f"{found['head']}{written}{found['end']}"
    else:
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += newline
        lines.append(f"{name}={written}{newline}")
    return _bytes("".join(lines), {name: value})


def unset_variable(data: bytes | None, name: str) -> bytes:
    """`data` without any line that sets this variable. Raises ConfigError as `set_variable`."""
    lines = _lines(_text(data))
    return "".join(line for line in lines if not _sets(line, name)).encode()


def _text(data: bytes | None) -> str:
    try:
        return (data or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"it is not UTF-8 at byte {error.start}") from None


def _lines(text: str) -> list[str]:
    """The lines as `parse_environment` sees them, each with its end."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _sets(line: str, name: str) -> bool:
    found = _LINE.fullmatch(line)
    return found is not None and found["name"] == name


def _written(value: str) -> str:
    """The value so that `parse_environment` reads it back; quoted only where it must be."""
    plain = value == value.strip(" \t\r\n") and not value.startswith(("'", '"')) and not set(value) & {"\n", "\r"}
    return value if plain else '"' + "".join(_ESCAPES.get(letter, letter) for letter in value) + '"'


def _bytes(text: str, wanted: dict[str, str]) -> bytes:
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError("the value is not Unicode text") from None
    values, _ = parse_environment(data, "")
    if any(values.get(name) != value for name, value in wanted.items()):
        raise ConfigError("the value could not be read back; edit the file by hand")
    return data

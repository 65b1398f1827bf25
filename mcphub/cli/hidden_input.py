"""Owns getting a value that nobody may see from a person or a pipe.

It must not know what it is for. It never comes from the words of a command line, which others on this machine can read.
"""

from __future__ import annotations

import sys

from mcphub.errors import ConfigError


def ask(what: str, *, twice: bool = False, otherwise: str = "--stdin") -> str:
    """A line typed at the terminal, which is not shown. Raises ConfigError where there is no terminal, or nothing was
    typed; `twice`: also where the second is another. `otherwise` is how it can be given without a terminal."""
    import getpass
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)
            value = getpass.getpass(f"{what}: ")
            if twice and getpass.getpass(f"{what}, once more: ") != value:
                raise ConfigError(f"cannot take {what}: the two are not the same")
    except (EOFError, OSError, getpass.GetPassWarning):
        raise ConfigError(f"cannot ask for {what}: there is no terminal; give it with {otherwise}") from None
    if not value:
        raise ConfigError(f"cannot take {what}: it is empty")
    return value


def from_stdin(what: str) -> str:
    """All of stdin but one line break at its end. Raises ConfigError where it is empty or not UTF-8."""
    if sys.stdin is None:
        raise ConfigError(f"cannot read {what}: there is no input")
    try:
        value = sys.stdin.buffer.read().decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ConfigError(f"cannot take {what}: it is not UTF-8 text") from None
    if not value:
        raise ConfigError(f"cannot take {what}: it is empty")
    return value


def on_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()

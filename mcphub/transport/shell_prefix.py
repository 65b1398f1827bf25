"""Owns what MCPHUB_SHELL_PREFIX makes of a server's command: the words of a program that runs it elsewhere.

It must not look for a program or start one, nor know where the variable came from: it is the person's own, never an
entry's.
"""

from __future__ import annotations

from collections.abc import Sequence

from mcphub.errors import TransportError

NAME = "MCPHUB_SHELL_PREFIX"
#: How each message about it begins, and what a person should do then.
CANNOT = f"cannot use {NAME}"
ADVICE = f"correct {NAME} with `mcphub env set {NAME}`, or install the program that it names; no entry is at fault"


def prefixed(prefix: str, argv: Sequence[str]) -> list[str]:
    """The arguments to start for `argv`: the words of `prefix`, split as a shell would split them, then those of the
    server, each as it is. No shell is involved. Raises TransportError (kind `config`)."""
    if not prefix.strip():
        return list(argv)
    import shlex  # hardly anybody has a prefix

    try:
        words = shlex.split(prefix)
    except ValueError as error:
        raise _unusable(str(error).lower()) from None
    if not words or not words[0]:
        raise _unusable("it names no program")
    if "/" in words[0] and not words[0].startswith("/"):
        raise _unusable("its program must be a name on PATH or an absolute path")
    return [*words, *argv]


def not_found(program: str, cause: str) -> TransportError:
    """The error (kind `not_found`) for a prefix whose `program` cannot be found, for this cause: no entry names it."""
    return _unusable(f"its program {program!r} cannot be started: {cause}", "not_found")


def _unusable(cause: str, kind: str = "config") -> TransportError:
    text = f"{CANNOT}: {cause}; correct it in the hub's environment file (mcphub env set {NAME})"
    return TransportError(text, kind=kind)

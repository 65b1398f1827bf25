"""Owns finding the file that a server's command names, and the words for why it cannot be run.

It must not start anything, nor know which server asks: the caller puts the server's name before these messages.
"""

from __future__ import annotations

import enum
import errno
import os
import posixpath
import stat
from collections.abc import Callable

from mcphub.errors import TransportError

#: Bytes of a file that show its `#!` line (Linux reads 256).
HEAD = 256

_WINDOWS_NAMES = frozenset({"cmd", "powershell", "wsl", "start"})
_WINDOWS_ENDINGS = (".exe", ".cmd", ".bat", ".ps1", ".com")


class Access(enum.Enum):
    """What a path is to somebody who wants to execute it."""

    MISSING = "does not exist"
    DIRECTORY = "is a directory"
    NOT_EXECUTABLE = "is not executable"
    EXECUTABLE = "is executable"


def access(path: str) -> Access:
    """Ask the file system, following links."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return Access.MISSING
    if stat.S_ISDIR(mode):
        return Access.DIRECTORY
    # root may "access" any file, yet exec wants one x bit at least
    if not stat.S_ISREG(mode) or not mode & 0o111 or not os.access(path, os.X_OK):
        return Access.NOT_EXECUTABLE
    return Access.EXECUTABLE


class Unfound(TransportError):
    """No program was found. `cause` is why, without the command and what to do."""

    def __init__(self, command: str, cause: str, advice: str) -> None:
        super().__init__(f"cannot start command {command!r}: {cause}; {advice}", kind="spawn")
        self.cause = cause


def find_executable(
    command: str,
    path: str | None,
    cwd: str,
    access: Callable[[str], Access] = access,
    *,
    shown: str = "",
    shown_cwd: str = "",
) -> str:
    """The absolute path of the program that `command` names.

    `path` is the PATH that the program itself will get, None = it gets none. As in a shell, a command with a slash is
    a file, relative to `cwd`; any other is searched in PATH, except that empty and relative directories of PATH are
    skipped: a project's own directory must not decide what `npx` is. `~` is not expanded. `shown` and `shown_cwd` are
    what may be printed of `command` and `cwd`, "" = they themselves.
    Raises Unfound (kind `spawn`), whose text names the command, the PATH that was searched, and what to do.
    """
    shown = shown or command
    if not command or "\0" in command:
        raise Unfound(shown, "the command is empty" if not command else "it holds a NUL byte", 'set "command"')
    if "/" in command:
        found = posixpath.normpath(posixpath.join(cwd, command))
        state = access(found)
        if state is Access.EXECUTABLE:
            return found
        where = shown_path(found, command, shown, cwd, shown_cwd)
        if found != command and not command.startswith("/"):
            where += " (relative to the working directory)"
        raise Unfound(shown, f"{where} {state.value}", _advice(shown, state))
    blocked: tuple[str, Access] | None = None
    searched = [directory for directory in (path or "").split(":") if directory.startswith("/")]
    for directory in searched:
        candidate = posixpath.join(directory, command)
        state = access(candidate)
        if state is Access.EXECUTABLE:
            return candidate
        if state is Access.NOT_EXECUTABLE and blocked is None:
            blocked = candidate, state
    if blocked is not None:
        where = shown_path(blocked[0], command, shown, cwd, shown_cwd)
        raise Unfound(shown, f"{where} {blocked[1].value}", _advice(shown, blocked[1]))
    where = f"PATH, which is {':'.join(searched)}" if searched else "PATH, which is empty"
    hint = " (Windows-only entry?)" if looks_like_windows(command) else ""
    raise Unfound(shown, f"not found{hint} in the server's {where}", _advice(shown, Access.MISSING))


def shown_path(path: str, command: str, shown: str, cwd: str, shown_cwd: str) -> str:
    """What may be printed of `path`, where `command` was looked for or found; arguments as for `find_executable`."""
    if "/" not in command:
        return path if shown == command else posixpath.join(posixpath.dirname(path), shown)
    if command.startswith("/"):
        return path if shown == command else shown
    plain = shown == command and shown_cwd in ("", cwd)
    return path if plain else posixpath.join(shown_cwd or cwd, shown)


def leads_to(command: str, path: str | None, cwd: str) -> tuple[str, ...]:
    """The absolute path that `command` is found at, and the file it is in the end where links lead further; empty where
    nothing can be executed. Arguments as for `find_executable`."""
    try:
        found = find_executable(command, path, cwd)
    except TransportError:
        return ()
    return tuple(dict.fromkeys((found, os.path.realpath(found))))


def looks_like_windows(command: str) -> bool:
    """Whether a command was probably written for Windows: `cmd`, `npx.cmd`, `C:\\Tools\\srv.exe`."""
    lowered = command.lower()
    drive = len(command) > 2 and command[0].isalpha() and command[1] == ":" and command[2] in "\\/"
    return lowered in _WINDOWS_NAMES or lowered.endswith(_WINDOWS_ENDINGS) or "\\" in command or drive


def _advice(command: str, state: Access) -> str:
    if state is Access.NOT_EXECUTABLE:
        return "make it executable (chmod +x) or name its interpreter as the command"
    if state is Access.DIRECTORY:
        return "name the program inside it"
    if command != command.strip():
        return "the command begins or ends with a blank: remove it"
    if looks_like_windows(command):
        return "write the entry for this system: name the program itself, without cmd /c and without .exe or .cmd"
    if command.startswith("~"):
        return "~ is not expanded: write ${HOME}"
    first, *rest = command.split()
    if rest:
        return f'if {first!r} is the program, put the rest into "args": a command is never split'
    if "/" in command:
        return "correct the path, or install the program"
    return (
        'give the absolute path as the command, or set PATH in the entry\'s "env" or in the hub\'s environment file '
        "(a service does not get the PATH of your terminal; where that finds it, run `mcphub env path --refresh`)"
    )


# --- after exec failed ---


def explain_refusal(
    stage: str, number: int, path: str, cwd: str, size: int, head: bytes, access: Callable[[str], Access]
) -> str:
    """Why the system did not run `path`, in one line with the next step.

    `stage` is `fork`, `cwd` or `exec`; `number` the errno; `size` the bytes of arguments and environment together;
    `head` the first bytes of the file.
    """
    cause = os.strerror(number)
    if stage == "cwd":
        return f"cannot enter working directory {cwd!r}: {cause}; correct \"cwd\" or create the directory"
    if stage == "fork":
        return f"cannot start a process for {path!r}: {cause}; too many processes or open files, or too little memory"
    if number == errno.E2BIG:
        return (
            f"cannot execute {path!r}: {cause} (E2BIG): arguments and environment are {size} bytes; "
            "Linux takes 128 KiB in one of them and 2 MiB in all, so pass large data in a file"
        )
    if number == errno.ENOENT:
        interpreter = shebang(head)
        if interpreter:
            advice = "the file has Windows line ends: save it with LF" if "\r" in interpreter else "install it"
            return f"cannot execute {path!r}: its #! line names {interpreter!r}, which does not exist; {advice}"
        if access(path) is Access.EXECUTABLE:
            return (
                f"cannot execute {path!r}: its loader does not exist: the program was built for another system "
                "(glibc or musl, 32 bit); install the build for this one"
            )
    if number == errno.ENOEXEC:
        return (
            f"cannot execute {path!r}: {cause}: it is neither a program for this machine nor a script that begins "
            "with #!; name its interpreter as the command"
        )
    if number == errno.EACCES:
        return f"cannot execute {path!r}: {cause}; check the modes of the file, its interpreter and a noexec mount"
    return f"cannot execute {path!r}: {cause}; try it in a terminal"


def shebang(head: bytes) -> str:
    """The interpreter that a script's first line names, "" = it is no script. A carriage return stays visible."""
    if not head.startswith(b"#!"):
        return ""
    words = head[2:].split(b"\n", 1)[0].strip(b" \t").replace(b"\t", b" ").split(b" ")
    return words[0].decode("utf-8", "backslashreplace")


def read_head(path: str) -> bytes:
    """The first bytes of a file, empty where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(HEAD)
    except OSError:
        return b""

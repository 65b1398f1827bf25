"""Owns where the sockets are, computed by hand on `os` and `sys` alone.

It must not import anything else at run time: `mcphub connect` and `mcphub status` need these paths within milliseconds.

The rule, in this order:

1. `$XDG_RUNTIME_DIR/mcphub`, when the variable holds an absolute path (XDG base directory specification).
2. `/run/user/<uid>/mcphub`, when that directory exists and is ours: hosts start their children with a scrubbed
environment,
   and both ends must still meet. platformdirs does the same.
3. macOS: `mcphub-<uid>` in the per-user temporary directory that the system names, elsewhere `/tmp/mcphub-<uid>`.
`$TMPDIR`
   is not asked, for the reason above. `/tmp` is shared, so the directory must be a real one, ours, and closed to
   others.
"""

from __future__ import annotations

import os
import sys

#: `sun_path` holds 108 bytes on Linux and 104 on macOS, one of them the terminator (unix(7), unix(4)).
MAX_SOCKET_PATH = 103 if sys.platform == "darwin" else 107

# _CS_DARWIN_USER_TEMP_DIR of <unistd.h>; os.confstr_names lacks it.
_DARWIN_USER_TEMP_DIR = 65537


def runtime_dir() -> str:
    """The directory that holds the socket directories; not created here unless it is the shared fallback.

    Raises ConfigError when the fallback directory belongs to somebody else or is open to others.
    """
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if base.startswith("/"):
        return base.rstrip("/") + "/mcphub"
    base = f"/run/user/{os.getuid()}"
    try:
        status = os.lstat(base)
        if status.st_uid == os.getuid() and status.st_mode & 0o170000 == 0o040000:
            return base + "/mcphub"
    except OSError:
        pass
    directory = f"{_temporary()}/mcphub-{os.getuid()}"
    private_directory(directory)
    return directory


def unused() -> str:
    """What to say where XDG_RUNTIME_DIR is set and does not count, "" = nothing. Raises as `runtime_dir` does."""
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    if not given or given.startswith("/"):
        return ""
    return f"XDG_RUNTIME_DIR is {given!r}, but only an absolute path counts there; {runtime_dir()} is used instead"


def agent_socket() -> str:
    """The path that agents attach to. Raises ConfigError when it is too long, or as `runtime_dir` does."""
    return _checked(runtime_dir() + "/agent/agent.sock")


def http_socket() -> str:
    """The path that agents reach with HTTP, beside the other. Raises ConfigError as `agent_socket` does."""
    return _checked(runtime_dir() + "/agent/http.sock")


def control_socket() -> str:
    """The path that the command line talks to, in a directory of its own. Raises ConfigError as `agent_socket` does."""
    return _checked(runtime_dir() + "/control/control.sock")


def private_directory(path: str) -> None:
    """Make `path` a directory of mode 0700, or check that it is ours and closed to others; parents are made 0700 too.

    Raises ConfigError when it cannot be made, is not a real directory, has another owner, or others can write to it.
    """
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        status = os.lstat(path)
    except OSError as error:
        raise _error(f"cannot create {path}: {error.strerror}; set XDG_RUNTIME_DIR to a directory of yours") from error
    if status.st_mode & 0o170000 != 0o040000:
        raise _error(f"cannot use {path}: it is not a real directory; remove it, or set XDG_RUNTIME_DIR")
    if status.st_uid != os.getuid():
        raise _error(f"cannot use {path}: it belongs to uid {status.st_uid}, not to you; set XDG_RUNTIME_DIR")
    if status.st_mode & 0o022:
        raise _error(f"cannot use {path}: others can write to it; run: chmod 700 {path}")


def _temporary() -> str:
    if sys.platform == "darwin":
        try:
            found = os.confstr(_DARWIN_USER_TEMP_DIR)
        except (OSError, ValueError):
            found = None
        if found:
            return found.rstrip("/")
    return "/tmp"


def _checked(path: str) -> str:
    size = len(os.fsencode(path))
    if size > MAX_SOCKET_PATH:
        raise _error(
            f"cannot use the socket path {path}: it has {size} bytes and this system allows {MAX_SOCKET_PATH}; "
            "set XDG_RUNTIME_DIR to a shorter directory"
        )
    return path


def _error(message: str) -> Exception:
    # Imported here only: the error module costs more than everything above it.
    from mcphub.errors import ConfigError

    return ConfigError(message)

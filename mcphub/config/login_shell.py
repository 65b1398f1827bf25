"""Owns asking a person's login shell, once, what its PATH is: the way that nvm, pyenv, brew and their like are found.

It must not know what the answer is for. It runs what the person's own profile runs, with a time limit, in a session
and process group of its own that is ended with it. What a profile prints does not matter: the answer stands between
marks.
"""

from __future__ import annotations

import os
import pwd
import secrets
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

from mcphub.errors import ConfigError

from .environment import base_environment
from .search_path import between, usable

#: Seconds that a profile may take.
PATIENCE = 10.0
#: Bytes of what it prints that are looked at, the last ones.
MAX_OUTPUT = 1 << 20
#: What a shell begins with: its profile adds to it, and what started this process must not show.
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
#: Set for the shell, so that a slow profile can do less.
SIGN = "MCPHUB_LOGIN_SHELL"

_NO_SHELLS = frozenset({"nologin", "false", "true", "sync"})
#: These take no other option beside -l.
_C_SHELLS = frozenset({"csh", "tcsh"})


def login_shell(env: Mapping[str, str]) -> str:
    """The absolute path of the person's shell, "" where the account has none: SHELL, else what the system knows."""
    found = env.get("SHELL", "")
    if not found.startswith("/"):
        try:
            found = pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
        except KeyError:
            found = "/bin/sh"
    return "" if os.path.basename(found) in _NO_SHELLS else found


def ask_path(shell: str, env: Mapping[str, str], patience: float = PATIENCE) -> str:
    """The PATH that an interactive login shell has, as far as it can be used. Blocks for `patience` seconds at most.

    `env` is the environment of this process, of which the shell gets what every server gets, but for PATH. Raises
    ConfigError, which names the shell and what to do.
    """
    mark = secrets.token_hex(16)
    half = len(mark) // 2
    # In halves: a shell that prints what it runs must not print the mark.
    program = (
        f'import os;m=b"{mark[:half]}"+b"{mark[half:]}";os.write(1,m+os.environb.get(b"PATH",b"")+m)'
    )
    script = f"exec {shlex.quote(sys.executable)} -I -S -c {shlex.quote(program)}"
    flags = ["-i", "-c"] if os.path.basename(shell) in _C_SHELLS else ["-l", "-i", "-c"]
    child_env = {**base_environment(env), "PATH": SYSTEM_PATH, "SHELL": shell, "TERM": "dumb", SIGN: "1"}
    output, ended = _run([shell, *flags, script], child_env, mark.encode(), patience)
    found = between(output, mark.encode())
    if found is None:
        how = f"did not say it within {patience:g} s" if ended is None else f"ended with status {ended} before it did"
        raise _cannot(shell, how, f"see what `{shell} -l -i` does in a terminal")
    path = usable(found.decode("utf-8", "replace").replace("\ufffd", "\0"))
    if not path:
        raise _cannot(shell, "it is empty there", f"see what `{shell} -l -i` does in a terminal")
    return path


def _cannot(shell: str, cause: str, advice: str) -> ConfigError:
    return ConfigError(
        f"cannot learn the PATH of the login shell {shell}: {cause}; {advice}, or set PATH in the hub's environment "
        "file (mcphub env set PATH)"
    )


def _run(argv: list[str], env: dict[str, str], mark: bytes, patience: float) -> tuple[bytes, int | None]:
    """What it prints, up to the second mark, and its exit status, None = it was not waited for any longer."""
    deadline = time.monotonic() + patience
    output = b""
    try:
        process = subprocess.Popen(
            argv,
            env=env,
            cwd=env.get("HOME") if os.path.isdir(env.get("HOME", "")) else "/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise _cannot(argv[0], error.strerror or str(error), "name another one by SHELL") from None
    assert process.stdout is not None
    status: int | None = None
    with process.stdout as stream:
        try:
            while output.count(mark) < 2 and (left := deadline - time.monotonic()) > 0:
                # The end of the shell need not be the end of the stream: something of its profile may hold that.
                if not select.select([stream], [], [], min(left, 0.1))[0]:
                    if (status := process.poll()) is not None:
                        break
                    continue
                data = os.read(stream.fileno(), 1 << 16)
                if not data:
                    status = process.wait(max(left, 0.1))
                    break
                output = (output + data)[-MAX_OUTPUT:]
        except subprocess.TimeoutExpired:
            pass  # it closed its output and goes on
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass  # all of it has ended
            process.wait()
    return output, status

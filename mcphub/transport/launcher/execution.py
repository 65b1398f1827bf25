"""Owns what a forked child does until it is another program: session, signals, mark, descriptors, directory.

It must not know the launcher's state, a copy of which it runs in.
"""

from __future__ import annotations

import errno
import os
import signal

from .limits import take_limits
from .marks import take_mark
from .prctl import PR_SET_PDEATHSIG, prctl


def ignored_signals() -> tuple[int, ...]:
    """What this process ignores now, and a program that it executes would go on to ignore: what is handled becomes the
    default by execve(2) itself. Asked once by the parent, since a forked child pays for each page that it touches."""
    signals = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    return tuple(int(signo) for signo in signals if signal.getsignal(signo) is signal.SIG_IGN)


def execute(
    launcher: int,
    report: int,
    mark: int,
    ignored: tuple[int, ...],
    fds: list[int],
    path: bytes,
    argv: list[bytes],
    env: dict[bytes, bytes],
    cwd: bytes,
    limits: tuple[int, int, int],
) -> None:
    """The rest of the forked child: never returns.

    `launcher` is the parent's pid, `ignored` what `ignored_signals` said there. The pipe `report` ends empty once the
    program is executed, else it gets a byte (an index of messages.STAGES) and two of errno, little-endian.
    """
    stage, cause = 0, errno.EINVAL
    try:
        os.setsid()
        # Should the launcher be killed, its direct children go with it; unless that happened before this call.
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != launcher:
            os._exit(127)
        signal.set_wakeup_fd(-1)
        for signo in ignored:
            signal.signal(signo, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if mark:
            take_mark(mark)
        for number, fd in enumerate(fds):  # all are above 2: the launcher's own three are open
            os.dup2(fd, number)
        stage = 1
        os.chdir(cwd)
        stage = 2
        take_limits(*limits)
        os.execve(path, argv, env)
    except OSError as error:
        cause = error.errno or errno.EINVAL
    except BaseException:
        pass
    finally:
        try:
            os.write(report, bytes([stage]) + cause.to_bytes(2, "little"))
        finally:
            os._exit(127)

"""Owns the launcher process: it starts server programs, reports how they end, and ends whole trees of them (Linux).

It must not know MCP, configuration, asyncio or any other module of mcphub: it runs alone, as `__main__.py` says, stays
in memory as long as the daemon, and imports as little as it can. The daemon uses messages.py, proc.py, marks.py and
prctl.py too. Start at run.py.

The daemon's one child is this single-threaded process, and every server is a child of it. It is a *subreaper*
(prctl(2)): a process whose parent died is handed to it, never to init, so nothing that a server starts can leave its
tree. When the daemon is gone, however it went, the socket ends and the launcher ends everything below itself.

**Never a stranger.** Only descendants are signalled. A direct child that was not waited for pins its number and its
group; any other process is opened as a pidfd, and its start time is compared with that of the look, before it is
signalled.

Limits, all of them only until the daemon ends, since then everything below the launcher goes: what became another
user's process (setuid) cannot be signalled by an unprivileged launcher; a process in uninterruptible sleep dies when it
wakes; servers.py and marks.py say which orphans belong to nobody. A program started by asking a daemon outside (docker,
systemd-run) was never in the tree.
"""

from __future__ import annotations

import signal

#: The daemon alone decides when the launcher ends, also where a service stop or a terminal signals every process.
IGNORED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGUSR1,
    signal.SIGUSR2,
)

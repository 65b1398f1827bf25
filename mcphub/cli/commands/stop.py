"""Owns the verb stop: ask for the shutdown, then wait for the process to be gone.

It must not end the process itself.
"""

from __future__ import annotations

import os
import time

from mcphub.cli import output
from mcphub.client import ControlClient

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = "Shut the daemon down in order, with every server it runs, and wait until it is gone."

#: Seconds that the shutdown may take: servers get some to end by themselves.
PATIENCE = 30.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--restart",
        action="store_true",
        help="for an upgrade: agents behind `mcphub connect` start the next daemon, if nobody does, and go on in it",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    report = ControlClient().stop(args.restart)
    pid = report["pid"]
    if not ended(pid, PATIENCE):
        output.complain(f"the daemon (pid {pid}) is still shutting down after {PATIENCE:g} s; its log says why")
        return 1
    print(output.json_text(report) if args.json else f"the daemon (pid {pid}) has stopped")
    if not args.restart and _still_listens():
        output.complain(
            "the service manager listens in its place: the next agent or command starts another one. To keep it off: "
            "systemctl --user stop mcphub.socket"
        )
    return 0


def _still_listens() -> bool:
    """Whether the sockets are still there, for a service that the next one to connect would start."""
    from mcphub.config.runtime_dir import control_socket
    from mcphub.service.places import installed

    return bool(installed()) and os.path.exists(control_socket())


def ended(pid: int, seconds: float) -> bool:
    """Wait until no process has this pid any more; False where it still has after so many seconds."""
    deadline = time.monotonic() + seconds
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    except (AttributeError, OSError):  # macOS, old kernels
        return _polled(pid, deadline)
    import select

    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(handle)


def _polled(pid: int, deadline: float) -> bool:
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        time.sleep(0.02)
    return False

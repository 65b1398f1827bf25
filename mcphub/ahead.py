"""Owns the first moments of `mcphub serve`: the launcher process is started, then the daemon imported and run.

It must not know what either does. The launcher gets ready while the daemon, the larger of the two, is still being
imported.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from mcphub.transport.launcher.start import Started


def main(args: argparse.Namespace) -> int:
    """As `daemon.main`."""
    started = _launcher()
    try:
        from mcphub import daemon

        return daemon.main(args, started)
    finally:
        if started is not None:
            started.close()


def _launcher() -> Started | None:
    """None where this system has none, or it cannot be started: the daemon tries again, and says what is wrong."""
    if sys.platform != "linux":
        return None
    from mcphub.transport.launcher.start import start

    try:
        return start()
    except OSError:
        return None

"""Owns the choice of how server programs are started and ended on this system; callers import these names from here.

It must not know how either way works: Linux has a launcher process, other systems have process groups alone.
"""

from __future__ import annotations

import sys

from mcphub.transport.child import Child

if sys.platform == "linux":
    from mcphub.transport.launcher.prctl import become_subreaper
    from mcphub.transport.launcher.start import Started
    from mcphub.transport.launcher_client import Launcher
else:
    from mcphub.transport.process_groups import Launcher, become_subreaper

    Started = None

__all__ = ["Child", "Launcher", "Started", "become_subreaper"]

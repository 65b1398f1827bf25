"""Owns making the directories that plugins keep their data in, before a program of theirs is started.

It must not know how plugins are found. What does not run leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import os

from mcphub.config.places import Places
from mcphub.config.sources.plugin import DATA
from mcphub.spec import Desired, Scope, StdioSpec, Want


def make_plugin_data(desired: Desired, places: Places) -> None:
    """Make those that are missing, for their owner alone. Where that fails the program will say so better."""
    parent = places.plugin_data("")
    for wish in desired.values():
        if not isinstance(wish, Want) or wish.spec.origin.scope is not Scope.PLUGIN:
            continue
        transport = wish.spec.transport
        path = str(transport.env.get(DATA, "")) if isinstance(transport, StdioSpec) else ""
        # What an entry made of the variable is its own affair.
        if path.startswith(parent) and os.path.dirname(path) == parent.rstrip("/") and not os.path.isdir(path):
            with contextlib.suppress(OSError):
                os.makedirs(path, mode=0o700, exist_ok=True)

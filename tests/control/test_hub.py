"""The Protocol between handlers and daemon."""

from __future__ import annotations

import inspect

from mcphub.control.hub import Hub
from tests.fakes.canned_hub import CannedHub


def test_the_canned_hub_is_a_hub() -> None:
    """What the tests serve has the shape that the daemon has: the same methods, parameters and kinds."""
    hub: Hub = CannedHub()
    for name, method in vars(Hub).items():
        if not name.startswith("_"):
            canned = getattr(type(hub), name)
            assert list(inspect.signature(canned).parameters) == list(inspect.signature(method).parameters), name
            assert inspect.iscoroutinefunction(canned) == inspect.iscoroutinefunction(method), name

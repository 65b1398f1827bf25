"""Owns the roots that a legacy server is told by the hub itself: the workspace that it belongs to, else none.

It must not know the roots of agents: gateway.ask_user asks those.
"""

from __future__ import annotations

from mcphub.protocol import jsonrpc


def roots_of(workspace: str) -> bytes:
    """The list of a `roots/list` result, as JSON; `workspace` is an absolute path, "" = none."""
    if not workspace:
        return b"[]"
    # Only servers of a workspace need it.
    from urllib.parse import quote

    return b'[{"uri":%b}]' % jsonrpc.quote("file://" + quote(workspace))

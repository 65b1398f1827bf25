"""Owns what every link says whose channel is one stream: nothing is known of a single request.

It must not know which links those are.
"""

from __future__ import annotations

from collections.abc import Mapping


class OneStream:
    """What a link says whose channel is one stream, the same for every message."""

    @property
    def retry_after(self) -> float:
        return 0.0

    @property
    def returned(self) -> Mapping[int, bytes]:
        return {}

    @property
    def deaf(self) -> bool:
        return False

    @property
    def waits_for(self) -> str:
        return ""

    def usable(self, tools: tuple[bytes, ...]) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
        return tools, ()

    def way_changed(self) -> None:
        """There is nothing but the stream."""

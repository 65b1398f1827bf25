"""Owns how the place of a value is reported.

It must not know what stands there.
"""

from __future__ import annotations

from mcphub.spec import Origin
from mcphub.status import OriginStatus


def origin_status(origin: Origin) -> OriginStatus:
    return OriginStatus(scope=str(origin.scope), path=origin.path, key=origin.key, line=origin.line)

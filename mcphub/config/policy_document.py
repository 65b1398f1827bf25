"""Owns the form in which one document of policy leaves its source: what it says, where it stands, or why it is broken.

It must not know what its keys mean, nor which document wins: policy/ reads and combines them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mcphub.spec import Origin

from .jsonc import Lines


class PolicyDocument(msgspec.Struct, frozen=True):
    """One managed settings file, one drop-in, one set of OS preferences, what was fetched, or a person's own table.

    `origin.scope` gives its rank: managed and enterprise documents are the organisation's, user's are the person's.
    `origin.key` is the place of `raw` in its file, "" = the whole of it. `fault` is why the file as a whole cannot be
    trusted or read ("cannot use FILE: ..."): such a document closes, whatever `raw` says. `wrong` are the same for
    parts of a file that was read: rules that stand where they do not count.

    `former` is why the file cannot be used now, where `raw` is what it said before: what was wrong with that is told
    no more, but it still closes.
    """

    origin: Origin
    raw: Mapping[str, Any] = msgspec.field(default_factory=dict)
    lines: Lines = msgspec.field(default_factory=Lines)
    fault: str = ""
    wrong: tuple[str, ...] = ()
    former: str = ""

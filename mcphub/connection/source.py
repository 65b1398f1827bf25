"""Owns what the lists of a server depend on beside its instance: they are of one source, and say nothing of another.

It must not know the lists, nor where any of it comes from. What the key of an instance holds (program or URL,
variables, headers, workspace, agent, pinned era) is not here.
"""

from __future__ import annotations

import msgspec


class Source(msgspec.Struct, frozen=True):
    """`era` and `version` are those of the protocol that was spoken, `release` is what the server said it is (name and
    version), `principal` stands for whose credentials were used, with their scopes ("" = none of mcphub's), `declares`
    are the capabilities that the server was told of."""

    era: str = ""
    version: str = ""
    release: str = ""
    principal: str = ""
    declares: bytes = b""


def release_of(info: object) -> str:
    """The release that a server says it is of, "" = it does not say."""
    if not isinstance(info, dict):
        return ""
    return "\0".join(str(info[key])[:200] for key in ("name", "version") if key in info)

"""Owns exposed names: `mcp__<server>__<tool>`, safe for model APIs, the same on every run whatever connects first.

It must not know connections. Names are looked up in a table, never split: both parts may contain `__`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

DEFAULT_MAX_LENGTH = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_HASH = 6


def _hashed(server: str, tool: str, plain: str, most: int) -> str:
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{plain[: most - _HASH - 1]}_{digest}"


def exposed_names(
    server: str, tools: Sequence[str], servers: Sequence[str], most: int = DEFAULT_MAX_LENGTH
) -> list[str]:
    """The exposed name of each tool of one server. `servers` are all configured names, connected or not.

    Longer names than `most`, two tools of the server that fall on one name, and names that read as another configured
    server's (tool `b__c` of `a` where a server `a__b` exists) end in `_` and six hex digits of a hash of both.
    """
    plain = [f"mcp__{_UNSAFE.sub('_', server)}__{_UNSAFE.sub('_', tool)}" for tool in tools]
    count = Counter(plain)
    others = [f"mcp__{other}__" for other in servers if other != server and other.startswith(f"{server}__")]
    out = []
    for tool, name in zip(tools, plain, strict=True):
        if len(name) > most or count[name] > 1 or any(name.startswith(p) for p in others):
            name = _hashed(server, tool, name, most)
        out.append(name)
    return out

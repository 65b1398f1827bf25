"""Owns the values of policy: rules with their places, what all documents say together, and the verdict about a server.

It must not know how a document is read, nor how a rule is matched.
"""

from __future__ import annotations

import msgspec

from mcphub.spec import Origin


class Rule(msgspec.Struct, frozen=True):
    """One entry of a list of servers. `kind` is its key (`serverName`, ...), "" where it has none that is known.

    `text` is the entry as it may be shown. `pattern` is what the kind's matcher made of it, None = matches nothing.
    """

    kind: str
    text: str
    origin: Origin
    pattern: object = None


class ToolRule(msgspec.Struct, frozen=True):
    """One `SERVER/TOOL` of a list of tools; `*` stands for any characters within its half."""

    server: str
    tool: str
    origin: Origin

    @property
    def text(self) -> str:
        return f"{self.server}/{self.tool}"


class AllowList(msgspec.Struct, frozen=True):
    """One document's list of servers, or of tools, that are allowed; empty = none. `origin` is the list's place."""

    origin: Origin
    rules: tuple[Rule, ...] = ()
    tools: tuple[ToolRule, ...] = ()


class Policy(msgspec.Struct, frozen=True):
    """What one document says, or several together.

    `allowed` None = every server is allowed; of several lists a server must be on one, and an empty one allows none.
    `managed_only` is the place of the lock that leaves allow lists to the organisation. `closed` holds why policy
    cannot be known in full ("cannot use FILE:LINE KEY: ..."): while it holds anything, only the organisation's own
    servers may run. `warnings` say what is used, but perhaps not as its writer meant it.
    """

    allowed: tuple[AllowList, ...] | None = None
    denied: tuple[Rule, ...] = ()
    allowed_tools: tuple[AllowList, ...] | None = None
    denied_tools: tuple[ToolRule, ...] = ()
    managed_only: Origin | None = None
    closed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    #: The document is the organisation's; of several together: one of them is.
    managed: bool = False


class Verdict(msgspec.Struct, frozen=True):
    """What policy says of one server, and why. `sentence` is fit for a status row; it names rule, file and key.

    `rule` is the entry that decided as it is written, "" where none did; `origin` is the place of what decided, None
    where nothing speaks of the server.
    """

    allowed: bool
    rule: str
    origin: Origin | None
    sentence: str

"""Owns what a legacy server is told that its client can do: the set an agent's declaration becomes, and sets as keys.

It must not know connections. Equal sets are equal bytes: the members in one order, without blanks. Over one stream a
set is for all agents, or for the one that the server is for alone; over HTTP each set has a session of its own
(architecture, what a legacy link declares).
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mcphub.protocol import tasks
from mcphub.spec import HttpSpec, ServerSpec

_object = msgspec.json.Decoder(dict[str, Any]).decode

#: What every agent's calls can go with: `cancel` and an empty list are legal answers where nobody can be asked. Never
#: `{form, url}` for elicitation, which crashes some servers (case C061).
SHARED = b'{"elicitation":{},"roots":{}}'
#: The same for an entry that says so: sampling has no legal answer of the hub's own.
WITH_SAMPLING = b'{"elicitation":{},"roots":{},"sampling":{}}'
NOTHING = b"{}"
#: The versions in which an agent can be asked by a form, and by a page, for the first time.
ELICITATION_SINCE = "2025-06-18"
URLS_SINCE = "2025-11-25"

#: Kinds of `unanswered` that say of an opening: the server does not want it, and will not want the next one either.
_NEVER = frozenset(["refused", "older", "unreadable"])
#: Those that say nothing of what the server speaks; `spawn` and `not_found` are those of a headers helper.
_NO_VERDICT = frozenset(["unreachable", "tls", "lost", "rate_limited", "spawn", "not_found"])


def declared(capabilities: Mapping[str, Any]) -> bytes:
    """What a server is told for an agent that declared this in `initialize`: of it what the hub can carry.

    `{}` for elicitation means forms, as `{"form": {}}` does; URLs alone are not declared, since servers that know only
    `{}` would send forms. Not carried: `roots.listChanged`, `sampling.context` (`includeContext` would mean all
    servers), anything else.
    """
    members = []
    elicitation = capabilities.get("elicitation")
    if _said(elicitation) and not (isinstance(elicitation, dict) and elicitation and "form" not in elicitation):
        members.append(b'"elicitation":{}')
    if _said(capabilities.get("roots")):
        members.append(b'"roots":{}')
    sampling = capabilities.get("sampling")
    if _said(sampling):
        tools = isinstance(sampling, dict) and _said(sampling.get("tools"))
        members.append(b'"sampling":{"tools":{}}' if tools else b'"sampling":{}')
    return b"{%b}" % b",".join(members)


#: The extension that a way to credentials is, by `oauth.mode` (MCP, extensions of authorization).
EXTENSIONS: Mapping[str, str] = {
    "client_credentials": "io.modelcontextprotocol/oauth-client-credentials",
    "xaa": "io.modelcontextprotocol/enterprise-managed-authorization",
}
_KEY = b'"io.modelcontextprotocol/clientCapabilities":{'


def extension_of(spec: ServerSpec) -> bytes:
    """What a server is told of how its credentials are had, as a member of the capabilities; b"" = nothing."""
    mode = spec.transport.oauth.mode if isinstance(spec.transport, HttpSpec) else ""
    name = EXTENSIONS.get(mode)
    return b'"extensions":{"%b":{}}' % name.encode() if name is not None else b""


def with_tasks(extension: bytes) -> bytes:
    """The same where the server makes tasks, which the hub can follow for every agent (SEP-2663)."""
    return b"%b,%b}" % (extension[:-1], tasks.OFFER) if extension else b'"extensions":{%b}' % tasks.OFFER


def extended(capabilities: bytes, extension: bytes) -> bytes:
    """A ClientCapabilities object as JSON, with this member in front."""
    return b"{%b%b%b" % (extension, b"" if capabilities[1:2] == b"}" else b",", capabilities[1:])


def meta_extended(tail: bytes, extension: bytes) -> bytes:
    """The end of a request's params, in whose `_meta` the capabilities stand, with this member among them."""
    before, key, after = tail.rpartition(_KEY)
    return before + key[:-1] + extended(b"{" + after, extension) if key else tail


@functools.lru_cache(maxsize=256)
def declared_by(capabilities: bytes) -> bytes:
    """`declared` of a ClientCapabilities object as JSON; what cannot be read declares nothing."""
    try:
        return declared(_object(capabilities or b"{}"))
    except (msgspec.DecodeError, RecursionError):
        return NOTHING


def offered(capabilities: Mapping[str, Any], version: str) -> bytes:
    """What a modern server is told for a legacy agent of this version that declared this: as `declared`, in words of
    the modern era, where `elicitation.url` can be told as well; b"" = nothing."""
    members = []
    elicitation = capabilities.get("elicitation")
    if _said(elicitation) and version >= ELICITATION_SINCE:
        modes = elicitation if isinstance(elicitation, dict) and elicitation else {"form": {}}
        known = ["form"] if version < URLS_SINCE else ["form", "url"]
        kept = [mode for mode in known if mode in modes] or (["form"] if "url" not in modes else [])
        if kept:
            members.append(b'"elicitation":{%b}' % b",".join([b'"%b":{}' % mode.encode() for mode in kept]))
    if _said(capabilities.get("roots")):
        members.append(b'"roots":{}')
    sampling = capabilities.get("sampling")
    if _said(sampling):
        tools = isinstance(sampling, dict) and _said(sampling.get("tools"))
        members.append(b'"sampling":{"tools":{}}' if tools else b'"sampling":{}')
    return b"{%b}" % b",".join(members) if members else b""


def _said(value: Any) -> bool:
    return value is not None and value is not False


def makes_room(sessions: Iterable[tuple[bytes, float, bool]]) -> bytes | None:
    """Which set's session is closed for another: of (set, last used, busy) the idle one that was not used for longest;
    None where all are busy."""
    idle = [(used, key) for key, used, busy in sessions if not busy]
    return min(idle)[1] if idle else None


class Without(enum.Enum):
    """What becomes of the calls that waited for a session that cannot be had."""

    #: They go over the worker's own connection, and so do all later ones.
    FOR_GOOD = "for good"
    #: They do, and the next one tries again.
    THIS_TIME = "this time"
    #: They end, as calls that the server has not acted on.
    REFUSED = "refused"


def without(kind: str, legacy: bool) -> Without:
    """How to do without a session whose opening ended with this kind of `unanswered`, or `timeout`.

    `legacy`: the server is known to speak the legacy era. Then trouble is trouble: what is kept in a session must not
    land in another one. Else it was an attempt, and whatever is said to it, the server is spoken to as before.
    """
    if legacy:
        return Without.FOR_GOOD if kind in _NEVER else Without.REFUSED
    return Without.THIS_TIME if kind in _NO_VERDICT else Without.FOR_GOOD

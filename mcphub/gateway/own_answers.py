"""Owns what mcphub itself knows the answer to among the questions of a modern server: the roots of its own workspace.

It must not ask anybody. An agent that declared roots is asked for its own; only where it did not, what mcphub knows is
the answer, as it is for legacy servers (bridging, new agent and new server: the agent sees only the rest).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mcphub.gateway.askable import Capabilities
from mcphub.gateway.roots_allowed import RootsAllowed
from mcphub.protocol.jsonrpc import EMPTY, Raw

NO_ROOTS = b"[]"

_members = msgspec.json.Decoder(dict[str, Raw]).decode


def own_answer(method: str, declared: Capabilities, roots: bytes) -> bytes:
    """The answer to one question of a server that belongs to these roots, b"" = the agent must be asked. `roots` is
    the list of a `roots/list` result."""
    if method != "roots/list" or "roots" in declared or roots == NO_ROOTS:
        return b""
    return b'{"roots":%b}' % roots


def merged(responses: Raw, own: Mapping[str, Raw], allowed: RootsAllowed, workspace: str) -> tuple[bytes, int]:
    """(the `inputResponses` of a retry, how many roots were left out): what its agent brought, of roots only those
    that may be told, and what mcphub answered itself, which no agent can replace. b"" = there are none."""
    try:
        found = _members(responses) if responses else {}
    except (msgspec.DecodeError, RecursionError):
        return bytes(responses), 0  # whoever reads them has refused them
    refused = 0
    for key, answer in found.items():
        if _has_roots(answer):
            kept, out = allowed.kept(bytes(answer), workspace)
            if out:
                found[key], refused = Raw(kept), refused + out
    if not own and not refused:
        return bytes(responses), 0
    return msgspec.json.encode({**found, **own}), refused


def _has_roots(answer: Raw) -> bool:
    """Of all answers only those to `roots/list` have such a member."""
    try:
        return "roots" in _members(answer or EMPTY)
    except (msgspec.DecodeError, RecursionError):
        return False

"""Owns which tools of a server may be sent again without asking anybody, and why one that was meant to be may not.

It must not send anything, nor know why a call failed. Annotations are a server's own word; whose entry it is decides
whether that is believed (MCP spec, server/tools, annotations are untrusted).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mcphub.catalog.definition import Definition
from mcphub.catalog.hygiene import clean
from mcphub.spec import Scope, ServerSpec

#: Characters of a UUID, and formats of texts that it has not. What patterns allow is seen when a call is made.
_UUID = 36
_OTHER = frozenset(
    ["date-time", "date", "time", "duration", "email", "idn-email", "uri", "iri", "ipv4", "ipv6", "json-pointer"]
)
#: Scopes whose entries the person, or the person's organisation, has written.
TRUSTED = frozenset([Scope.ENTERPRISE, Scope.MANAGED, Scope.USER, Scope.LOCAL])

_decode = msgspec.json.Decoder().decode


def repeatable(spec: ServerSpec, tools: Sequence[Definition]) -> tuple[tuple[Definition, ...], tuple[str, ...]]:
    """The tools, those marked that may be sent again; and warnings."""
    believed = spec.trust_annotations or spec.origin.scope in TRUSTED
    arguments = spec.idempotency_arguments
    if not believed and not arguments:
        return tuple(tools), ()
    out, warnings = [], []
    for tool in tools:
        argument = arguments.get(tool.name, "")
        if argument and (why := _not_for(tool, argument)):
            warnings.append(f"tools.{clean(tool.name)[:80]}.idempotencyArgument is not used: {why}")
            argument = ""
        if argument or (believed and (tool.read_only or tool.idempotent)):
            tool = msgspec.structs.replace(tool, repeatable=True, idempotency_argument=argument)
        out.append(tool)
    known = {tool.name for tool in tools}
    warnings += [
        f"tools.{clean(name)[:80]}.idempotencyArgument is not used: the server lists no such tool"
        for name in arguments
        if name not in known
    ]
    return tuple(out), tuple(warnings)


def _not_for(tool: Definition, argument: str) -> str:
    """Why this argument cannot be filled, "" = it can."""
    schema = _decode(dict(tool.members)[b'"inputSchema"'])
    properties = schema.get("properties") or {}
    if argument not in properties:
        return "" if schema.get("additionalProperties", True) is not False else f"its schema has no {argument!r}"
    if not _takes_text(properties[argument]):
        return f"its schema wants no string for {argument!r}"
    return "" if _takes_uuid(properties[argument]) else f"its schema has no room for a UUID in {argument!r}"


def does_not_fit(tool: str) -> str:
    """What a person is told where a value for its argument, which there seemed to be room for, makes a call break the
    tool's schema."""
    return (
        f"tools.{clean(tool)[:80]}.idempotencyArgument is not used in all calls: with a value of mcphub's, arguments "
        "do not fit the tool's schema, so they are sent without one, and such a call is not made again"
    )


def _takes_text(schema: Any) -> bool:
    """Whether a property may be a text that nobody has chosen, as far as its type says."""
    if not isinstance(schema, dict):
        return schema is not False
    kind = schema.get("type", "string")
    return ("string" in kind if isinstance(kind, list) else kind == "string") and not schema.keys() & {"enum", "const"}


def _takes_uuid(schema: Any) -> bool:
    """Whether a text of that form may be it, as far as its own bounds say."""
    if not isinstance(schema, dict):
        return True
    most, least = schema.get("maxLength", _UUID), schema.get("minLength", _UUID)
    bounds = [one for one in (most, least) if not isinstance(one, int | float)]  # what is no number bounds nothing
    return schema.get("format") not in _OTHER and (bool(bounds) or least <= _UUID <= most)

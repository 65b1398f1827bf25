"""Owns which questions of a server an agent can be given: by what it declared, and by where a person may be sent.

It must not ask, nor know eras. Sources: MCP spec 2025-11-25 and 2026-07-28, client/elicitation and client/sampling.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mcphub.protocol.jsonrpc import Raw

#: By method, the capability that an agent declares for it.
CAPABILITY_OF = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
#: Where a person may be sent.
_WEB = ("https://", "http://")
#: Names of secrets, however they are written: apiKey, api_key, PASSWORD.
_SECRET = re.compile(
    r"pass(word|phrase|code)|secret|api[ _-]?key|private[ _-]?key|access[ _-]?token|credential", re.IGNORECASE
).search
#: Fields that are named in one message.
MAX_NAMED = 5
#: What a server wants of who has such a capability.
_WANTS = {
    "elicitation.form": "a form to be filled in",
    "elicitation.url": "a page to be opened in a browser",
    "sampling": "a model to be asked",
    "sampling.tools": "a model to be asked with tools",
    "roots": "the roots",
}

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str).decode
_object = msgspec.json.Decoder(dict[str, Any]).decode

Capabilities = Mapping[str, Any]


class _Schema(msgspec.Struct):
    properties: dict[str, Raw] = msgspec.field(default_factory=dict)


class _Form(msgspec.Struct):
    requestedSchema: _Schema = msgspec.field(default_factory=_Schema)


_form = msgspec.json.Decoder(_Form).decode


class Undeclared(ValueError):
    """A question for which an agent lacks capabilities. `missing` is a ClientCapabilities object."""

    def __init__(self, missing: dict[str, dict[str, Any]]) -> None:
        names = named(missing)
        wants = " and ".join(_WANTS[name] for name in names)
        super().__init__(f"it wants {wants}, and this agent did not declare {', '.join(names)}")
        self.missing = missing


def refuse_undeclared(questions: Iterable[tuple[str, Raw]], declared: Capabilities) -> None:
    """Raises Undeclared, which names all that is missing, where an agent that declared this cannot be given each of
    these questions (method, params). Methods that are unknown are let through. Raises DecodeError, RecursionError."""
    missing: dict[str, dict[str, Any]] = {}
    for method, params in questions:
        for capability, parts in _lacking(method, params, declared).items():
            missing.setdefault(capability, {}).update(parts)
    if missing:
        raise Undeclared(missing)


def _lacking(method: str, params: Raw, declared: Capabilities) -> dict[str, dict[str, Any]]:
    capability = CAPABILITY_OF.get(method)
    if capability is None:
        return {}
    found = declared.get(capability)
    said = capability in declared
    parts = found if isinstance(found, dict) else {}
    if capability == "elicitation":
        mode = "url" if is_url_mode(_members(params or b"{}")) else "form"
        # `{}` means forms, as it did before there were modes.
        able = said and (mode in parts or (mode == "form" and not parts))
        return {} if able else {capability: {mode: {}}}
    needed: dict[str, Any] = {}
    if capability == "sampling":
        fields = _members(params or b"{}")
        needed = {"tools": {}} if "tools" in fields or "toolChoice" in fields else {}
    return {} if said and needed.keys() <= parts.keys() else {capability: needed}


def lacking(text: str, declared: Capabilities) -> str:
    """The capability that an error speaks of and an agent that declared this does not have, "" = none."""
    said = text.lower()
    return next((one for one in ("elicitation", "sampling") if one in said and one not in declared), "")


def named(capabilities: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Capabilities as their names: `elicitation.url`, `roots`."""
    return [f"{name}.{part}" if part else name for name, parts in capabilities.items() for part in parts or ("",)]


def read_capabilities(raw: bytes) -> Capabilities:
    """What a modern agent declared with its request; what cannot be read declares nothing."""
    try:
        return _object(raw or b"{}")
    except (msgspec.DecodeError, RecursionError):
        return {}


def is_url_mode(fields: Mapping[str, Raw]) -> bool:
    """Whether an elicitation with these members sends a person to a URL."""
    try:
        return "mode" in fields and _string(fields["mode"]) == "url"
    except msgspec.DecodeError:
        return False


def secrets_in(params: Raw) -> list[str]:
    """The fields of a form that look like secrets, by their names: no server may ask for these in a form."""
    try:
        schema = _form(params).requestedSchema
    except (msgspec.DecodeError, RecursionError):
        return []
    return [name for name in schema.properties if _SECRET(name) is not None][:MAX_NAMED]


def is_web(url: str) -> bool:
    """Whether a person may be sent there; `javascript:` and the like are never shown."""
    return url.lower().startswith(_WEB)

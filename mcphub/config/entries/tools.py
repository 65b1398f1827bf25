"""Owns what an entry says of single tools of its server.

It must not know which tools there are, nor what becomes of a call.
"""

from __future__ import annotations

from collections.abc import Mapping

from mcphub.config.jsonc import kind_of

from .fields import Fault, mapping, refuse_nul
from .reading import Reading

#: What may be said of a tool.
KEYS = frozenset(["idempotencyArgument", "limits"])


def read_idempotency_arguments(reading: Reading) -> Mapping[str, str]:
    """By tool, the argument by which its server knows a call that it was sent before. Raises `Fault`."""
    found: dict[str, str] = {}
    for tool, said in mapping(reading.raw, "tools").items():
        if not isinstance(said, dict):
            raise Fault(f"expected an object, found {kind_of(said)}", "tools", tool)
        for key in said:
            if key not in KEYS:
                reading.note("unknown key, not used", "tools", tool, key)
        argument = said.get("idempotencyArgument", "")
        if not isinstance(argument, str):
            raise Fault(f"expected a string, found {kind_of(argument)}", "tools", tool, "idempotencyArgument")
        refuse_nul(argument, "tools", tool, "idempotencyArgument")
        if argument:
            found[tool] = argument
    return found

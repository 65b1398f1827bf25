"""Owns what the program of a `headersHelper` is given and what its output means.

It must not run it. Values are secrets: no message repeats one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcphub.config import urls
from mcphub.config.environment import own_environment
from mcphub.config.jsonc import kind_of
from mcphub.spec import HelperSpec

#: Bytes of output that are read.
MOST = 1 << 16


class BadOutput(ValueError):
    """The output gives no headers; the text is the end of a sentence."""


def environment(hub_env: Mapping[str, str], helper: HelperSpec, server: str, url: str) -> dict[str, str]:
    """The helper's environment: the hub's, without what is a credential by its name where a repository or a plugin
    wrote the entry, and the server's name and URL under our names and those that scripts of Claude Code know."""
    kept = own_environment(hub_env)
    if helper.foreign:
        kept = {name: value for name, value in kept.items() if not urls.is_credential(name)}
    kept |= {name: str(value) for name, value in helper.env.items()}
    for prefix in ("MCPHUB_SERVER", "CLAUDE_CODE_MCP_SERVER"):
        kept |= {f"{prefix}_NAME": server, f"{prefix}_URL": url}
    return kept


def headers_of(output: bytes) -> tuple[dict[str, str], tuple[str, ...]]:
    """The headers that it printed, and the names of those which mcphub sets itself and which are not sent. Raises
    BadOutput."""
    if len(output) > MOST:
        raise BadOutput(f"it printed more than {MOST >> 10} KiB")
    try:
        value: Any = json.loads(output.decode("utf-8"), object_pairs_hook=_pairs)
    except UnicodeDecodeError:
        raise BadOutput("its output is not UTF-8") from None
    except (ValueError, RecursionError):
        raise BadOutput("its output is not JSON" if output.strip() else "it printed nothing") from None
    if not isinstance(value, _Pairs):
        raise BadOutput(f"expected a JSON object of strings, found {kind_of(value)}")
    found: dict[str, str] = {}
    unsent: list[str] = []
    seen: set[str] = set()
    for name, text in value:
        shown = ascii(name[:60])
        if not isinstance(text, str):
            raise BadOutput(f"the value of {shown} is {kind_of(text)}, and no string")
        text = text.removesuffix("\n").removesuffix("\r")
        if fault := urls.header_fault(name) or urls.value_fault(text):
            raise BadOutput(f"{shown}: {fault}")
        if name.lower() in seen:
            raise BadOutput(f"{shown} stands twice; upper and lower case are the same in a header's name")
        seen.add(name.lower())
        if urls.written_by_us(name):
            unsent.append(name)
        else:
            found[name] = text
    return found, tuple(unsent)


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object, each as it stands."""


def _pairs(members: list[tuple[str, Any]]) -> _Pairs:
    return _Pairs(members)


def secrets_of(headers: Mapping[str, str], least: int) -> tuple[str, ...]:
    """What must not be seen of them: values of `least` characters and more, whole and behind the word in front."""
    values = [*headers.values(), *(value.partition(" ")[2].strip() for value in headers.values())]
    return tuple(value for value in dict.fromkeys(values) if len(value) >= least)

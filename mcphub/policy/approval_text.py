"""Owns how the content of an entry is written down for a person: masked, by lines, and what differs from before.

It must not know what follows from a decision, nor where it is kept. What it makes may be stored: it holds no value of
a variable, a header or a secret (case C133).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mcphub.config.expand import looked_up, only_references
from mcphub.config.masking import masked, masked_url
from mcphub.config.urls import is_credential
from mcphub.store.approvals import Approved

MASK = "***"
#: Keys of an entry whose values may be secrets, whatever they are called.
_VALUES = frozenset({"env", "headers", "clientSecret", "privateKey"})
#: Keys whose texts are expanded (config/entries): of a program, of a server at a URL.
_PROGRAM = ("command", "args", "env", "envFile", "cwd")
_REMOTE = ("url", "headers", "headersHelper", "tls", "authToken", "oauth")
_REFERENCE = re.compile(r"\$\{(?P<name>secret:[^{}]*|[A-Za-z_][A-Za-z0-9_]*)")
#: Of two contents that show alike.
ALSO = "(what is shown as *** or stands for a variable may have changed as well: look at it before you say yes)"
HIDDEN = "(a value that is not shown: in env or headers, after `=` in an argument, or what a variable stands for)"


def shown_entry(raw: Mapping[str, Any]) -> str:
    """The entry as JSON over several lines, keys sorted, values that may be secrets masked; references stay."""
    return json.dumps(_masked(raw, "", False), indent=2, sort_keys=True, ensure_ascii=True)


def shown_value(value: Any, key: str) -> str:
    """What stands at a key of an entry, on one line, masked in the same way."""
    return json.dumps(_masked(value, key, False), sort_keys=True, ensure_ascii=True)


def references(raw: Mapping[str, Any], *, remote: bool, foreign: bool = True) -> tuple[str, ...]:
    """The names of the variables and secrets (`secret:NAME`) that are looked up for an entry, sorted: of the fields
    that are expanded alone. What a `foreign` one, a repository's, sends to another machine never reads a credential."""
    withheld = is_credential if remote and foreign else None
    texts = (text for key in (_REMOTE if remote else _PROGRAM) for text in _texts(raw.get(key)))
    return tuple(sorted({name for text in texts for name in looked_up(text, withheld)}))


def refers_to_secret(text: str) -> bool:
    """Whether a value that is a secret, or a credential by its name, stands in this text once it is expanded."""
    names = [found["name"] for found in _REFERENCE.finditer(text)]
    return any(name.startswith("secret:") or is_credential(name) for name in names)


def difference(old: Approved, new: Approved) -> tuple[str, ...]:
    """The lines of two contents that differ: `+ ` is new, `- ` was approved, two blanks stayed."""
    before, after = _lines(old), _lines(new)
    if before == after:
        return (f"+ {HIDDEN}",)
    import difflib  # few entries ever change

    lines = list(difflib.unified_diff(before, after, n=1, lineterm=""))[3:]
    shown = tuple("..." if line.startswith("@@") else f"{line[:1]} {line[1:]}" for line in lines)
    # What is masked on both sides looks the same whatever it was, and whatever it is now.
    return (*shown, f"? {ALSO}") if any(MASK in line or "${" in line for line in after) else shown


def _lines(content: Approved) -> list[str]:
    if content.entry:
        lines = content.entry.split("\n")
    else:  # it was approved before entries were kept
        lines = list(content.command)
    lines.append(f"in {content.cwd}" if content.cwd else "")
    return [*lines, *(f"with {name}" for name in content.env_names)]


def _masked(value: Any, key: str, secret: bool) -> Any:
    if isinstance(value, Mapping):
        return {name: _masked(one, name, secret or key in _VALUES or name in _VALUES) for name, one in value.items()}
    if isinstance(value, list):
        return [_masked(one, key, secret) for one in value]
    if not isinstance(value, str):
        return MASK if secret and not isinstance(value, bool) else value
    if only_references(value):
        return value
    if secret or is_credential(key):
        return MASK
    if key == "url":
        return masked_url(value)
    return masked(value) if key == "args" else value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)

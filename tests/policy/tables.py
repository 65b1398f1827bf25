"""Reads the tables of tests/data/policy: one row is one case, `|` stands between its cells, `#` begins a remark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from mcphub.config.entries.context import Context
from mcphub.config.jsonc import parse
from mcphub.config.layer import Entry, Layer
from mcphub.config.policy_document import PolicyDocument
from mcphub.config.resolve import Resolved, resolve
from mcphub.spec import Origin, Scope

DATA = Path(__file__).parents[1] / "data" / "policy"
_ESCAPE = re.compile(r"\\(u[0-9a-f]{4}|.)")

#: Where documents of each scope stand.
PLACES = {
    Scope.ENTERPRISE: "/etc/mcphub/managed-mcp.json",
    Scope.MANAGED: "/etc/mcphub/managed-settings.json",
    Scope.USER: "/u/settings.toml",
    Scope.PROJECT: "/w/policy.json",
}


class Line(msgspec.Struct, frozen=True):
    """`number` counts from 1; `cells` of a line that begins with `@` are its words behind that."""

    number: int
    cells: tuple[str, ...]
    order: bool = False


def lines(name: str) -> Iterator[Line]:
    for number, text in enumerate((DATA / name).read_text("utf-8").splitlines(), 1):
        if text.startswith("@"):
            yield Line(number, tuple(text[1:].strip().split(" ", 1)), True)
        elif text.strip() and not text.startswith("#"):
            yield Line(number, tuple(cell.strip(" ") for cell in text.split(" | ")))


def unescaped(text: str) -> str:
    r"""`\n`, `\t`, `\\` and `\u0000` as the characters they stand for."""

    def letter(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else {"n": "\n", "t": "\t", "\\": "\\"}[code]

    return _ESCAPE.sub(letter, "" if text == "<empty>" else text)


def document(scope: Scope, text: str) -> PolicyDocument:
    """A document as its file would give it; `FAULT` stands for one that cannot be trusted."""
    key = "policy" if scope is Scope.USER else ""
    origin = Origin(scope, PLACES[scope], key)
    if text == "FAULT":
        return PolicyDocument(origin, fault=f"cannot trust {origin.path}: it is writable by others")
    read = parse(text.encode())
    return PolicyDocument(origin, read.value, read.lines)


def server(text: str, env: Mapping[str, str] | None = None) -> Resolved:
    """`SCOPE NAME ENTRY`, resolved."""
    scope, name, written = text.split(" ", 2)
    raw: dict[str, Any] = json.loads(written)
    directory = "/w" if scope == "project" else "/u"
    path = f"{directory}/mcp.json"
    entry = Entry(name, raw, Origin(Scope(scope), path, f"mcpServers.{name}", 3))
    return resolve([Layer(Scope(scope), path, directory, (entry,))], Context(env or {})).servers[name]

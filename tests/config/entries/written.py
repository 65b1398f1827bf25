"""What entries become that are written in a person's file or in a project's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcphub.config.document import parse_file
from mcphub.config.entries.context import Context
from mcphub.config.entries.entry import Parsed, parse_entry
from mcphub.config.layer import Layer
from mcphub.spec import Problem, Scope, ServerSpec, StdioSpec

USER = "/home/u/.config/mcphub/mcp.json"
PROJECT = "/w/.mcp.json"
ENV = {"HOME": "/home/u", "TOKEN": "tok-5", "EMPTY": ""}
CONTEXT = Context(ENV, "/home/u/.config/mcphub/environment")


def read(text: str | Mapping[str, Any], scope: Scope = Scope.USER) -> Layer:
    data = text if isinstance(text, str) else json.dumps(text)
    path, directory = (USER, "/home/u/.config/mcphub") if scope is Scope.USER else (PROJECT, "/w")
    return parse_file(data.encode(), scope=scope, path=path, directory=directory)


def parsed(raw: Mapping[str, Any], scope: Scope = Scope.USER, context: Context = CONTEXT) -> Parsed:
    layer = read({"mcpServers": {"s": raw}}, scope)
    return parse_entry(layer.entries[0], layer.directory, context)


def spec(raw: Mapping[str, Any], scope: Scope = Scope.USER, context: Context = CONTEXT) -> ServerSpec:
    outcome = parsed(raw, scope, context).outcome
    assert isinstance(outcome, ServerSpec), outcome
    return outcome


def stdio(raw: Mapping[str, Any], scope: Scope = Scope.USER, context: Context = CONTEXT) -> StdioSpec:
    transport = spec(raw, scope, context).transport
    assert isinstance(transport, StdioSpec)
    return transport


def problem(raw: Mapping[str, Any], scope: Scope = Scope.USER, context: Context = CONTEXT) -> str:
    outcome = parsed(raw, scope, context).outcome
    assert isinstance(outcome, Problem), outcome
    assert outcome.name == "s"
    assert outcome.origin.key == "mcpServers.s"
    return outcome.message

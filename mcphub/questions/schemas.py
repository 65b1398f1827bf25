"""Owns the JSON Schemas of the files that people and administrators write, made of what reads those files.

It must not be stricter than the readers but in what these warn of (a key that nobody knows is not in a schema, so that
an editor marks it) and in what hosts alone write (the types `sdk`, `sse-ide`, `ws-ide`).
tests/questions/test_schemas.py holds schemas and readers against each other, value by value.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import msgspec.inspect

from mcphub.config.entries.allowance import MAX_CALLS, MAX_RATE, MIN_RATE
from mcphub.config.entries.entry import SHARING
from mcphub.config.entries.fields import MAX_MILLISECONDS, MIN_MILLISECONDS
from mcphub.config.entries.kinds import REMOTE_TYPES, UNUSED_KEYS
from mcphub.config.entries.limits import MAX_MEMORY, MAX_NICE, MIN_MEMORY
from mcphub.config.entries.oauth import ALGORITHMS, CALLBACK_HOSTS, GRANTS
from mcphub.config.identity_provider import KEY as IDP
from mcphub.config.identity_provider import SUBJECTS
from mcphub.config.managed_document import KNOWN_VERSION, SERVERS, VERSION
from mcphub.config.names import RESERVED_NAMES
from mcphub.config.policy_keys import (
    ALLOWED,
    ALLOWED_TOOLS,
    CONNECTORS,
    DENIED,
    DENIED_TOOLS,
    MANAGED_ONLY,
    TABLE,
)
from mcphub.config.remote_settings import KEY as REMOTE
from mcphub.config.settings import HubSettings
from mcphub.policy.matchers.command import CommandMatcher
from mcphub.policy.matchers.name import NameMatcher
from mcphub.policy.matchers.url import UrlMatcher

Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: A name as the code has it, in a docstring.
_WORD = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
_HTTP, _WS = "^\\$\\{|^[hH][tT][tT][pP][sS]?://", "^\\$\\{|^[wW][sS][sS]?://"
#: Types of a remote server by what its address begins with.
_HTTP_TYPES = [name for name in REMOTE_TYPES if name != "ws"]
_SECURE = "^$|^[hH][tT][tT][pP][sS]://"
#: No NUL, which no argument or variable can carry.
_TEXT: Schema = {"type": "string", "pattern": "^[^\\u0000]*$"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_MILLISECONDS: Schema = {"type": "number", "minimum": MIN_MILLISECONDS, "maximum": MAX_MILLISECONDS}


#: What `limits` says of calls.
_CALLS: Schema = {
    "properties": {
        "calls": {"type": "integer", "minimum": 1, "maximum": MAX_CALLS},
        "rate": {"type": "number", "minimum": MIN_RATE, "maximum": MAX_RATE},
        "burst": {"type": "integer", "minimum": 1, "maximum": MAX_CALLS},
    },
    "dependentRequired": {"burst": ["rate"]},
}

#: Where somebody signs in: over https, or on this machine.
_SIGN_IN = "^[hH][tT][tT][pP][sS]://[^\\s@#\\\\]+$|^[hH][tT][tT][pP]://(localhost|127\\.[0-9.]+|\\[::1\\])([:/?][^\\s@#\\\\]*)?$"
_WRITTEN_SIGN_IN: Schema = {"type": "string", "pattern": f"^$|\\$\\{{|{_SIGN_IN}"}
_SCOPE = "[\\x21\\x23-\\x5b\\x5d-\\x7e]+"
_SCOPES = f"^ *({_SCOPE} *)*$"
_PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}


def _said(schema: Mapping[str, Any], description: str) -> Schema:
    return {**schema, "description": description}


def _words(pattern: str, one: str = "") -> Schema:
    """One string of words, or a list of them, each of which is `one`."""
    item = {"type": "string", "pattern": one or pattern}
    return {"anyOf": [{"type": "string", "pattern": pattern}, {"type": "array", "items": item}]}


def _oauth(*, managed: bool = False) -> Schema:
    """`oauth` of an entry; `managed`: of an organisation's."""
    filled = {"pattern": "[^\\u0000]"}
    source = {"type": "string", "pattern": "^[^\\u0000]*[^\\s\\u0000][^\\u0000]*$"}
    assertion: Schema = {
        "type": "object",
        "properties": {"file": source, "env": {"type": "string", "pattern": "^[A-Za-z_]\\w*$"}, "command": source},
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    }
    properties: dict[str, Schema] = {
        "clientId": _said(_TEXT, "this client's id, where it was registered by hand"),
        "clientSecret": _said(_TEXT, "its secret; write ${secret:NAME}"),
        "callbackPort": _said(_PORT, "the port that the browser comes back to; any free one where it is left out"),
        "callbackHost": _said({"enum": list(CALLBACK_HOSTS)}, "how the browser is told to come back"),
        "scopes": _said(_words(f"^[^\\u0000]*\\$[^\\u0000]*$|{_SCOPES}"), "what is asked for"),
        "issuer": _said(_WRITTEN_SIGN_IN, "the only authorization server that is believed"),
        "authServerMetadataUrl": _said(_WRITTEN_SIGN_IN, "where its metadata are, instead of looking for them"),
        "clientMetadataUrl": _said(
            {"type": "string", "pattern": "^$|\\$\\{|^https://[^\\s/@#\\\\]+/[^\\s@#\\\\]+$"},
            "where this client's own metadata document is published",
        ),
        "xaa": _said({"type": "boolean"}, "the organisation's login is exchanged; see xaaIdp"),
        "grant": _said({"enum": list(GRANTS)}, "how tokens are had; authorization_code: a person signs in"),
        "allowMissingPkceMetadata": _said({"type": "boolean"}, "PKCE need not be announced; it is used anyway"),
        "privateKey": _said(_TEXT, "a PEM by which the client proves who it is; write ${secret:NAME}"),
        "signingAlgorithm": _said({"enum": ["", *ALGORITHMS]}, "how privateKey signs"),
        "assertion": _said(assertion, "where a workload's own token is"),
        "dpop": _said({"type": "boolean"}, "ask for tokens that are bound to a key"),
        "hosts": _said(
            _words("^$|\\$|^(\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?$"),
            "further hosts that may take part, though they are private ones or others than the metadata's",
        ),
    }

    if managed:
        del assertion["properties"]["command"]
        words = ("scopes", "hosts")
        for key in {*properties} - {"clientSecret", "privateKey", "assertion"}:
            fixed = {"not": {"type": "string", "pattern": "\\$\\{"}}
            many = {"items": fixed} if key in words else {}
            properties[key] = {"allOf": [properties[key], {**fixed, **many}]}

    def when(condition: Schema, then: Schema) -> Schema:
        return {"if": condition, "then": then}

    def grants(name: str) -> Schema:
        return {"properties": {"grant": {"const": name}}, "required": ["grant"]}

    def needs(*keys: str) -> Schema:
        return {"properties": dict.fromkeys(keys, filled), "required": list(keys)}

    def has(key: str) -> Schema:
        return {"properties": {key: filled}, "required": [key]}

    exchanged: Schema = {"properties": {"xaa": {"const": True}}, "required": ["xaa"]}
    rules = [
        when(has("clientSecret"), {**needs("clientId"), "not": has("privateKey")}),
        when(has("privateKey"), needs("clientId")),
        when(has("signingAlgorithm"), needs("privateKey")),
        when(exchanged, {**needs("clientId"), "not": {"required": ["grant"]}}),
        when({"allOf": [exchanged, has("clientSecret")]}, needs("issuer")),
        {"if": grants("jwt-bearer"), "then": {"required": ["assertion"]}, "else": {"not": {"required": ["assertion"]}}},
        when(
            grants("client_credentials"),
            {**needs("clientId", "issuer"), "anyOf": [has("clientSecret"), has("privateKey")]},
        ),
    ]
    filled_in = {"type": "object", "properties": properties, "additionalProperties": False, "allOf": rules}
    return {"anyOf": [{"const": False}, filled_in]}


def _idp() -> Schema:
    """`xaaIdp` of managed settings."""
    properties: dict[str, Schema] = {
        "issuer": _said({"type": "string", "pattern": _SIGN_IN}, "the identity provider"),
        "clientId": _said({"type": "string", "minLength": 1, "not": {"pattern": "\\$\\{"}}, "mcphub's id there"),
        "clientSecret": _said({"type": "string"}, "its secret, if it has one; write ${secret:NAME}"),
        "callbackPort": _said(_PORT, "the port that the browser comes back to"),
        "scopes": _said(_words(_SCOPES, f"^{_SCOPE}$"), "what is asked for beside openid"),
        "subject": _said({"enum": list(SUBJECTS)}, "what is exchanged"),
    }
    return {
        "type": "object",
        "properties": properties,
        "required": ["issuer", "clientId"],
        "additionalProperties": False,
    }


#: What each key of an entry may hold. Those that are not used yet may hold anything.
ENTRY_FIELDS: Mapping[str, Schema] = {
    "type": _said({"enum": ["", "stdio", *REMOTE_TYPES]}, "how to reach it; a program where it is left out"),
    "command": _said({"type": "string", "pattern": "^[^\\u0000]*[^\\s\\u0000]$"}, "the program; never a shell line"),
    "args": _said(_TEXTS, "its arguments, passed as they are"),
    "env": _said(
        {
            "type": "object",
            "propertyNames": {"pattern": "^[^=\\u0000]+$"},
            "additionalProperties": _TEXT,
        },
        "variables for it",
    ),
    "envFile": _said(_TEXT, "a file of NAME=VALUE lines below env"),
    "cwd": _said(_TEXT, "where it starts"),
    "inheritEnv": _said(
        {"anyOf": [{"type": "boolean"}, _TEXTS]}, "what it gets of the hub's environment: all, nothing, or these names"
    ),
    "stdio": _said({"enum": ["socketpair", "pipe"]}, "pipe is for programs that open /dev/stdout"),
    "url": _said({"type": "string", "pattern": f"^$|{_HTTP}|{_WS}"}, 'where it is; "" = not configured yet'),
    "headers": _said(
        {
            "type": "object",
            "propertyNames": {"pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"},
            "additionalProperties": {"type": "string"},
        },
        "sent with every request to it",
    ),
    "headersHelper": _said(
        {"type": "string", "pattern": "^[^\\u0000]*[^\\s\\u0000][^\\u0000]*$"},
        "a program that prints further headers as a JSON object; run without a shell",
    ),
    "tls": _said(
        {
            "type": "object",
            "properties": {"cert": _TEXT, "key": _TEXT, "ca": _TEXT},
            "additionalProperties": False,
            "dependentRequired": {"key": ["cert"]},
        },
        "files of the certificate that is shown to it, and of those that vouch for it",
    ),
    "oauth": _said(_oauth(), "how its credentials are had; false: never"),
    "enabled": _said({"type": "boolean"}, "false: keep the entry, do not start it"),
    "disabled": _said({"type": "boolean"}, "what other hosts write for enabled: false"),
    "enabledTools": _said(_TEXTS, "show only these tools"),
    "disabledTools": _said(_TEXTS, "show all but these tools"),
    "startupTimeout": _said(_MILLISECONDS, "milliseconds for starting and listing"),
    "timeout": _said(_MILLISECONDS, "milliseconds for one call without answer or progress"),
    "inputTimeout": _said(_MILLISECONDS, "milliseconds that a person has for an answer to a question of its"),
    "trustAnnotations": _said(
        {"type": "boolean"}, "what its tools say of themselves is believed: calls that only read may be sent again"
    ),
    "tools": _said(
        {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {
                    "idempotencyArgument": _said(
                        _TEXT, "the argument by which the server knows a call that it was sent before"
                    ),
                    "limits": {**_CALLS, "type": "object", "additionalProperties": False},
                },
                "additionalProperties": False,
            },
        },
        "what is to be known of single tools, by the server's own name of each",
    ),
    "era": _said({"enum": ["", "legacy", "modern"]}, "the protocol generation, instead of probing for it"),
    "sampling": _said({"type": "boolean"}, "tell a legacy server on stdio that agents' models can be asked"),
    "sharing": _said({"enum": list(SHARING)}, "who shares one instance of it; auto decides by where the entry is from"),
    "lazy": _said({"type": "boolean"}, "start it with the first call"),
    "alwaysOn": _said({"type": "boolean"}, "keep it running though nobody uses it"),
    "healthCheck": _said(
        {"anyOf": [{"type": "boolean"}, _MILLISECONDS]},
        "milliseconds of silence after which it is asked whether it is there; false: never",
    ),
    "idleTimeout": _said(_MILLISECONDS, "milliseconds without a call after which it is stopped"),
    "limits": _said(
        {
            "type": "object",
            "properties": {
                "memory": {"type": "integer", "minimum": MIN_MEMORY, "maximum": MAX_MEMORY},
                "cpuTime": _MILLISECONDS,
                "nice": {"type": "integer", "minimum": 0, "maximum": MAX_NICE},
                **_CALLS["properties"],
            },
            "dependentRequired": _CALLS["dependentRequired"],
            "additionalProperties": False,
        },
        "how much of the machine it may use: MiB of memory, milliseconds of processor time, steps of nice; and how "
        "many calls may be in flight there at once, or come in a second",
    ),
    **{key: {"description": "accepted, not used by this version"} for key in sorted(UNUSED_KEYS)},
}


def _entry(fields: Mapping[str, Schema]) -> Schema:
    """One entry: a program, a remote server, or a form that is not filled in yet."""
    program = {"required": ["command"], "properties": {"type": {"enum": ["", "stdio"]}, "url": {"const": ""}}}
    remote = {
        "required": ["type", "url"],
        "properties": {"type": {"enum": _HTTP_TYPES}, "url": {"pattern": _HTTP}, "command": False},
    }
    socket = {
        "required": ["type", "url"],
        "properties": {"type": {"const": "ws"}, "url": {"pattern": _WS}, "command": False},
    }
    blank = {
        "required": ["url"],
        "properties": {"url": {"const": ""}, "command": False},
    }
    legacy = {
        "if": {"properties": {"type": {"const": "sse"}}, "required": ["type"]},
        "then": {"properties": {"era": {"enum": ["", "legacy"]}}},
    }
    return {
        "type": "object",
        "properties": {key: fields[key] for key in sorted(fields)},
        "additionalProperties": False,
        "anyOf": [program, remote, socket, blank],
        **legacy,
    }


def _servers(entry: Schema) -> Schema:
    return {
        "type": "object",
        "propertyNames": {
            "pattern": "^[A-Za-z0-9_-]{1,64}$",
            "not": {"enum": sorted(name for name in RESERVED_NAMES if re.fullmatch("[A-Za-z0-9_-]{1,64}", name))},
        },
        "additionalProperties": entry,
    }


def _file(title: str, description: str, properties: Mapping[str, Schema]) -> Schema:
    return {
        "$schema": _DIALECT,
        "title": title,
        "description": description,
        "type": "object",
        "properties": {"$schema": {"type": "string"}, **properties},
        "additionalProperties": False,
    }


def mcp() -> Schema:
    """`mcp.json` of a person and `.mcp.json` of a project."""
    servers = _said(_servers(_entry(ENTRY_FIELDS)), "the servers, by name")
    return _file("mcp.json", "Servers of a person, or of a project in .mcp.json.", {"mcpServers": servers})


def managed_mcp() -> Schema:
    """`managed-mcp.json` of an enterprise."""
    servers = _said(_servers(_entry(ENTRY_FIELDS)), "the only servers that there are")
    text = "Servers of an organisation. By being there this file is alone: no other file's servers count."
    return _file("managed-mcp.json", text, {"mcpServers": servers})


def managed_settings() -> Schema:
    """`managed-settings.json`, its drop-ins, and what is fetched."""
    # What such a server is must not depend on a user's environment.
    fixed = {"not": {"pattern": "\\$\\{"}}
    fields = {key: schema for key, schema in ENTRY_FIELDS.items() if key != "headersHelper"}
    fields |= {key: {**fields[key], **fixed} for key in ("command", "cwd", "envFile")}
    fields["args"] = {**fields["args"], "items": {**_TEXT, **fixed}}
    fields["url"] = {**fields["url"], "pattern": _SECURE}
    fields["oauth"] = _said(_oauth(managed=True), str(fields["oauth"]["description"]))
    remote = {
        "type": "object",
        "properties": {
            "url": _said({"type": "string", "pattern": "^[hH][tT][tT][pP][sS]://"}, "where the document is"),
            "failClosed": _said({"type": "boolean"}, "without it only the organisation's own servers run"),
            "caFile": _said({"type": "string", "pattern": "^$|^/"}, "certificates that vouch for the place"),
        },
        "required": ["url"],
        "additionalProperties": False,
    }
    version = {"type": "integer", "maximum": KNOWN_VERSION}
    lock = _said({"type": "boolean"}, "only the organisation's lists of what is allowed count")
    properties: dict[str, Schema] = {
        VERSION: _said(version, "of this format"),
        **_rules(),
        MANAGED_ONLY: lock,
        CONNECTORS: _said({"type": "boolean"}, "accepted, not used"),
        SERVERS: _said(_servers(_entry(fields)), "servers of the organisation, beside those of others"),
        REMOTE: _said(remote, "further settings, fetched over https"),
        IDP: _said(_idp(), "where people sign in once for all servers whose entry says xaa"),
    }
    text = "Rules of an organisation, and servers beside those of others. A key that is misspelt closes."
    return _file("managed-settings.json", text, properties)


def _rules() -> dict[str, Schema]:
    """The keys of policy that a person's own table has too."""
    command = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    kinds: dict[str, Schema] = {
        NameMatcher.kind: _said({"type": "string", "minLength": 1, "pattern": "^[^*]*$"}, "without wildcards"),
        CommandMatcher.kind: _said(command, "program and every argument, in order"),
        UrlMatcher.kind: _said({"type": "string", "minLength": 1}, "* stands for a part; see docs/policy.md"),
    }
    rule = {
        "type": "object",
        "properties": kinds,
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    }
    tools = {"type": "array", "items": {"type": "string", "pattern": "^[^/]+/.+$"}}
    return {
        ALLOWED: _said({"type": "array", "items": rule}, "servers that may run; an empty list allows none"),
        DENIED: _said({"type": "array", "items": rule}, "servers that may not run, whoever configured them"),
        ALLOWED_TOOLS: _said(tools, "SERVER/TOOL; * stands for any characters"),
        DENIED_TOOLS: _said(tools, "SERVER/TOOL; * stands for any characters"),
    }


def settings() -> Schema:
    """`settings.toml`, for editors that check TOML by a JSON Schema."""
    properties = _section(HubSettings())
    rules: Schema = {"type": "object", "properties": _rules(), "additionalProperties": False}
    properties[TABLE] = _said(rules, "your own rules, beside those of an organisation")
    schema = _file("settings.toml", "How the hub behaves. Every key may be left out.", properties)
    del schema["properties"]["$schema"]  # which no TOML file has
    return schema


def _section(default: msgspec.Struct) -> dict[str, Schema]:
    described = msgspec.inspect.type_info(type(default))
    assert isinstance(described, msgspec.inspect.StructType)
    found: dict[str, Schema] = {}
    for field in described.fields:
        value = getattr(default, field.name)
        if isinstance(value, msgspec.Struct):
            text = _WORD.sub(lambda word: _camel(word[0]), " ".join((inspect.getdoc(type(value)) or "").split()))
            inner = {"type": "object", "properties": _section(value), "additionalProperties": False}
            found[_camel(field.name)] = _said(inner, text)
        else:
            found[_camel(field.name)] = {**_typed(field.type), "default": list(value) if value == () else value}
    return found


def _typed(kind: msgspec.inspect.Type) -> Schema:
    match kind:
        case msgspec.inspect.IntType(ge=low, le=high):
            return {"type": "integer", **_limits(low, high)}
        case msgspec.inspect.FloatType(ge=low, le=high):
            return {"type": "number", **_limits(low, high)}
        case msgspec.inspect.LiteralType(values=values):
            return {"enum": sorted(values)}
        case msgspec.inspect.StrType(pattern=pattern):
            return {"type": "string", **({"pattern": pattern} if pattern is not None else {})}
        case msgspec.inspect.BoolType():
            return {"type": "boolean"}
        case msgspec.inspect.VarTupleType(item_type=item):
            return {"type": "array", "items": _typed(item)}
        case msgspec.inspect.UnionType(types=types):
            return {"anyOf": [_typed(one) for one in types]}
        case _:
            raise TypeError(f"no schema for {kind}")


def _limits(low: float | None, high: float | None) -> Schema:
    return {key: value for key, value in (("minimum", low), ("maximum", high)) if value is not None}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


#: By the name of the file below config/.
SCHEMAS = {
    "mcp.schema.json": mcp,
    "managed-mcp.schema.json": managed_mcp,
    "managed-settings.schema.json": managed_settings,
    "settings.schema.json": settings,
}

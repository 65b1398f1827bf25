"""The JSON Schemas of config/, held against what reads those files."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from mcphub.config import jsonc
from mcphub.config.document import parse_file
from mcphub.config.entries.context import Context
from mcphub.config.entries.entry import Parsed, parse_entry
from mcphub.config.entries.kinds import KEYS
from mcphub.config.identity_provider import read_idp
from mcphub.config.layer import Entry
from mcphub.config.managed_document import parse_managed
from mcphub.config.names import RESERVED_NAMES
from mcphub.config.settings import HubSettings, parse_settings
from mcphub.policy.document import read_policy
from mcphub.questions.findings import file_kind, findings
from mcphub.questions.schemas import ENTRY_FIELDS, SCHEMAS
from mcphub.spec import Origin, Problem, Scope

CONFIG = Path(__file__).parents[2] / "config"
VALIDATORS = {name: jsonschema_rs.validator_for(build()) for name, build in SCHEMAS.items()}
SERVERS = VALIDATORS["mcp.schema.json"]
MANAGED = VALIDATORS["managed-settings.schema.json"]

EXAMPLES = {
    "mcp.json": "mcp.schema.json",
    "managed-mcp.json": "managed-mcp.schema.json",
    "managed-settings.json": "managed-settings.schema.json",
    "settings.toml": "settings.schema.json",
    "environment": "",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_is_right(name: str) -> None:
    """It validates against its schema, where it has one, and loads without a problem or a warning."""
    data = (CONFIG / name).read_bytes()
    report = findings(data, f"/x/{name}", file_kind(name, data), Context({"HOME": "/u"}))
    assert (report["problems"], report["warnings"]) == ([], [])
    if schema := EXAMPLES[name]:
        value = tomllib.loads(data.decode()) if name.endswith(".toml") else jsonc.parse(data).value
        VALIDATORS[schema].validate(value)


def test_every_file_of_the_folder_is_an_example_or_a_schema() -> None:
    """What is added here is tested here."""
    assert {path.name for path in CONFIG.iterdir()} == {*EXAMPLES, *SCHEMAS}


def test_every_key_that_is_read_is_in_the_schema() -> None:
    """And no other."""
    assert set(ENTRY_FIELDS) == KEYS


VALUES: list[Any] = [
    None, "", "x", " x", "x ", "a\0b", "pipe", "legacy", "modern", "stdio", "http", "sse", "ws", "sdk", "https://h/", "ftp://h/",
    True, False, 0, 1, 999, 1000, 1500.5, 2**31 - 1, 2**31, [], ["x"], [1], ["a\0"], {}, {"A": "b"}, {"A": 1},
    {"ca": "/c"}, {"key": "/k"}, {"ca": 1}, {"A=": "b"}, {"memory": 16}, {"memory": 15},
    {"memory": 2**24 + 1}, {"memory": "1"}, {"memory": True}, {"cpuTime": 1000}, {"cpuTime": 1}, {"nice": 19},
    {"nice": -1},
    "shared", "agent", "auto", {"": "b"}, {"A B": "b"}, {"A": "a\0b"},
]  # fmt: skip
#: Forms of an entry that every value is tried in.
FORMS: dict[str, dict[str, Any]] = {
    "program": {"command": "x"},
    "remote": {"type": "http", "url": "https://h/"},
    "older": {"type": "sse", "url": "https://h/"},
    "socket": {"type": "ws", "url": "wss://h/"},
    "socket at a page": {"type": "ws", "url": "https://h/"},
    "page at a socket": {"type": "http", "url": "wss://h/"},
    "blank": {"url": ""},
    "nothing": {},
    "both": {"command": "x", "url": "https://h/"},
    "no type": {"url": "https://h/"},
    "both, typed": {"type": "http", "command": "x", "url": "https://h/"},
    "program with a blank url": {"command": "x", "url": ""},
}
def reads(entry: Any) -> Parsed:
    """What the reader makes of it, switched off, so that nothing is expanded."""
    return parse_entry(Entry("a", entry, Origin(Scope.PROJECT, "/f", "k")), "/w", Context(switched_off={"a": ""}))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("key", ["", *sorted(KEYS)])
def test_the_schema_agrees_with_the_reader(form: str, key: str) -> None:
    """For each field and each kind of value: what the schema takes is read, of what it refuses something is said."""
    for value in VALUES if key else [None]:
        entry = {**FORMS[form], key: value} if key else FORMS[form]
        taken, read = SERVERS.is_valid({"mcpServers": {"a": entry}}), reads(entry)
        if taken:
            assert not isinstance(read.outcome, Problem), entry
        else:
            # A field of the other kind of server is a warning, and a blank form is not read to its end.
            assert isinstance(read.outcome, Problem) or read.warnings, entry


@pytest.mark.parametrize("name", ["a", "A_b-9", "x" * 64, "x" * 65, "", "a b", "é", *sorted(RESERVED_NAMES)])
def test_names_agree(name: str) -> None:
    """With the names that a server may have."""
    document = {"mcpServers": {name: {"command": "x"}}}
    layer = parse_file(json.dumps(document).encode(), scope=Scope.USER, path="/f", directory="/")
    assert SERVERS.is_valid(document) == (layer.problems == ())


MANAGED_ONE: dict[str, Any] = {"type": "http", "url": "https://h/"}
JWT: dict[str, Any] = {"grant": "jwt-bearer", "clientId": "c"}
RULE_LISTS: list[Any] = [
    [], {}, "x", None, [{}], [{"serverName": "a"}], [{"serverName": ""}], [{"serverName": "a*"}], [{"serverName": 1}],
    [{"serverCommand": ["a", "b"]}], [{"serverCommand": []}], [{"serverCommand": "a"}], [{"serverCommand": [1]}],
    [{"serverUrl": "https://h/*"}], [{"serverUrl": ""}], [{"serverUrl": 1}], [{"serverName": "a", "serverUrl": "b"}],
    [{"name": "a"}], ["a"], ["a/b"], ["*/delete_*"], ["/b"], ["a/"], [1], True, False,
]  # fmt: skip


@pytest.mark.parametrize(
    "key",
    ["deniedMcpServers", "allowedMcpServers", "deniedTools", "allowedTools", "allowManagedMcpServersOnly"],
)
def test_rules_agree(key: str) -> None:
    """What the schema takes closes nothing; of what it refuses something is said."""
    for value in RULE_LISTS:
        document = {key: value}
        layer = parse_managed(json.dumps(document).encode(), path="/f", directory="/")
        assert layer.policy is not None
        policy = read_policy(layer.policy)
        if MANAGED.is_valid(document):
            assert policy.closed == (), document
        else:
            assert policy.closed or policy.warnings, document


@pytest.mark.parametrize(
    "document",
    [
        {"version": 1}, {"version": 2}, {"version": "1"}, {"version": True}, {"version": 1.5}, {"xaaIdp": 3},
        {"xaaIdp": {"issuer": "https://i/", "clientId": "c"}}, {"xaaIdp": {"issuer": "https://i/"}},
        {"xaaIdp": {"issuer": "http://i/", "clientId": "c"}},
        {"xaaIdp": {"issuer": "http://[::1]:1/", "clientId": "c"}},
        {"xaaIdp": {"issuer": "https://i/", "clientId": "c", "scopes": "a b", "callbackPort": 1}},
        {"xaaIdp": {"issuer": "https://i/", "clientId": "c", "scopes": ["a b"]}},
        {"xaaIdp": {"issuer": "https://i/", "clientId": "c", "callbackPort": 0}},
        {"xaaIdp": {"issuer": "https://i/", "clientId": "${C}"}},
        {"xaaIdp": {"issuer": "https://i/", "clientId": ""}},
        {"xaaIdp": {"issuer": "https://i/", "clientId": "c", "subject": "x"}}, {"xaaIdp": {}},
        {"xaaIdp": {"issuer": "https://u@i/", "clientId": "c"}},
        {"xaaIdp": {"issuer": "https://i/#", "clientId": "c"}},
        {"remoteSettings": {"url": "https://h/"}}, {"remoteSettings": {}}, {"remoteSettings": {"url": "http://h/"}},
        {"remoteSettings": {"url": "https://h/", "failClosed": 1}}, {"remoteSettings": []},
        {"remoteSettings": {"url": "https://h/", "caFile": "x"}}, {"remoteSettings": {"url": "https://h/", "x": 1}},
        {"managedMcpServers": {"a": {"command": "x"}}}, {"managedMcpServers": {"a": {"command": "${X}"}}},
        {"managedMcpServers": {"a": {"command": "x", "args": ["${X}"]}}},
        {"managedMcpServers": {"a": {"type": "http", "url": "http://h/"}}},
        {"managedMcpServers": {"a": {"type": "http", "url": "https://h/", "headersHelper": "x"}}},
        {"managedMcpServers": []},
        {"managedMcpServers": {"a": {**MANAGED_ONE, "oauth": {"xaa": True, "clientId": "c"}}}},
        {"managedMcpServers": {"a": {**MANAGED_ONE, "oauth": {"issuer": "${I}"}}}},
        {"managedMcpServers": {"a": {**MANAGED_ONE, "oauth": {"scopes": ["a", "${I}"]}}}},
        {"managedMcpServers": {"a": {**MANAGED_ONE, "oauth": {**JWT, "assertion": {"env": "A"}}}}},
        {"managedMcpServers": {"a": {**MANAGED_ONE, "oauth": {**JWT, "assertion": {"command": "x"}}}}},
        {"managedMcpServers": {"a": {**MANAGED_ONE, "oauth": {**JWT, "assertion": {"file": "${HOME}/x"}}}}},
        {"managedMcpServers": {"a": {**MANAGED_ONE, "oauth": {"clientId": "c", "clientSecret": "${secret:x}"}}}},
    ],
)  # fmt: skip
def test_managed_settings_agree(document: dict[str, Any]) -> None:
    """With their reader."""
    layer = parse_managed(json.dumps(document).encode(), path="/f", directory="/")
    fault = read_idp(layer.idp, {})[1] if layer.idp is not None else ""
    assert MANAGED.is_valid(document) == (layer.problems == () and not fault)


def test_settings_agree() -> None:
    """The defaults validate; each wrong value that the reader names, the schema refuses."""
    schema = VALIDATORS["settings.schema.json"]
    defaults: dict[str, Any] = SCHEMAS["settings.schema.json"]()["properties"]
    found: dict[str, Any] = {}
    for name, section in defaults.items():
        if name == "policy":
            continue
        if "properties" not in section:
            found[name] = section["default"]
            continue
        found[name] = {key: one["default"] for key, one in section["properties"].items()}
        for key, one in section["properties"].items():
            values: list[Any] = ["x", 0, -1, 1.5, True, [], 10**12]
            for value in values:
                if isinstance(value, float) and one.get("type") == "integer":
                    continue
                text = f"[{name}]\n{key} = {json.dumps(value)}\n"
                _, problems = parse_settings(text.encode(), "/f", {})
                if key == "listen" and value == "x":
                    continue  # an address is more than a string
                assert schema.is_valid({name: {key: value}}) == (problems == ()), (text, problems)
        assert not schema.is_valid({name: {"zzz": 1}})
    schema.validate(found)
    assert not schema.is_valid({"zzz": 1})
    assert len(found) == len(msgspec.structs.fields(HubSettings))

"""Tables for what an entry says of how its credentials are had."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import pytest

from mcphub.config.entries.context import Context
from mcphub.config.secret_values import secret_values
from mcphub.questions.schemas import SCHEMAS
from mcphub.spec import AssertionSpec, HttpSpec, OAuthSpec, Scope, Secret, WsSpec
from tests.config.entries.written import ENV, parsed, problem, spec

SCHEMA = jsonschema_rs.validator_for(SCHEMAS["mcp.schema.json"]())
SECRETS = Context({**ENV, "ISSUER": "https://as.example"}, secrets={"kept": "s-e-c-r-e-t"}.get)
REMOTE = {"type": "http", "url": "https://h.example/mcp"}


def entry(oauth: Any, **more: Any) -> dict[str, Any]:
    return {**REMOTE, "oauth": oauth, **more}


def oauth(raw: Any, scope: Scope = Scope.USER) -> OAuthSpec:
    transport = spec(entry(raw), scope, SECRETS).transport
    assert isinstance(transport, HttpSpec)
    return transport.oauth


CLIENT = {"clientId": "c", "clientSecret": "s", "issuer": "https://i/"}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({}, OAuthSpec()),
        (False, OAuthSpec(mode="none")),
        ({"clientId": "c"}, OAuthSpec(client_id="c")),
        ({"clientId": "c", "callbackPort": 9}, OAuthSpec(client_id="c", callback_port=9, callback_host="localhost")),
        ({"callbackPort": 3118}, OAuthSpec(callback_port=3118)),
        (
            {"clientId": "c", "callbackPort": 1, "callbackHost": "127.0.0.1"},
            OAuthSpec(client_id="c", callback_port=1),
        ),
        ({"callbackHost": "localhost"}, OAuthSpec(callback_host="localhost")),
        ({"scopes": "a  b a"}, OAuthSpec(scopes=("a", "b"))),
        ({"scopes": ["a", "b:c"]}, OAuthSpec(scopes=("a", "b:c"))),
        ({"scopes": []}, OAuthSpec()),
        ({"issuer": "${ISSUER}"}, OAuthSpec(issuer="https://as.example")),
        ({"issuer": "http://localhost:9/"}, OAuthSpec(issuer="http://localhost:9/")),
        (
            {"clientId": "c", "clientSecret": "${secret:kept}"},
            OAuthSpec(client_id="c", client_secret=Secret("s-e-c-r-e-t")),
        ),
        ({"authServerMetadataUrl": "https://i/m"}, OAuthSpec(metadata_url="https://i/m")),
        ({"clientMetadataUrl": "https://i/m"}, OAuthSpec(client_metadata_url="https://i/m")),
        ({"allowMissingPkceMetadata": True, "dpop": True}, OAuthSpec(allow_missing_pkce=True, dpop=True)),
        ({"hosts": ["Login.Corp.example", "10.0.0.1:8443"]}, OAuthSpec(hosts=("login.corp.example", "10.0.0.1:8443"))),
        ({"grant": "authorization_code"}, OAuthSpec()),
        ({"xaa": True, "clientId": "c"}, OAuthSpec(mode="xaa", client_id="c")),
        (
            {"grant": "client_credentials", **CLIENT},
            OAuthSpec(mode="client_credentials", client_id="c", client_secret=Secret("s"), issuer="https://i/"),
        ),
        (
            {"grant": "client_credentials", "clientId": "c", "privateKey": "k", "issuer": "https://i/",
             "signingAlgorithm": "ES256"},
            OAuthSpec(
                mode="client_credentials", client_id="c", issuer="https://i/", private_key=Secret("k"),
                signing_algorithm="ES256",
            ),
        ),
        (
            {"grant": "jwt-bearer", "assertion": {"env": "WORKLOAD"}},
            OAuthSpec(mode="wif", assertion=AssertionSpec(env="WORKLOAD", shown="WORKLOAD")),
        ),
        (
            {"grant": "jwt-bearer", "assertion": {"file": "${HOME}/t"}},
            OAuthSpec(mode="wif", assertion=AssertionSpec(file="/home/u/t", shown="${HOME}/t")),
        ),
        (
            {"grant": "jwt-bearer", "assertion": {"command": "get 'a b' ${TOKEN}"}},
            OAuthSpec(
                mode="wif",
                assertion=AssertionSpec(
                    words=(Secret("get"), Secret("a b"), Secret("tok-5")), shown="get 'a b' ${TOKEN}"
                ),
            ),
        ),
    ],
)  # fmt: skip
def test_what_is_said(raw: Any, expected: OAuthSpec) -> None:
    """C102, C104, C105: each key of `oauth`, with its default; its schema takes it too."""
    assert oauth(raw) == expected
    assert parsed(entry(raw), context=SECRETS).warnings == ()
    SCHEMA.validate({"mcpServers": {"s": entry(raw)}})


@pytest.mark.parametrize(
    ("raw", "place", "cause"),
    [
        (True, "", "expected an object, or false"),
        ("x", "", "expected an object, or false"),
        ({"clientId": 1}, ".clientId", "put it in quotes"),
        ({"clientId": "a\0b"}, ".clientId", "NUL"),
        ({"clientSecret": "s"}, ".clientId", "missing; clientSecret is the secret of an id"),
        ({"privateKey": "s"}, ".clientId", "missing"),
        ({"clientId": "c", "clientSecret": "s", "privateKey": "k"}, ".privateKey", "remove the one"),
        ({"clientId": "c", "signingAlgorithm": "ES256"}, ".privateKey", "missing"),
        ({"clientId": "c", "privateKey": "k", "signingAlgorithm": "none"}, ".signingAlgorithm", "expected one of"),
        ({"clientId": "c", "privateKey": "k", "signingAlgorithm": "HS256"}, ".signingAlgorithm", "expected one of"),
        ({"callbackPort": 0}, ".callbackPort", "1 to 65535"),
        ({"callbackPort": 65536}, ".callbackPort", "1 to 65535"),
        ({"callbackPort": True}, ".callbackPort", "1 to 65535"),
        ({"callbackPort": "80"}, ".callbackPort", "1 to 65535"),
        ({"callbackHost": "0.0.0.0"}, ".callbackHost", "127.0.0.1 or localhost"),
        ({"scopes": 1}, ".scopes", "a string, or a list"),
        ({"scopes": ["a", 1]}, ".scopes[1]", "put it in quotes"),
        ({"scopes": 'a"b'}, ".scopes", "printable ASCII"),
        ({"issuer": "http://h/"}, ".issuer", "expected an https:// address"),
        ({"issuer": "javascript:alert(1)"}, ".issuer", "expected an address that begins with"),
        ({"issuer": "https://u@h/"}, ".issuer", "no user"),
        ({"authServerMetadataUrl": "https://h/#a"}, ".authServerMetadataUrl", "no fragment"),
        ({"clientMetadataUrl": "https://h/"}, ".clientMetadataUrl", "has no path"),
        ({"clientMetadataUrl": "http://localhost/x"}, ".clientMetadataUrl", "https://"),
        ({"xaa": "true"}, ".xaa", "expected true or false"),
        ({"xaa": True}, ".clientId", "missing"),
        ({"xaa": True, "clientId": "c", "clientSecret": "s"}, ".issuer", "missing"),
        ({"xaa": True, "clientId": "c", "grant": "client_credentials"}, ".grant", "remove one of xaa and grant"),
        ({"grant": "password"}, ".grant", "expected one of"),
        ({"grant": "client_credentials"}, ".clientId", "missing"),
        ({"grant": "client_credentials", "clientId": "c"}, ".clientSecret", "or privateKey"),
        ({"grant": "client_credentials", "clientId": "c", "clientSecret": "s"}, ".issuer", "who may see"),
        ({"grant": "jwt-bearer"}, ".assertion", "say where it is"),
        ({"assertion": {"env": "A"}}, ".assertion", '"grant": "jwt-bearer" alone'),
        ({"grant": "jwt-bearer", "assertion": {}}, ".assertion", "one of file, env, command"),
        ({"grant": "jwt-bearer", "assertion": {"env": "A", "file": "/b"}}, ".assertion", "one of file, env, command"),
        ({"grant": "jwt-bearer", "assertion": {"env": "$A"}}, ".assertion.env", "without $"),
        ({"grant": "jwt-bearer", "assertion": {"file": " "}}, ".assertion.file", "is empty"),
        ({"hosts": ["a b"]}, ".hosts[0]", "host:port"),
        ({"hosts": ["https://h/"]}, ".hosts[0]", "host:port"),
        ({"hosts": 1}, ".hosts", "a string, or a list"),
        ({"dpop": 1}, ".dpop", "expected true or false"),
    ],
)  # fmt: skip
def test_what_is_wrong(raw: Any, place: str, cause: str) -> None:
    """A wrong value, and what contradicts itself, names file, key and what to do; the schema refuses it as well."""
    message = problem(entry(raw), context=SECRETS)
    assert f"mcpServers.s.oauth{place}: " in message
    assert cause in message
    assert not SCHEMA.is_valid({"mcpServers": {"s": entry(raw)}})


def test_what_cannot_be_had() -> None:
    """C020: a variable or a secret that is not there is named with its place, and how to set it."""
    assert "oauth.issuer: missing variable UNSET" in problem(entry({"issuer": "${UNSET}"}), context=SECRETS)
    message = problem(entry({"clientId": "c", "clientSecret": "${secret:x}"}), context=SECRETS)
    assert "oauth.clientSecret: ${secret:x}: no secret has this name" in message
    switched_off = parsed({**entry({"issuer": "${UNSET}"}), "enabled": False})
    assert switched_off.warnings == ()


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"headers": {"authorization": "Bearer x"}}, "the Authorization header of this entry is sent"),
        ({"headersHelper": "x"}, "the program at headersHelper gives the credentials"),
        ({"type": "ws", "url": "wss://h/"}, "not used by a server at a WebSocket"),
        ({"type": "stdio", "command": "x", "url": ""}, "not used by a server that is a program"),
    ],
)
def test_what_has_no_effect(more: Mapping[str, Any], text: str) -> None:
    """C093: what an entry brings itself wins over a sign-in, and that is said; programs and WebSockets have none."""
    [warning] = parsed({**entry({"clientId": "c"}), **more}).warnings
    assert "mcpServers.s.oauth: " in warning
    assert text in warning


def test_a_websocket_has_none() -> None:
    """What it says there changes nothing."""
    transport = spec({"type": "ws", "url": "wss://h/", "oauth": {"clientId": "c"}}).transport
    assert isinstance(transport, WsSpec)
    assert transport.oauth == OAuthSpec()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({"clientId": "c", "clientSecret": "${secret:kept}"}, "may not send your secrets away"),
        ({"grant": "jwt-bearer", "assertion": {"env": "A"}}, "may not use this machine's own tokens"),
    ],
)
def test_what_a_project_may_not(raw: Mapping[str, Any], text: str) -> None:
    """What a repository wrote gets no secret and no token of this machine's, as with headers."""
    assert text in problem(entry(raw), Scope.PROJECT, SECRETS)


def test_a_credential_is_empty_for_a_project() -> None:
    """As with headers: it is told, and empty."""
    raw = entry({"clientId": "c", "clientSecret": "${TOKEN}"})
    outcome = parsed(raw, Scope.PROJECT, SECRETS)
    assert "TOKEN is a credential by its name" in outcome.warnings[0]
    transport = spec(raw, Scope.PROJECT, SECRETS).transport
    assert isinstance(transport, HttpSpec)
    assert transport.oauth.client_secret == ""


def test_secrets_are_seen_nowhere() -> None:
    """C025: neither in a repr nor among what is told for approval; and the log masks them."""
    raw = entry({"clientId": "c", "clientSecret": "${SHOWN}", "issuer": "${ISSUER}"})
    found = spec(raw, Scope.PROJECT, Context({**ENV, "SHOWN": "hunter-2", "ISSUER": "https://as.example"}))
    assert "hunter-2" not in repr(found)
    assert found.told == (("oauth.issuer", "https://as.example"),)
    assert "hunter-2" in secret_values(found.transport)
    assert "hunter-2" not in json.dumps(found.told)

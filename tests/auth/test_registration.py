"""Who this client is to an authorization server."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from mcphub.auth.discovery import AuthorizationServer
from mcphub.auth.flow import Answered, Unanswered
from mcphub.auth.records import Registration
from mcphub.auth.registration import Clients, document, identity, usable_document
from mcphub.spec import OAuthSpec, Secret
from tests.auth.transcript import NOW, SERVER, Played, answered, play

DOCUMENT = "https://client.example/mcphub.json"
REDIRECT = "http://127.0.0.1:4100/callback"
CAN_REGISTER = msgspec.structs.replace(SERVER, registration_endpoint="https://as.example/register")
TAKES_DOCUMENTS = msgspec.structs.replace(CAN_REGISTER, metadata_documents=True)
STORED = Registration("stored", "dcr", SERVER.issuer, redirect_uris=(REDIRECT,))


def ask(
    server: AuthorizationServer,
    *replies: Answered | Unanswered,
    oauth: OAuthSpec | None = None,
    document_url: str = "",
    stored: Registration | None = None,
    scopes: tuple[str, ...] = (),
    redirect: str = REDIRECT,
) -> Played[Registration]:
    clients = Clients(oauth or OAuthSpec(), document_url, stored)
    return play(identity(server, clients, (redirect,), scopes, NOW), *replies)


def sent(found: Played[Registration], number: int = 0) -> dict[str, Any]:
    return dict(json.loads(found.asks[number].body))


def test_the_order() -> None:
    """C102: the entry's id, a metadata document where both sides can, what is stored, a registration."""
    oauth = OAuthSpec(client_id="mine", client_secret=Secret("s"))
    found = ask(TAKES_DOCUMENTS, oauth=oauth, document_url=DOCUMENT, stored=STORED)
    assert (found.result.client_id, found.result.source, found.result.secret) == ("mine", "config", "s")
    found = ask(TAKES_DOCUMENTS, document_url=DOCUMENT, stored=STORED)
    assert found.result == Registration(DOCUMENT, "cimd", SERVER.issuer, method="none")
    assert ask(TAKES_DOCUMENTS, stored=STORED).result is STORED
    assert ask(CAN_REGISTER, document_url=DOCUMENT, stored=STORED).result is STORED
    found = ask(CAN_REGISTER, answered({"client_id": "new"}, 201), document_url=DOCUMENT)
    assert found.urls == ["https://as.example/register"] and found.result.client_id == "new"


def test_no_way_to_have_an_id() -> None:
    """C102: the reason says what to set, and does not blame the server."""
    found = ask(SERVER)
    assert found.reason == "client_required" and found.asks == []
    assert "set `oauth.clientId` of this entry to it" in str(found.failure)


def test_what_is_stored_and_not_used() -> None:
    """B86, S15: an id is one issuer's; and a secret that has ended is none."""
    elsewhere = msgspec.structs.replace(STORED, issuer="https://as.example/")
    ended = msgspec.structs.replace(STORED, secret=Secret("s"), secret_expires_at=NOW)
    for stored in (elsewhere, ended):
        assert ask(CAN_REGISTER, answered({"client_id": "new"}, 201), stored=stored).result.client_id == "new"


def test_what_is_asked() -> None:
    """RFC 7591: a native client without a secret, with its redirect URIs, and refresh tokens."""
    found = ask(CAN_REGISTER, answered({"client_id": "new"}, 201), scopes=("a", "b"))
    body = sent(found)
    assert body.pop("software_version")
    assert body == {
        "client_name": "mcphub",
        "redirect_uris": [REDIRECT],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
        "software_id": "mcphub",
        "scope": "a b",
    }
    assert "scope" not in sent(ask(CAN_REGISTER, answered({"client_id": "new"}, 201)))


@pytest.mark.parametrize(
    ("supported", "method"),
    [
        (None, "none"),
        (("none", "client_secret_basic"), "none"),
        (("client_secret_post", "client_secret_basic"), "client_secret_basic"),
        (("client_secret_post",), "client_secret_post"),
        (("tls_client_auth",), "none"),
        ((), "none"),
    ],
)
def test_the_method_that_is_asked_for(supported: tuple[str, ...] | None, method: str) -> None:
    """None, unless the server takes only clients with a secret."""
    server = msgspec.structs.replace(CAN_REGISTER, methods=supported)
    assert sent(ask(server, answered({"client_id": "new"})))["token_endpoint_auth_method"] == method


def test_what_the_answer_says() -> None:
    """It wins over what was asked for: secret, method, redirect URIs; 200 is as good as 201."""
    answer = {
        "client_id": "new",
        "client_secret": "s",
        "client_secret_expires_at": NOW + 5,
        "token_endpoint_auth_method": "client_secret_post",
        "redirect_uris": ["http://localhost/callback"],
    }
    uris = ("http://localhost/callback",)
    expected = Registration("new", "dcr", SERVER.issuer, Secret("s"), "client_secret_post", NOW + 5, uris)
    assert ask(CAN_REGISTER, answered(answer)).result == expected
    plain = ask(CAN_REGISTER, answered({"client_id": "new", "redirect_uris": None, "client_secret_expires_at": 7}))
    assert plain.result == Registration("new", "dcr", SERVER.issuer, redirect_uris=(REDIRECT,))


@pytest.mark.parametrize("value", [0, None, -1, "soon", True, [5]])
def test_a_secret_without_an_end(value: object) -> None:
    """0 is never, and so is junk."""
    answer = {"client_id": "new", "client_secret": "s", "client_secret_expires_at": value}
    assert ask(CAN_REGISTER, answered(answer)).result.secret_expires_at == 0


@pytest.mark.parametrize(
    ("redirect", "other"),
    [(REDIRECT, "http://localhost:4100/callback"), ("http://localhost:7/callback", "http://127.0.0.1:7/callback")],
)
def test_the_other_spelling(redirect: str, other: str) -> None:
    """A server that does not like one name of the loopback is asked once more with the other one."""
    bad = answered({"error": "invalid_redirect_uri"}, 400)
    found = ask(CAN_REGISTER, bad, answered({"client_id": "new"}), redirect=redirect)
    assert [sent(found, number)["redirect_uris"] for number in (0, 1)] == [[redirect], [other]]
    assert found.result.redirect_uris == (other,)
    assert ask(CAN_REGISTER, bad, bad, redirect=redirect).reason == "registration_failed"
    assert ask(CAN_REGISTER, bad, redirect="https://client.example/callback").reason == "registration_failed"


@pytest.mark.parametrize(
    ("reply", "part", "later"),
    [
        (answered({"error": "invalid_client_metadata", "error_description": "no\x1b app"}, 400), "no app", False),
        (answered({"error": "access_denied"}, 200), "access_denied", False),
        (Answered(403, b"<html>"), "HTTP 403", False),
        (Answered(503), "HTTP 503", True),
        (Unanswered("unreachable", "nothing listens"), "nothing listens", True),
        (Unanswered("unsafe", "it leads to 10.0.0.1"), "10.0.0.1", False),
        (Unanswered("redirect", "HTTP 302"), "HTTP 302", False),
        (Answered(201, b"<html>"), "no JSON", False),
        (answered({"client_id": ""}, 201), "without a client_id", False),
        (answered({"client_id": 5}, 201), "without a client_id", False),
        (Answered(204), "without a client_id", False),
    ],
)
def test_no_registration(reply: Answered | Unanswered, part: str, later: bool) -> None:
    """The server's own words are told; only trouble may pass."""
    found = ask(CAN_REGISTER, reply)
    assert found.reason == "registration_failed" and part in str(found.failure)
    assert found.failure is not None and found.failure.retry is later


@pytest.mark.parametrize(
    ("url", "usable"),
    [
        (DOCUMENT, True),
        ("https://client.example/a/b", True),
        ("https://client.example", False),
        ("https://client.example/", False),
        ("http://client.example/x", False),
        ("http://127.0.0.1/x", False),
        ("https://u@client.example/x", False),
        ("https://client.example/x#y", False),
        ("https://client.example/a/../x", False),
        ("https://client.example/./x", False),
        ("https://[client/x", False),
        ("", False),
    ],
)
def test_urls_that_are_ids(url: str, usable: bool) -> None:
    """https with a path; where the URL is none, the next way is taken."""
    assert usable_document(url) is usable
    if not usable:
        assert ask(TAKES_DOCUMENTS, document_url=url, stored=STORED).result is STORED


def test_the_document() -> None:
    """It names itself, holds no secret, and lets the client have refresh tokens."""
    found = document(DOCUMENT, ("http://127.0.0.1/callback", "http://localhost/callback"))
    assert found["client_id"] == DOCUMENT and found["token_endpoint_auth_method"] == "none"
    assert found["redirect_uris"] == ["http://127.0.0.1/callback", "http://localhost/callback"]
    assert found["grant_types"] == ["authorization_code", "refresh_token"]
    assert found["application_type"] == "native" and "client_secret" not in found


@pytest.mark.parametrize(
    ("oauth", "methods", "method"),
    [
        (OAuthSpec(client_id="c"), None, "none"),
        (OAuthSpec(client_id="c", client_secret=Secret("s")), None, "client_secret_basic"),
        (OAuthSpec(client_id="c", client_secret=Secret("s")), ("client_secret_post",), "client_secret_post"),
        (OAuthSpec(client_id="c", private_key=Secret("k")), ("private_key_jwt",), "private_key_jwt"),
    ],
)
def test_the_method_of_an_id_of_the_entry(oauth: OAuthSpec, methods: tuple[str, ...] | None, method: str) -> None:
    """What both have of what the entry brings."""
    found = ask(msgspec.structs.replace(CAN_REGISTER, methods=methods), oauth=oauth)
    assert (found.result.method, found.asks) == (method, [])

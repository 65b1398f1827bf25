"""Owns who this client is to an authorization server: the entry's own id, a metadata document, or a registration there
(RFC 7591; draft-ietf-oauth-client-id-metadata-document).

It must not keep registrations, nor ask a person. An id is bound to the issuer that gave it; only a document's URL is
good everywhere.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from mcphub import __version__
from mcphub.auth import client_authentication, documents, urls
from mcphub.auth.discovery import AuthorizationServer
from mcphub.auth.failures import FlowFailure, SignInFailed, said
from mcphub.auth.flow import Flow, post_json
from mcphub.auth.records import Registration
from mcphub.auth.token_answer import Lost, Refused, read
from mcphub.spec import OAuthSpec, Secret

#: What this client is called where people agree to it.
CLIENT_NAME = "mcphub"
SOFTWARE_ID = "mcphub"
GRANTS = ("authorization_code", "refresh_token")


class Clients(msgspec.Struct, frozen=True):
    """What can be an identity: the entry's, and a document of our own; `stored` is a registration that is kept for this
    issuer and these redirect URIs, None = there is none."""

    oauth: OAuthSpec
    document_url: str = ""
    stored: Registration | None = None


def identity(
    server: AuthorizationServer, clients: Clients, redirect_uris: tuple[str, ...], scopes: tuple[str, ...], now: float
) -> Flow[Registration]:
    """Who this client is there; asks for a registration where nothing else is to be had. Raises SignInFailed:
    `client_required`, `registration_failed`, `unsafe_url`."""
    oauth = clients.oauth
    if oauth.client_id:
        secret = oauth.client_secret
        return Registration(oauth.client_id, "config", server.issuer, secret, _configured(oauth, server), 0.0, ())
    if server.metadata_documents and clients.document_url and usable_document(clients.document_url):
        return Registration(clients.document_url, "cimd", server.issuer, method=client_authentication.NONE)
    if clients.stored is not None and clients.stored.issuer == server.issuer and clients.stored.usable(now):
        return clients.stored
    if not server.registration_endpoint:
        text = f"{said(server.issuer)} lets no client register itself: ask its owner for a client id and set"
        raise SignInFailed(FlowFailure.CLIENT_REQUIRED, f"{text} `oauth.clientId` of this entry to it")
    return (yield from _register(server, redirect_uris, scopes))


def _configured(oauth: OAuthSpec, server: AuthorizationServer) -> str:
    """The method of an id that the entry names: what both have of what it brings."""
    client = Registration(oauth.client_id, "config", server.issuer, oauth.client_secret)
    return client_authentication.method_of(client, server.methods, key=bool(oauth.private_key))


def usable_document(url: str) -> bool:
    """Whether a client id can be this URL: https with a path, and nothing that would make it another one."""
    if urls.fault(url):
        return False
    parts = urlsplit(url)
    dots = any(segment in (".", "..") for segment in parts.path.split("/"))
    return parts.path not in ("", "/") and not dots


def document(url: str, redirect_uris: tuple[str, ...]) -> dict[str, object]:
    """The metadata document that stands at this URL, to be published."""
    return {
        "client_id": url,
        "client_name": CLIENT_NAME,
        "redirect_uris": list(redirect_uris),
        "grant_types": list(GRANTS),
        "response_types": ["code"],
        "token_endpoint_auth_method": client_authentication.NONE,
        "application_type": "native",
        "software_id": SOFTWARE_ID,
    }


def _register(
    server: AuthorizationServer, redirect_uris: tuple[str, ...], scopes: tuple[str, ...]
) -> Flow[Registration]:
    wanted = redirect_uris
    for _ in range(2):
        body: dict[str, object] = {
            "client_name": CLIENT_NAME,
            "redirect_uris": list(wanted),
            "grant_types": list(GRANTS),
            "response_types": ["code"],
            "token_endpoint_auth_method": _asked_method(server.methods),
            "application_type": "native",
            "software_id": SOFTWARE_ID,
            "software_version": __version__,
        }
        if scopes:
            body["scope"] = " ".join(scopes)
        found = read((yield post_json("registration", server.registration_endpoint, body)))
        other = tuple(_other_spelling(uri) for uri in wanted)
        if isinstance(found, Refused) and found.error == "invalid_redirect_uri" and wanted == redirect_uris != other:
            wanted = other
            continue
        break
    if not isinstance(found, tuple):
        refused = found if isinstance(found, Refused) else None
        raise SignInFailed(
            FlowFailure.REGISTRATION_FAILED,
            f"{said(server.issuer)} did not register this client: {found.detail}",
            status=refused.status if refused is not None else 0,
            error=refused.error if refused is not None else "",
            retry=refused.transient if refused is not None else isinstance(found, Lost) and found.transient,
        )
    answer, _status = found
    client_id = documents.text(answer, "client_id")
    if not client_id:
        text = f"{said(server.issuer)} answered a registration without a client_id"
        raise SignInFailed(FlowFailure.REGISTRATION_FAILED, text)
    secret = documents.text(answer, "client_secret")
    return Registration(
        client_id,
        "dcr",
        server.issuer,
        Secret(secret),
        documents.text(answer, "token_endpoint_auth_method"),
        _time(answer.get("client_secret_expires_at")) if secret else 0.0,
        documents.texts(answer, "redirect_uris") or wanted,
        scopes,
    )


def _asked_method(supported: tuple[str, ...] | None) -> str:
    """A native client cannot keep a secret: none, where the server takes that; else what it takes."""
    if supported is None or client_authentication.NONE in supported:
        return client_authentication.NONE
    known = (client_authentication.BASIC, client_authentication.POST)
    return next((one for one in known if one in supported), client_authentication.NONE)


def _other_spelling(uri: str) -> str:
    """The same place on the loopback by its other name."""
    one, other = "http://127.0.0.1:", "http://localhost:"
    if uri.startswith(one):
        return other + uri.removeprefix(one)
    return one + uri.removeprefix(other) if uri.startswith(other) else uri


def _time(value: object) -> float:
    """Seconds of the wall clock, 0 = never."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    return 0.0

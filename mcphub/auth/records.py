"""Owns what is kept of a sign-in: tokens, registrations, the organisation's login, and under which key each is kept.

It must not know where it is kept, nor print a secret. Issuers, resources and endpoints stay the strings they were.
"""

from __future__ import annotations

import hashlib
import json
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from mcphub.auth import urls
from mcphub.spec import HttpSpec, OAuthSpec, Secret, ServerSpec, WsSpec

#: How early an access token is renewed: so many seconds before its end, or so much of its lifetime where that is less.
SKEW = 60.0
SKEW_PART = 0.1


class TokenSet(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens of one server. Times are wall clock seconds; `expires_at` 0 = not known, it is used until it is refused.
    `requested` and `granted` are scopes; `dpop_key` is a private JWK as JSON, "" = bearer tokens."""

    access_token: Secret
    issuer: str
    client_id: str
    token_endpoint: str
    resource: str = ""
    token_type: str = "Bearer"
    obtained_at: float = 0.0
    expires_at: float = 0.0
    refresh_token: Secret = Secret("")
    requested: tuple[str, ...] = ()
    granted: tuple[str, ...] = ()
    revocation_endpoint: str = ""
    dpop_key: Secret = Secret("")
    #: Who the client was that got them: where its id came from, and how it proved itself.
    client_source: str = "config"
    client_method: str = ""
    #: Of which sign-in of a person they are, through all their renewals; "" = of none.
    sign_in: str = ""

    @property
    def principal(self) -> str:
        """Stands for whose tokens they are, and what for: another sign-in, issuer or scope is another one."""
        scopes = (" ".join(sorted(self.requested)), " ".join(sorted(self.granted)))
        return _hashed("principal", self.sign_in, self.issuer, self.client_id, self.resource, *scopes)

    def due(self, now: float) -> bool:
        """Whether it should be renewed before it is used."""
        if not self.expires_at:
            return False
        lifetime = max(0.0, self.expires_at - self.obtained_at)
        return self.over(now) or self.expires_at - now < min(SKEW, SKEW_PART * lifetime)

    def over(self, now: float) -> bool:
        """Whether its lifetime has ended."""
        return bool(self.expires_at) and now >= self.expires_at


class Registration(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who this client is to one authorization server. `source`: `config`, `cimd` (a metadata document) or `dcr` (it was
    registered there). `method` is how it proves that at the token endpoint, "" = not said. `secret_expires_at` 0 =
    never. `redirect_uris` are those it was registered with, `scopes` those it said it would ask for: some servers let
    it ask for no other."""

    client_id: str
    source: str
    issuer: str
    secret: Secret = Secret("")
    method: str = ""
    secret_expires_at: float = 0.0
    redirect_uris: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()

    def usable(self, now: float) -> bool:
        return not self.secret_expires_at or now < self.secret_expires_at


class IdpSession(msgspec.Struct, frozen=True, omit_defaults=True):
    """A person's login at an organisation's identity provider. It goes to that provider alone."""

    issuer: str
    client_id: str
    id_token: Secret
    subject: str
    expires_at: float
    token_endpoint: str
    refresh_token: Secret = Secret("")

    def usable(self, now: float) -> bool:
        return now < self.expires_at - SKEW / 2


class Account(msgspec.Struct, frozen=True):
    """Whose credentials: one server as its entry has it. The same name and another configuration is another account."""

    name: str
    url: Secret
    oauth: OAuthSpec
    cfg: str

    @property
    def key(self) -> str:
        """Where its tokens are kept: the name is hashed, so that no name is special (case C115)."""
        return _hashed("tokens", self.name, self.cfg)

    @property
    def plain(self) -> bool:
        """Whether http may be used for signing in: the server itself is on this machine."""
        return urls.local(str(self.url))


def account_of(spec: ServerSpec) -> Account | None:
    """The account of a server that can be signed in to; None for programs, WebSockets, and entries that bring their
    credentials themselves or want none."""
    transport = spec.transport
    if not isinstance(transport, HttpSpec) or isinstance(transport, WsSpec) or transport.oauth.mode == "none":
        return None
    if transport.helper is not None or any(name.lower() == "authorization" for name in transport.headers):
        return None
    if "@" in urlsplit(str(transport.url)).netloc:
        return None
    return Account(spec.name, transport.url, transport.oauth, configuration(transport, transport.oauth))


def configuration(transport: HttpSpec, oauth: OAuthSpec) -> str:
    """16 hexadecimal digits of everything that makes other credentials of the same name."""
    headers = {name: value for name, value in transport.headers.items() if name.lower() != "authorization"}
    said = {
        "type": transport.kind,
        "url": str(transport.url),
        "headers": {name: str(value) for name, value in sorted(headers.items())},
        "clientId": oauth.client_id,
        "issuer": oauth.issuer,
        "scopes": list(oauth.scopes),
        "mode": oauth.mode,
    }
    canonical = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def registration_key(issuer: str, host: str, port: int) -> str:
    """Where a registration is kept: by the issuer and where its callback is wanted (port 0 = anywhere), never by a
    server's name. The port that it was registered with stands in the registration itself."""
    return _hashed("registration", issuer, host, str(port))


def registered_key(issuer: str, client_id: str) -> str:
    """Where the same registration is kept for the tokens that it was given, when another one has taken its place."""
    return _hashed("registered", issuer, client_id)


def idp_key(issuer: str, client_id: str) -> str:
    return _hashed("idp", issuer, client_id)


def _hashed(*parts: str) -> str:
    whole = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:32]


Record = TypeVar("Record", TokenSet, Registration, IdpSession)


def encoded(record: TokenSet | Registration | IdpSession) -> bytes:
    return msgspec.json.encode(record, enc_hook=str)


def decoded(data: bytes, kind: type[Record]) -> Record | None:
    """The record, None where it is none that this version can read."""
    try:
        return msgspec.json.decode(data, type=kind, dec_hook=lambda _type, value: Secret(value))
    except msgspec.DecodeError:
        return None

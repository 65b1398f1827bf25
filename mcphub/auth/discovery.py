"""Owns how it is found out who signs people in to a server: both kinds of metadata, their places, and what of them is
believed (RFC 9728, RFC 8414, OpenID Connect Discovery; MCP 2026-07-28, authorization).

It must not send anything, nor know tokens. The orders are exact: some servers set traps beside the way.
"""

from __future__ import annotations

from typing import NoReturn
from urllib.parse import urlsplit

import msgspec

from mcphub.auth import documents, urls
from mcphub.auth.documents import Document
from mcphub.auth.failures import FlowFailure, SignInFailed, said
from mcphub.auth.flow import Answered, Flow, Unanswered, get
from mcphub.auth.records import Account

RESOURCE = "/.well-known/oauth-protected-resource"
OAUTH = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"

#: The revision whose servers may have a sign-in without any document.
OLDEST = "2025-03-26"
#: Authorization servers of a document that are looked at.
MOST_SERVERS = 8
#: Seconds for which a document is good that does not say it; and the fewest and the most that one can say.
LIFE, SHORTEST, LONGEST = 3600.0, 60.0, 86400.0


class Resource(msgspec.Struct, frozen=True):
    """What a server says of itself, or what stands for it where it says nothing (`stated` False). `servers` are the
    issuers that it names, as it writes them."""

    resource: str
    servers: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    dpop: bool = False
    stated: bool = True
    name: str = ""
    life: float = LIFE


class AuthorizationServer(msgspec.Struct, frozen=True):
    """What an authorization server says of itself. `issuer` is as its own document has it: the string that later
    answers are compared with. `guessed`: it has no document, its endpoints are those of 2025-03-26."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    jwks_uri: str = ""
    scopes: tuple[str, ...] = ()
    methods: tuple[str, ...] | None = None
    signing_algorithms: tuple[str, ...] = ()
    id_token_algorithms: tuple[str, ...] = ()
    metadata_documents: bool = False
    says_iss: bool = False
    guessed: bool = False
    life: float = LIFE


class Rules(msgspec.Struct, frozen=True):
    """What is asked of metadata. `plain`: http is allowed on this machine. `browser`: a person will be sent there, so
    that PKCE must be announced; `missing_pkce`: but for a document that says nothing of it."""

    plain: bool = False
    browser: bool = True
    missing_pkce: bool = False


def resource_places(url: str) -> tuple[str, ...]:
    """Where a server's own document may stand, where no challenge says it."""
    base, parts = urls.origin_text(url), urlsplit(url)
    path = parts.path.rstrip("/")
    if not path:
        return (base + RESOURCE,)
    query = f"?{parts.query}" if parts.query else ""
    return (f"{base}{RESOURCE}{path}{query}", base + RESOURCE)


def server_places(issuer: str) -> tuple[str, ...]:
    """Where an authorization server's document may stand; for an issuer with a path never at the root."""
    base, path = urls.origin_text(issuer), urlsplit(issuer).path.rstrip("/")
    if not path:
        return (base + OAUTH, base + OPENID)
    return (f"{base}{OAUTH}{path}", f"{base}{OPENID}{path}", f"{base}{path}{OPENID}")


def find_resource(url: str, named: str, *, plain: bool, version: str = "") -> Flow[Resource | None]:
    """What the server at `url` says of itself, None = nothing, at no place. `named` is where its challenge says that
    this stands, "" = it does not say; `version` the protocol's. Raises SignInFailed: `discovery_failed` where it cannot
    be known now, `resource_mismatch`, `unsafe_url`."""
    places = [place for place in resource_places(url) if place != named]
    if named:
        places.insert(0, urls.checked(named, "resource_metadata of the challenge", plain=plain))
    for place in places:
        own = urls.origin(place) == urls.origin(url)
        headers = (("MCP-Protocol-Version", version),) if version and own else ()
        answer = yield get("resource metadata", place, *headers)
        document = _document(answer, place)
        if document is not None:
            return msgspec.structs.replace(_resource(document, url, place), life=_life(answer))
    return None


def _resource(document: Document, url: str, place: str) -> Resource:
    resource = documents.text(document, "resource")
    if not resource:
        _fail(f"{_shown(place)} has no `resource`")
    if not urls.covers(resource, url):
        text = f"{_shown(place)} is about {said(ascii(resource)[1:-1])!r}, which is not {urls.canonical(url)!r}"
        raise SignInFailed(FlowFailure.RESOURCE_MISMATCH, text)
    servers = documents.texts(document, "authorization_servers")
    if not servers:
        _fail(f"{_shown(place)} names no authorization server")
    methods = documents.texts(document, "bearer_methods_supported")
    if methods is not None and "header" not in methods:
        where = said(", ".join(methods)) or "no place"
        _fail(f"{_shown(place)} wants tokens in {where}, which mcphub does not send")
    return Resource(
        resource,
        servers[:MOST_SERVERS],
        _scopes(document),
        document.get("dpop_bound_access_tokens_required") is True,
        name=said(documents.text(document, "resource_name")),
    )


def find_server(issuer: str, rules: Rules) -> Flow[AuthorizationServer]:
    """What the authorization server of this issuer says of itself. Raises SignInFailed: `discovery_failed`,
    `issuer_mismatch`, `pkce_unsupported`, `unsafe_url`."""
    urls.checked(issuer, "authorization_servers", plain=rules.plain)
    for place in server_places(issuer):
        answer = yield get("server metadata", place)
        document = _document(answer, place)
        if document is not None:
            return msgspec.structs.replace(_server(document, issuer, place, rules), life=_life(answer))
    _fail(f"{said(issuer)} has no OAuth or OpenID metadata at any of the known places")


def read_server_at(place: str, issuer: str, rules: Rules) -> Flow[AuthorizationServer]:
    """The same, where the entry says at which place the document stands (`oauth.authServerMetadataUrl`); `issuer` is
    the one it must have, "" = the one it says."""
    urls.checked(place, "oauth.authServerMetadataUrl", plain=rules.plain)
    document = _document((yield get("server metadata", place)), place)
    if document is None:
        _fail(f"there is no metadata at {_shown(place)} (oauth.authServerMetadataUrl)")
    return _server(document, issuer or documents.text(document, "issuer"), place, rules)


def find_legacy_server(url: str, rules: Rules, *, guess: bool) -> Flow[AuthorizationServer]:
    """For a server that says nothing of itself: its own origin, as revision 2025-03-26 has it. `guess`: the endpoints
    of that revision where there is no document, only for a server that has spoken it (case C096). Raises as
    `find_server` does; `discovery_failed` where nothing is found: there is no sign-in (case C093)."""
    base = urls.origin_text(url)
    for place in (base + OAUTH, base + OPENID):
        document = _document((yield get("server metadata", place)), place)
        if document is not None:
            return _server(document, base, place, msgspec.structs.replace(rules, missing_pkce=True))
    if not guess:
        _fail(f"{said(urls.host_of(url))} has no OAuth metadata, so there is no sign-in; set a header that it accepts?")
    return AuthorizationServer(base, f"{base}/authorize", f"{base}/token", f"{base}/register", guessed=True)


def _server(document: Document, issuer: str, place: str, rules: Rules) -> AuthorizationServer:
    own = documents.text(document, "issuer")
    if not same_issuer(own, issuer):
        text = f"{_shown(place)} says that its issuer is {said(ascii(own)[1:-1])!r}, expected {said(issuer)!r}"
        raise SignInFailed(FlowFailure.ISSUER_MISMATCH, text)
    types = documents.texts(document, "response_types_supported")
    if rules.browser:
        if types is not None and "code" not in types:
            _fail(f"{_shown(place)} offers no authorization code")
        challenges = documents.texts(document, "code_challenge_methods_supported")
        if challenges is None and rules.missing_pkce:
            challenges = ("S256",)
        if "S256" not in (challenges or ()):
            what = f"offers only {said(', '.join(challenges))}" if challenges else "does not say that it supports PKCE"
            text = f"{_shown(place)} {what}, so that a code could be stolen"
            if challenges is None:
                text += "; `oauth.allowMissingPkceMetadata` of the entry takes that risk"
            raise SignInFailed(FlowFailure.PKCE_UNSUPPORTED, text)

    def endpoint(name: str, *, needed: bool = False) -> str:
        value = document.get(name)
        return urls.checked(value, f"{name} of {_shown(place)}", plain=rules.plain) if value or needed else ""

    page = endpoint("authorization_endpoint", needed=rules.browser)
    if page and not rules.plain and urls.local(page):
        # The other endpoints are judged where they are connected to; this one a browser would open.
        text = f"authorization_endpoint of {_shown(place)} leads to this machine, and the server is elsewhere"
        raise SignInFailed(FlowFailure.UNSAFE_URL, text)
    return AuthorizationServer(
        own,
        page,
        endpoint("token_endpoint", needed=True),
        endpoint("registration_endpoint"),
        endpoint("revocation_endpoint"),
        endpoint("jwks_uri"),
        _scopes(document),
        documents.texts(document, "token_endpoint_auth_methods_supported"),
        documents.texts(document, "token_endpoint_auth_signing_alg_values_supported") or (),
        documents.texts(document, "id_token_signing_alg_values_supported") or (),
        document.get("client_id_metadata_document_supported") is True,
        document.get("authorization_response_iss_parameter_supported") is True,
    )


def same_issuer(own: str, named: str) -> bool:
    """Whether a document's issuer is the one that led to it: the same string, but for the one slash of an issuer that
    has no path (case C097)."""
    if own == named:
        return bool(own)
    if own.rstrip("/") != named.rstrip("/") or abs(len(own) - len(named)) != 1:
        return False
    return not urlsplit(own).path.strip("/") and not urlsplit(own).query


def pick(resource: Resource, pinned: str, registered: frozenset[str]) -> str:
    """Which of the issuers it shall be: the one that the entry names, else one with which this client is registered,
    else the first. Raises SignInFailed (`client_unusable`)."""
    if pinned:
        for issuer in resource.servers:
            if same_issuer(issuer, pinned):
                return issuer
        named = ", ".join(said(issuer) for issuer in resource.servers)
        text = f"the server's sign-in is at {named}, its entry's `oauth.issuer` is {said(pinned)}; nothing is sent"
        raise SignInFailed(FlowFailure.CLIENT_UNUSABLE, text)
    for issuer in resource.servers:
        if any(same_issuer(issuer, one) for one in registered):
            return issuer
    return resource.servers[0]


class Discovered(msgspec.Struct, frozen=True):
    """Who signs people in to one server, and for what."""

    resource: Resource
    server: AuthorizationServer

    @property
    def life(self) -> float:
        """Seconds for which both are good."""
        return min(self.resource.life, self.server.life)


def discover(
    account: Account, named: str, *, registered: frozenset[str] = frozenset(), version: str = ""
) -> Flow[Discovered]:
    """Both kinds of metadata for one server. `named` is the place that its challenge gave, `registered` are the issuers
    with which this client is registered, `version` that of the protocol the server last spoke, "" = none yet. Raises
    SignInFailed: all that the functions above do; `discovery_failed` too where the server has no sign-in at all."""
    oauth, url = account.oauth, str(account.url)
    browser = oauth.mode == "oauth"
    rules = Rules(account.plain, browser, oauth.allow_missing_pkce)
    resource = yield from find_resource(url, named, plain=account.plain, version=version)
    if resource is None:
        if oauth.metadata_url or oauth.issuer:
            resource = Resource(urls.canonical(url), stated=False)
        else:
            server = yield from find_legacy_server(url, rules, guess=version == OLDEST)
            return Discovered(Resource(urls.canonical(url), stated=False), server)
    if resource.servers:
        issuer = pick(resource, oauth.issuer, registered)
    else:
        issuer = oauth.issuer
    if oauth.metadata_url:
        return Discovered(resource, (yield from read_server_at(oauth.metadata_url, oauth.issuer, rules)))
    return Discovered(resource, (yield from find_server(issuer, rules)))


def _scopes(document: Document) -> tuple[str, ...]:
    found = documents.texts(document, "scopes_supported") or ()
    return tuple(dict.fromkeys(one for one in found if not set(one) & _NOT_IN_SCOPE))[:200]


def _document(answer: Answered | Unanswered, place: str) -> Document | None:
    """The document, None = there is none at this place. Raises SignInFailed where that cannot be known now."""
    if isinstance(answer, Unanswered):
        if answer.kind == "unsafe":
            raise SignInFailed(FlowFailure.UNSAFE_URL, f"{_shown(place)} {answer.detail}")
        later = answer.kind in ("unreachable", "timeout", "lost", "tls")
        raise SignInFailed(FlowFailure.DISCOVERY_FAILED, f"{_shown(place)}: {answer.detail}", retry=later)
    if answer.transient or 300 <= answer.status < 400:
        text = f"{_shown(place)}: HTTP {answer.status}"
        raise SignInFailed(FlowFailure.DISCOVERY_FAILED, text, status=answer.status, retry=answer.transient)
    if not answer.ok:
        return None
    document = documents.read(answer.body)
    if document is None:
        _fail(f"{_shown(place)} holds no JSON object")
    return document


def _life(answer: Answered | Unanswered) -> float:
    """As Cache-Control has it, within bounds: a server is not asked for every request, nor believed for ever."""
    said = answer.headers.get("cache-control", "") if isinstance(answer, Answered) else ""
    words = [word.strip().lower() for word in said.split(",")]
    if "no-store" in words or "no-cache" in words:
        return SHORTEST
    for word in words:
        name, _, value = word.partition("=")
        value = value.strip('"')
        if name == "max-age" and value.isascii() and value.isdigit():
            return min(max(float(value[:9]), SHORTEST), LONGEST)
    return LIFE


def _shown(place: str) -> str:
    return said(place.partition("?")[0])


def _fail(text: str) -> NoReturn:
    raise SignInFailed(FlowFailure.DISCOVERY_FAILED, text)


_NOT_IN_SCOPE = frozenset(' "\\\t\r\n')

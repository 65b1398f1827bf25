"""Owns an authorization server on the loopback that is as rude as the field, and an MCP server that takes only its
tokens.

It must not know this project's code: requests come in, answers go out (RFC 6749, 7009, 7591, 7636, 8414, 9728). Refresh
tokens rotate, and one that comes twice ends its family, as with servers that take security seriously.

    async with RudeAs() as server, RudeHttp(Guarded(server, OrdinaryMcp())) as mcp:
        server.protects(mcp.url)
        server.on("refresh", error("temporarily_unavailable", status=503), times=2)
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

from tests.fakes.rude_http import CLOSE, Answer, Reply, Request, RudeHttp, body, empty, encoded, raw, redirect

FORM = "application/x-www-form-urlencoded"
#: The answer never comes, though the server may have acted: see `lost`.
NOTHING = raw(CLOSE)


@dataclass(eq=False)
class Family:
    """All tokens of one sign-in. `access` is the newest, and the only good one; `used` are refresh tokens that were."""

    client: str
    scopes: str
    access: str = ""
    ends: float = 0.0
    refresh: str = ""
    alive: bool = True
    used: set[str] = field(default_factory=set)


def error(name: str, text: str = "", *, status: int = 400, headers: Sequence[tuple[str, str]] = ()) -> Reply:
    """An error as RFC 6749, 5.2 has it."""
    said = {"error": name, **({"error_description": text} if text else {})}
    return body(encoded(said), status=status, headers=headers)


def form_of(request: Request) -> dict[str, str]:
    """The fields of a form, the last of each name."""
    return {name: values[-1] for name, values in parse_qs(request.body.decode(), keep_blank_values=True).items()}


class RudeAs(RudeHttp):
    """Rules (`on`) are for places: `metadata`, `resource`, `register`, `authorize`, `code`, `refresh`, `grant` (any
    other token request), `revoke`, `keys`; `token` is every token request, `*` all.

    `life` is how long an access token is good, seconds of `clock`; `said_life` what `expires_in` has, None = that; "" =
    nothing. `rotates`: a refresh token is good once. `form`: tokens come as a form. `extra` goes into each token
    answer, `document` into the metadata.
    """

    def __init__(
        self, clock: Callable[[], float] = lambda: time.time_ns() / 1e9, *, life: float = 3600.0, port: int = 0
    ) -> None:
        super().__init__(self._ordinary, "/", port=port)
        self.clock = clock
        self.life = life
        self.said_life: Any = None
        self.rotates = True
        self.form = False
        self.extra: dict[str, Any] = {}
        self.document: dict[str, Any] = {}
        self.families: list[Family] = []
        self.secrets: dict[str, str] = {}
        #: Each access and refresh token, code and verifier that ever was: none of them may be seen anywhere.
        self.confidential: list[str] = []
        self.resources: list[str] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._made = 0

    # -- for tests

    @property
    def issuer(self) -> str:
        return self.origin

    def protects(self, url: str) -> None:
        """Requests must name this resource, or another one that was named so."""
        self.resources.append(url)

    def asked(self, place: str) -> list[Request]:
        """The requests to a place so far."""
        return [request for request in self.requests if place in self._places(request)]

    def signed_in(self, client: str = "cid", scopes: str = "") -> Family:
        """A sign-in, as if a person had done it."""
        family = Family(client, scopes)
        self.families.append(family)
        self._renew(family)
        return family

    def admits(self, token: str) -> Family | None:
        """Whose access token it is, None = it is none, or not good any more."""
        for family in self.families:
            if family.alive and token == family.access and self.clock() < family.ends:
                return family
        return None

    def lost(self, request: Request) -> Reply:
        """What it would do is done; the answer is not sent. For `on`."""
        self._ordinary(request)
        return NOTHING

    # -- what it answers

    def _answer(self, request: Request) -> Reply:
        places = self._places(request)
        for rule in self.rules:
            if (rule.key in places or rule.key == "*") and rule.times != 0:
                if rule.times is not None:
                    rule.times -= 1
                answer: Answer = rule.answer
                return answer(request) if callable(answer) else answer
        return self._ordinary(request)

    def _places(self, request: Request) -> tuple[str, ...]:
        path = request.path
        if path.startswith("/.well-known/oauth-protected-resource"):
            return ("resource",)
        if path.startswith("/.well-known/"):
            return ("metadata",)
        if path.startswith("/token"):
            kind = form_of(request).get("grant_type", "")
            return ("token", {"refresh_token": "refresh", "authorization_code": "code"}.get(kind, "grant"))
        return (path.strip("/"),)

    def _ordinary(self, request: Request) -> Reply:
        place = self._places(request)[-1]
        answers: dict[str, Callable[[Request], Reply]] = {
            "metadata": self._metadata,
            "register": self._register,
            "authorize": self._authorize,
            "code": self._code,
            "refresh": self._refresh,
            "grant": self._grant,
            "revoke": self._revoke,
        }
        return answers[place](request) if place in answers else empty(404)

    def _metadata(self, request: Request) -> Reply:
        if request.path != "/.well-known/oauth-authorization-server":
            return empty(404)
        here = self.origin
        return body(
            encoded(
                {
                    "issuer": self.issuer,
                    "authorization_endpoint": f"{here}/authorize",
                    "token_endpoint": f"{here}/token",
                    "registration_endpoint": f"{here}/register",
                    "revocation_endpoint": f"{here}/revoke",
                    "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
                    **self.document,
                }
            )
        )

    def _register(self, request: Request) -> Reply:
        client = self._new("client")
        asked = request.message if isinstance(request.message, dict) else {}
        uris = asked.get("redirect_uris", [])
        said = {"client_id": client, "redirect_uris": uris, "token_endpoint_auth_method": "none"}
        return body(encoded(said), status=201)

    def _authorize(self, request: Request) -> Reply:
        """A person who agrees at once."""
        query = {name: values[-1] for name, values in parse_qs(urlsplit(request.target).query).items()}
        code = self._new("code")
        self.confidential += [code, query.get("state", "")]
        self._codes[code] = query
        return redirect(302, f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}")

    def _code(self, request: Request) -> Reply:
        form = form_of(request)
        query = self._codes.pop(form.get("code", ""), None)
        verifier = form.get("code_verifier", "")
        self.confidential.append(verifier)
        if query is None or query.get("redirect_uri") != form.get("redirect_uri"):
            return error("invalid_grant", "no such code")
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        if challenge != query.get("code_challenge"):
            return error("invalid_grant", "PKCE")
        if wrong := self._wrong(request, form):
            return wrong
        return self._tokens(self.signed_in(self._client(request, form), query.get("scope", "")))

    def _refresh(self, request: Request) -> Reply:
        form = form_of(request)
        token = form.get("refresh_token", "")
        if wrong := self._wrong(request, form):
            return wrong
        for family in self.families:
            if token in family.used:
                family.alive = False  # stolen: everybody who has a token of it is out
                return error("invalid_grant", f"the refresh token {token} was used before")
            if family.alive and token and token == family.refresh and family.client == self._client(request, form):
                self._renew(family)
                return self._tokens(family)
        return error("invalid_grant", f"no such refresh token: {token}")

    def _grant(self, request: Request) -> Reply:
        form = form_of(request)
        if form.get("grant_type") != "client_credentials":
            return error("unsupported_grant_type")
        if wrong := self._wrong(request, form):
            return wrong
        client = self._client(request, form)
        if client not in self.secrets:
            return error("invalid_client", status=401)
        family = self.signed_in(client, form.get("scope", ""))
        answer: dict[str, Any] = {"access_token": family.access, "token_type": "Bearer", **self._life(), **self.extra}
        return body(encoded(answer))

    def _revoke(self, request: Request) -> Reply:
        token = form_of(request).get("token", "")
        for family in self.families:
            if token and token in (family.refresh, family.access):
                family.alive = False
        return empty(200)

    def _wrong(self, request: Request, form: dict[str, str]) -> Reply | None:
        client = self._client(request, form)
        if client in self.secrets and self._secret(request, form) != self.secrets[client]:
            return error("invalid_client", status=401)
        if self.resources and form.get("resource") not in self.resources:
            return error("invalid_target", f"not {form.get('resource')}")
        return None

    def _client(self, request: Request, form: dict[str, str]) -> str:
        return _basic(request)[0] or form.get("client_id", "")

    def _secret(self, request: Request, form: dict[str, str]) -> str:
        return _basic(request)[1] or form.get("client_secret", "")

    def _renew(self, family: Family) -> None:
        family.access = self._new("access")
        family.ends = self.clock() + self.life
        if self.rotates or not family.refresh:
            if family.refresh:
                family.used.add(family.refresh)
            family.refresh = self._new("refresh")
        self.confidential += [family.access, family.refresh]

    def _tokens(self, family: Family) -> Reply:
        answer: dict[str, Any] = {
            "access_token": family.access,
            "token_type": "Bearer",
            "refresh_token": family.refresh,
            **self._life(),
            **({"scope": family.scopes} if family.scopes else {}),
            **self.extra,
        }
        if self.form:
            return body(urlencode(answer).encode(), FORM)
        return body(encoded(answer))

    def _life(self) -> dict[str, Any]:
        if self.said_life == "":
            return {}
        return {"expires_in": int(self.life) if self.said_life is None else self.said_life}

    def _new(self, kind: str) -> str:
        self._made += 1
        name = f"{kind}-{self.port}-{self._made}"
        return f"{name}-{hashlib.sha256(name.encode()).hexdigest()}"


def _basic(request: Request) -> tuple[str, str]:
    kind, _, said = (request.header("Authorization") or "").partition(" ")
    if kind.lower() != "basic":
        return "", ""
    name, _, secret = base64.b64decode(said).decode().partition(":")
    return unquote_plus(name), unquote_plus(secret)


@dataclass(eq=False)
class Guarded:
    """An MCP server behind a sign-in, for RudeHttp: its own document, 401 for whoever brings no good token.

    `free` are keys of requests (Request.key) that need none. `scopes` are needed by key, 403 without. `refuses` are
    keys that get 401 whatever comes. `challenge`: whether a 401 says where to go.
    """

    server: RudeAs
    mcp: Callable[[Request], Reply]
    path: str = "/mcp"
    free: frozenset[str] = frozenset()
    refuses: frozenset[str] = frozenset()
    scopes: dict[str, str] = field(default_factory=dict)
    challenge: bool = True
    #: Requests that came with a good token, by key; and how many with a bad one, or none.
    admitted: list[str] = field(default_factory=list)
    turned_away: int = 0

    def __call__(self, request: Request) -> Reply:
        here = f"http://{request.header('Host')}"
        if request.path.startswith("/.well-known/"):
            if request.path != f"/.well-known/oauth-protected-resource{self.path}":
                return empty(404)
            assert not request.header("Authorization"), "a token went where everybody may look"
            return body(encoded({"resource": here + self.path, "authorization_servers": [self.server.issuer]}))
        if request.key in self.free:
            return self.mcp(request)
        kind, _, token = (request.header("Authorization") or "").partition(" ")
        family = self.server.admits(token) if kind == "Bearer" else None
        place = f'resource_metadata="{here}/.well-known/oauth-protected-resource{self.path}"'
        if family is None or request.key in self.refuses:
            self.turned_away += 1
            name = ', error="invalid_token"' if token else ""
            said = (("WWW-Authenticate", f"Bearer {place}{name}"),) if self.challenge else ()
            # As some do: the message repeats what came.
            return body(encoded({"error": f"not good: {token}"}), status=401, headers=said)
        wanted = self.scopes.get(request.key, "")
        if wanted and not set(wanted.split()) <= set(family.scopes.split()):
            said = (("WWW-Authenticate", f'Bearer error="insufficient_scope", scope="{wanted}", {place}'),)
            return body(b"{}", status=403, headers=said)
        self.admitted.append(request.key)
        return self.mcp(request)

"""How it is found out who signs people in: where is looked, in which order, and what of it is believed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.auth.discovery import (
    MOST_SERVERS,
    Resource,
    Rules,
    discover,
    find_legacy_server,
    find_resource,
    find_server,
    pick,
    read_server_at,
    same_issuer,
    server_places,
)
from mcphub.auth.failures import SignInFailed
from mcphub.auth.flow import Answered, Unanswered
from mcphub.spec import OAuthSpec
from tests.auth.transcript import account, answered, header_of, play, play_by_url
from tests.tables import Row, label, rows

URL = "https://m.example/public/mcp"
M = "https://m.example"
PRM = f"{M}/.well-known/oauth-protected-resource"
AS = "https://as.example"
OAUTH, OPENID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
GONE = Answered(404)


def resource(**more: Any) -> dict[str, Any]:
    return {"resource": URL, "authorization_servers": [f"{AS}/t1"], **more}


def metadata(issuer: str = AS, **more: Any) -> dict[str, Any]:
    found = {
        "issuer": issuer,
        "authorization_endpoint": f"{AS}/authorize",
        "token_endpoint": f"{AS}/token",
        "code_challenge_methods_supported": ["plain", "S256"],
        "response_types_supported": ["code"],
        **more,
    }
    return {name: value for name, value in found.items() if value != "absent"}


# -- the server's own document


def test_the_place_that_the_challenge_names() -> None:
    """B84, C095 (a): exactly that URL is asked, and no other one once it has answered."""
    found = play(find_resource(f"{URL}?x=1", f"{M}/meta", plain=False), answered(resource(scopes_supported=["a", "b"])))
    assert found.urls == [f"{M}/meta"]
    assert found.result == Resource(URL, (f"{AS}/t1",), ("a", "b"))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410])
def test_the_known_places(status: int) -> None:
    """B84, C095 (b): any 4xx leads on: below the path, with its query, then at the root."""
    found = play(find_resource(f"{URL}?x=1", "", plain=False), Answered(status), answered(resource(resource=M)))
    assert found.urls == [f"{PRM}/public/mcp?x=1", PRM]
    assert found.result is not None and found.result.resource == M


def test_the_named_place_is_gone() -> None:
    """B84, C095: then the known ones are asked; one that is the same is not asked twice."""
    found = play(find_resource(URL, f"{M}/meta", plain=False), GONE, GONE, GONE)
    assert (found.urls, found.result) == ([f"{M}/meta", f"{PRM}/public/mcp", PRM], None)
    found = play(find_resource(URL, PRM, plain=False), GONE, answered(resource()))
    assert found.urls == [PRM, f"{PRM}/public/mcp"]


@pytest.mark.parametrize(
    ("url", "places"),
    [
        ("https://m.example", [PRM]),
        ("https://m.example/", [PRM]),
        ("https://m.example/mcp/", [f"{PRM}/mcp", PRM]),
        (f"{M}:8443/mcp", [f"{M}:8443/.well-known/oauth-protected-resource{tail}" for tail in ("/mcp", "")]),
    ],
)
def test_where_it_may_stand(url: str, places: list[str]) -> None:
    """C095: nothing is asked below an empty path; a slash at the end is cut."""
    found = play_by_url(find_resource(url, "", plain=False), {})
    assert (found.urls, found.result) == (places, None)


@pytest.mark.parametrize(
    ("reply", "later"),
    [
        (Answered(500), True),
        (Answered(503), True),
        (Answered(429), True),
        (Unanswered("unreachable", "nothing listens"), True),
        (Unanswered("timeout", "no answer"), True),
        (Unanswered("tls", "the certificate has ended"), True),
        (Unanswered("lost", "it broke off"), True),
        (Unanswered("redirect", "HTTP 302 to https://evil.example"), False),
        (Unanswered("too_large", "the answer is larger than 256 KiB"), False),
        (Answered(302), False),
        (Answered(200, b"<html>"), False),
        (Answered(200, b"[]"), False),
    ],
)
def test_trouble_is_not_absence(reply: Answered | Unanswered, later: bool) -> None:
    """C095 (c): trouble ends the search, is told, and never leads to the root; only what may pass is tried later. S4:
    nor is a redirect followed."""
    found = play(find_resource(URL, "", plain=False), reply)
    assert found.reason == "discovery_failed" and found.failure is not None and found.failure.retry is later
    found2 = play(find_server(AS, Rules()), reply)
    assert found2.reason == "discovery_failed" and found2.failure is not None and found2.failure.retry is later


def test_headers_of_the_search() -> None:
    """JSON is asked for, without a token; the version goes to the server itself and to nobody else."""
    found = play(find_resource(URL, f"{AS}/meta", plain=False, version="2026-07-28"), GONE, GONE, GONE)
    assert [header_of(ask, "MCP-Protocol-Version") for ask in found.asks] == ["", "2026-07-28", "2026-07-28"]
    assert all(header_of(ask, "Accept") == "application/json" for ask in found.asks)
    assert all(not header_of(ask, "Authorization") and ask.method == "GET" for ask in found.asks)


@pytest.mark.parametrize(
    ("document", "reason", "part"),
    [
        (resource(resource="https://evil.example/mcp"), "resource_mismatch", "evil.example"),
        (resource(resource=f"{M}/other"), "resource_mismatch", "other"),
        (resource(resource=f"{URL}#x"), "resource_mismatch", "#x"),
        (resource(resource="http://m.example/public/mcp"), "resource_mismatch", "http://"),
        (resource(resource=None), "discovery_failed", "has no `resource`"),
        (resource(resource=[URL]), "discovery_failed", "has no `resource`"),
        (resource(authorization_servers=[]), "discovery_failed", "names no authorization server"),
        (resource(authorization_servers=None), "discovery_failed", "names no authorization server"),
        (resource(authorization_servers=AS), "discovery_failed", "names no authorization server"),
        (resource(authorization_servers=[5]), "discovery_failed", "names no authorization server"),
        (resource(bearer_methods_supported=["query"]), "discovery_failed", "wants tokens in query"),
        (resource(bearer_methods_supported=[]), "discovery_failed", "wants tokens in no place"),
    ],
)
def test_what_is_not_believed(document: dict[str, Any], reason: str, part: str) -> None:
    """A document about another resource, or one of no use, ends it; the next place is not asked."""
    found = play(find_resource(URL, "", plain=False), answered(document))
    assert found.reason == reason and part in str(found.failure)


def test_what_is_remembered() -> None:
    """Scopes that no parameter can hold are left out, each stands there once; the name is fit to be shown."""
    document = resource(
        scopes_supported=["a", "b c", "a", 'd"', 5, "e"],
        dpop_bound_access_tokens_required=True,
        resource_name="My\x1b[2J server",
        bearer_methods_supported=["header", "body"],
    )
    found = play(find_resource(URL, "", plain=False), answered(document)).result
    assert found == Resource(URL, (f"{AS}/t1",), ("a", "e"), True, True, "My [2J server")
    document = resource(dpop_bound_access_tokens_required="yes")
    found = play(find_resource(URL, "", plain=False), answered(document)).result
    assert found is not None and not found.dpop


@pytest.mark.parametrize("named", ["http://169.254.169.254/meta", "file:///etc/passwd", "https://u@m.example", "meta"])
def test_an_unsafe_place(named: str) -> None:
    """C114: a place in a challenge is judged before it is asked."""
    found = play(find_resource(URL, named, plain=False))
    assert found.reason == "unsafe_url" and "resource_metadata of the challenge" in str(found.failure)


def test_an_address_that_may_not_be_asked() -> None:
    """S3, C114: what leads to this machine or a private network is told as unsafe."""
    reply = Unanswered("unsafe", "m.example leads to 10.0.0.5, a private address")
    assert play(find_resource(URL, "", plain=False), reply).reason == "unsafe_url"


# -- the authorization server's document

PLACES = [f"{AS}{OAUTH}/t1", f"{AS}{OPENID}/t1", f"{AS}/t1{OPENID}"]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_issuer_with_a_path(at: int) -> None:
    """C096: three places in this order, all on the authorization server's host, never the root."""
    found = play(find_server(f"{AS}/t1", Rules()), *[GONE] * at, answered(metadata(f"{AS}/t1")))
    assert found.urls == PLACES[: at + 1]
    assert found.result.token_endpoint == f"{AS}/token"


@pytest.mark.parametrize("issuer", [AS, f"{AS}/"])
@pytest.mark.parametrize("at", [0, 1])
def test_an_issuer_without_a_path(issuer: str, at: int) -> None:
    """C096: two places at the root; C097: its final slash is cut before they are built, and the document may differ by
    it."""
    found = play(find_server(issuer, Rules()), *[GONE] * at, answered(metadata(AS)))
    assert found.urls == [AS + OAUTH, AS + OPENID][: at + 1]
    assert found.result.issuer == AS


def test_no_document_anywhere() -> None:
    """C096: nothing is guessed for a server that its resource names."""
    found = play(find_server(f"{AS}/t1", Rules()), GONE, GONE, GONE)
    assert found.reason == "discovery_failed" and f"{AS}/t1" in str(found.failure)


@pytest.mark.parametrize("row", rows("auth", "issuers"), ids=label)
def test_whose_document_it_is(row: Row) -> None:
    """C097: byte for byte, but for the one slash of an issuer without a path."""
    _, led, says, same = (column.replace('""', "") for column in row.columns)
    assert same_issuer(says, led) is (same == "yes")


def test_a_document_of_another_issuer() -> None:
    """B85: C097: it is fatal, names both, uses nothing of the document, and asks no further place."""
    for said in ("https://b.example", f"{AS}/t1/", URL, "", None):
        found = play(find_server(f"{AS}/t1", Rules()), answered(metadata(said)))  # type: ignore[arg-type]
        assert found.reason == "issuer_mismatch" and f"{AS}/t1" in str(found.failure)
    assert "'https://b.example'" in str(play(find_server(AS, Rules()), answered(metadata("https://b.example"))).failure)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (metadata(code_challenge_methods_supported="absent"), "pkce_unsupported"),
        (metadata(code_challenge_methods_supported=None), "pkce_unsupported"),
        (metadata(code_challenge_methods_supported=[]), "pkce_unsupported"),
        (metadata(code_challenge_methods_supported=["plain"]), "pkce_unsupported"),
        (metadata(code_challenge_methods_supported="S256"), "pkce_unsupported"),
        (metadata(response_types_supported=["token"]), "discovery_failed"),
        (metadata(authorization_endpoint="absent"), "discovery_failed"),
        (metadata(token_endpoint="absent"), "discovery_failed"),
        (metadata(token_endpoint=None), "discovery_failed"),
        (metadata(token_endpoint=5), "discovery_failed"),
        (metadata(authorization_endpoint="javascript:alert(1)"), "unsafe_url"),
        (metadata(authorization_endpoint="file:///etc/passwd"), "unsafe_url"),
        (metadata(authorization_endpoint="-oProxyCommand=x"), "unsafe_url"),
        (metadata(authorization_endpoint="https://a.example/$(touch${IFS}x)"), "unsafe_url"),
        (metadata(authorization_endpoint='https://a.example/"&calc'), "unsafe_url"),
        (metadata(authorization_endpoint="http://as.example"), "unsafe_url"),
        (metadata(authorization_endpoint=f"{AS}/authorize#x"), "unsafe_url"),
        (metadata(authorization_endpoint="https://localhost:8443/authorize"), "unsafe_url"),
        (metadata(authorization_endpoint="https://127.0.0.1/authorize"), "unsafe_url"),
        (metadata(token_endpoint="http://127.0.0.1:9/token"), "unsafe_url"),
        (metadata(registration_endpoint="http://as.example/register"), "unsafe_url"),
        (metadata(revocation_endpoint="ftp://as.example/"), "unsafe_url"),
        (metadata(jwks_uri="http://as.example/jwks"), "unsafe_url"),
    ],
)
def test_a_document_of_no_use(document: dict[str, Any], reason: str) -> None:
    """C104, B85: only S256, and announced; C114: every endpoint is judged, the refusal names it."""
    found = play(find_server(AS, Rules()), answered(document))
    assert found.reason == reason
    if reason == "unsafe_url":
        field = next(name for name, value in document.items() if value != metadata().get(name))
        assert field in str(found.failure)


def test_a_list_of_pkce_methods_that_is_missing() -> None:
    """C104: only where the entry says so, which the refusal names, it is taken for S256; "plain" alone never is."""
    absent = answered(metadata(code_challenge_methods_supported="absent"))
    assert "allowMissingPkceMetadata" in str(play(find_server(AS, Rules()), absent).failure)
    assert play(find_server(AS, Rules(missing_pkce=True)), absent).result.issuer == AS
    plain = answered(metadata(code_challenge_methods_supported=["plain"]))
    found = play(find_server(AS, Rules(missing_pkce=True)), plain)
    assert found.reason == "pkce_unsupported" and "offers only plain" in str(found.failure)
    assert "allowMissingPkceMetadata" not in str(found.failure)


def test_without_a_browser() -> None:
    """Where no person is sent there, neither PKCE nor an authorization endpoint is asked for."""
    document = metadata(
        authorization_endpoint="absent", code_challenge_methods_supported="absent", response_types_supported=["none"]
    )
    found = play(find_server(AS, Rules(browser=False)), answered(document)).result
    assert (found.authorization_endpoint, found.token_endpoint) == ("", f"{AS}/token")


def test_all_that_is_remembered() -> None:
    """C102: null stands for nothing; C114: a token endpoint may be on a third host."""
    document = metadata(
        token_endpoint="https://tokens.example/t",
        registration_endpoint=None,
        revocation_endpoint=f"{AS}/revoke",
        jwks_uri=f"{AS}/jwks",
        scopes_supported=["a", "offline_access"],
        token_endpoint_auth_methods_supported=["none", "private_key_jwt"],
        token_endpoint_auth_signing_alg_values_supported=["ES256"],
        id_token_signing_alg_values_supported=["RS256"],
        client_id_metadata_document_supported=True,
        authorization_response_iss_parameter_supported=True,
    )
    found = play(find_server(AS, Rules()), answered(document)).result
    assert (found.token_endpoint, found.registration_endpoint) == ("https://tokens.example/t", "")
    assert (found.revocation_endpoint, found.jwks_uri) == (f"{AS}/revoke", f"{AS}/jwks")
    assert (found.scopes, found.methods) == (("a", "offline_access"), ("none", "private_key_jwt"))
    assert (found.signing_algorithms, found.id_token_algorithms) == (("ES256",), ("RS256",))
    assert found.metadata_documents and found.says_iss and not found.guessed
    plain = play(find_server(AS, Rules()), answered(metadata())).result
    assert not plain.metadata_documents and not plain.says_iss and plain.methods is None


def test_the_place_that_the_entry_names() -> None:
    """The issuer is then the one of the entry, else the one that the document says."""
    place = f"{AS}/my/metadata"
    assert play(read_server_at(place, "", Rules()), answered(metadata(f"{AS}/x"))).result.issuer == f"{AS}/x"
    assert play(read_server_at(place, AS, Rules()), answered(metadata(f"{AS}/x"))).reason == "issuer_mismatch"
    assert play(read_server_at(place, "", Rules()), answered(metadata(""))).reason == "issuer_mismatch"
    assert "authServerMetadataUrl" in str(play(read_server_at(place, "", Rules()), GONE).failure)
    assert play(read_server_at("http://x.example/", "", Rules())).reason == "unsafe_url"


# -- servers of 2025-03-26


def test_a_server_that_says_nothing_of_itself() -> None:
    """C096: its own origin is asked at the root; there PKCE may be unannounced."""
    document = metadata(M, code_challenge_methods_supported="absent")
    found = play(find_legacy_server(URL, Rules(), guess=False), GONE, answered(document))
    assert found.urls == [M + OAUTH, M + OPENID]
    assert not found.result.guessed
    assert play(find_legacy_server(URL, Rules(), guess=False), answered(metadata(AS))).reason == "issuer_mismatch"


def test_a_server_without_any_document() -> None:
    """C093, C096: there is no sign-in, and a header may be wanted; only for a server that spoke 2025-03-26 the paths of
    that revision are taken."""
    found = play(find_legacy_server(URL, Rules(), guess=False), GONE, GONE)
    assert found.reason == "discovery_failed" and "set a header" in str(found.failure)
    guessed = play(find_legacy_server(URL, Rules(), guess=True), GONE, GONE).result
    assert (guessed.issuer, guessed.guessed) == (M, True)
    assert (guessed.authorization_endpoint, guessed.token_endpoint) == (f"{M}/authorize", f"{M}/token")
    assert guessed.registration_endpoint == f"{M}/register"
    assert play(find_legacy_server(URL, Rules(), guess=True), GONE, Answered(500)).reason == "discovery_failed"


# -- which authorization server


def test_which_of_several() -> None:
    """The one that the entry names, else one that knows this client, else the first."""
    named = Resource(URL, ("https://a.example", "https://b.example/", "https://c.example"))
    assert pick(named, "", frozenset()) == "https://a.example"
    assert pick(named, "", frozenset(["https://c.example"])) == "https://c.example"
    assert pick(named, "", frozenset(["https://b.example"])) == "https://b.example/"
    assert pick(named, "https://b.example", frozenset(["https://c.example"])) == "https://b.example/"
    with pytest.raises(SignInFailed, match="oauth.issuer.*nothing is sent") as caught:
        pick(named, "https://d.example", frozenset())
    assert caught.value.reason == "client_unusable"


def test_hundreds_of_servers() -> None:
    """C114: a few of them are looked at."""
    many = [f"https://as{number}.example" for number in range(500)]
    found = play(find_resource(URL, "", plain=False), answered(resource(authorization_servers=many))).result
    assert found is not None and len(found.servers) == MOST_SERVERS


# -- all of it


def test_the_whole_way() -> None:
    """C095, C096: the log of requests is exactly this."""
    answers = {
        f"{PRM}/public/mcp": answered(resource()),
        f"{AS}/t1{OPENID}": answered(metadata(f"{AS}/t1")),
        AS + OAUTH: answered(metadata()),  # a trap
        PRM: answered(resource(authorization_servers=["https://evil.example"])),  # another
    }
    found = play_by_url(discover(account(URL), ""), answers)
    assert found.urls == [f"{PRM}/public/mcp", *PLACES]
    assert (found.result.server.issuer, found.result.resource.resource) == (f"{AS}/t1", URL)


def test_the_whole_way_of_an_old_server() -> None:
    """C096, C112: the resource is then the server's URL in its one form."""
    old = account("https://M.example:443/mcp")
    found = play_by_url(discover(old, "", version="2025-03-26"), {})
    base = "https://M.example:443"
    prm = f"{base}/.well-known/oauth-protected-resource"
    assert found.urls == [f"{prm}/mcp", prm, base + OAUTH, base + OPENID]
    assert found.result.resource == Resource("https://m.example/mcp", stated=False)
    assert play_by_url(discover(old, "", version="2025-06-18"), {}).reason == "discovery_failed"


def test_what_an_entry_says() -> None:
    """Its issuer stands for a server that names none; its place replaces the search; a pin that the server does not
    name sends nothing anywhere."""
    pinned = account(URL, OAuthSpec(issuer=AS))
    found = play_by_url(discover(pinned, ""), {AS + OAUTH: answered(metadata())})
    assert found.result.server.issuer == AS
    found = play_by_url(discover(pinned, ""), {PRM: answered(resource())})
    assert found.reason == "client_unusable" and all(url.startswith(M) for url in found.urls)
    placed = account(URL, OAuthSpec(metadata_url=f"{AS}/here"))
    found = play_by_url(discover(placed, ""), {f"{AS}/here": answered(metadata()), PRM: answered(resource())})
    assert found.urls[-1] == f"{AS}/here" and found.result.resource.stated


@pytest.mark.parametrize("issuer", ["http://169.254.169.254/", "http://x.example", "https://u@x.example", "x.example"])
def test_an_unsafe_issuer(issuer: str) -> None:
    """C114: it is refused by name before anything is asked of it."""
    found = play_by_url(discover(account(URL), ""), {PRM: answered(resource(authorization_servers=[issuer]))})
    assert found.reason == "unsafe_url" and "authorization_servers" in str(found.failure)
    assert all(url.startswith(M) for url in found.urls)


def test_a_server_on_this_machine() -> None:
    """S1: there, and only there, http is enough on this machine."""
    here = "http://127.0.0.1:8000"
    document = {"resource": f"{here}/mcp", "authorization_servers": ["http://localhost:9000"]}
    as_ = "http://localhost:9000"
    there = metadata(as_, authorization_endpoint=f"{as_}/a", token_endpoint=f"{as_}/t")
    answers = {
        f"{here}/.well-known/oauth-protected-resource/mcp": answered(document),
        as_ + OAUTH: answered(there),
    }
    assert play_by_url(discover(account(f"{here}/mcp"), ""), answers).result.server.issuer == as_


@pytest.mark.parametrize(
    ("said", "life"),
    [
        ("", 3600.0),
        ("public", 3600.0),
        ("max-age=300", 300.0),
        ("public, Max-Age=300, immutable", 300.0),
        ('max-age="300"', 300.0),
        ("max-age=0", 60.0),
        ("max-age=5", 60.0),
        ("no-store", 60.0),
        ("no-cache, max-age=300", 60.0),
        ("max-age=99999999999999999999", 86400.0),
        ("s-maxage=5", 3600.0),
        ("max-age=-1", 3600.0),
        ("max-age=soon", 3600.0),
    ],
)
def test_how_long_a_document_is_good(said: str, life: float) -> None:
    """As its answer says, between a minute and a day; both are as good as the one that ends first."""
    answers = {
        f"{PRM}/public/mcp": answered(resource(authorization_servers=[AS]), cache_control="max-age=86400"),
        AS + OAUTH: answered(metadata(), cache_control=said),
    }
    assert play_by_url(discover(account(URL), ""), answers).result.life == life


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_NAMES = st.sampled_from([*metadata(), "resource", "authorization_servers", "scopes_supported", "jwks_uri"])


@given(st.dictionaries(_NAMES, _JSON, max_size=6))
def test_any_document(changes: dict[str, Any]) -> None:
    """Whatever stands in either document: a result or a failure of our own."""
    play(find_server(AS, Rules()), answered(metadata() | changes))
    play(find_resource(URL, "", plain=False), answered(resource() | changes))


def test_where_documents_of_issuers_stand() -> None:
    """C096: the path, if any, comes behind the name, and the name of OpenID behind the path too."""
    assert server_places("https://a.example:8443/x/y/") == (
        f"https://a.example:8443{OAUTH}/x/y",
        f"https://a.example:8443{OPENID}/x/y",
        f"https://a.example:8443/x/y{OPENID}",
    )

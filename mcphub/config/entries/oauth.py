"""Owns what an entry says of how its server's credentials are had: `oauth`, false or an object.

It must not get any, nor know a daemon. What contradicts itself is an error and never guessed away: the guess would
decide who sees a secret.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping
from typing import Any

from mcphub.config import urls
from mcphub.config.jsonc import kind_of
from mcphub.spec import AssertionSpec, OAuthSpec, Secret

from .fields import Fault, no_string, refuse_nul
from .reading import Expansion, Reading

KEY = "oauth"

#: Values of `grant`, and the mode that each is.
GRANTS = {"authorization_code": "oauth", "client_credentials": "client_credentials", "jwt-bearer": "wif"}
CALLBACK_HOSTS = ("127.0.0.1", "localhost")
ALGORITHMS = ("ES256", "ES384", "ES512", "EdDSA", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512")
ASSERTION_SOURCES = ("file", "env", "command")
_TEXTS = (
    "clientId",
    "clientSecret",
    "issuer",
    "authServerMetadataUrl",
    "clientMetadataUrl",
    "privateKey",
    "signingAlgorithm",
)
_FLAGS = ("xaa", "allowMissingPkceMetadata", "dpop")
KEYS = (*_TEXTS, *_FLAGS, "callbackPort", "callbackHost", "scopes", "grant", "assertion", "hosts")

_NOTHING = OAuthSpec()
#: One scope (RFC 6749, 3.3).
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_oauth(reading: Reading, expansion: Expansion) -> OAuthSpec:
    """What `oauth` says, the default where it is not given. Variables that cannot be had are `expansion`'s to tell.
    Raises `Fault`."""
    if KEY not in reading.raw:
        return _NOTHING
    given = reading.raw[KEY]
    if given is False:
        return OAuthSpec(mode="none")
    if not isinstance(given, dict):
        raise Fault(f"expected an object, or false for none, found {kind_of(given)}", KEY)
    for key in given:
        if key not in KEYS:
            reading.note("unknown key, not used", KEY, key)
    texts = {key: _text(expansion, given, key) for key in _TEXTS}
    flags = {key: _flag(given, key) for key in _FLAGS}
    port = _port(given)
    found = OAuthSpec(
        mode=_mode(given, xaa=flags["xaa"]),
        client_id=texts["clientId"],
        client_secret=Secret(texts["clientSecret"]),
        callback_port=port,
        callback_host=_host(given, pinned=bool(texts["clientId"] and port)),
        scopes=_scopes(reading, expansion, given),
        issuer=texts["issuer"],
        metadata_url=texts["authServerMetadataUrl"],
        client_metadata_url=texts["clientMetadataUrl"],
        allow_missing_pkce=flags["allowMissingPkceMetadata"],
        private_key=Secret(texts["privateKey"]),
        signing_algorithm=texts["signingAlgorithm"],
        assertion=_assertion(reading, expansion, given),
        dpop=flags["dpop"],
        hosts=_hosts(reading, expansion, given),
    )
    _refuse_contradictions(given, found)
    if found.mode != "oauth":
        for key in ("callbackPort", "callbackHost", "clientMetadataUrl"):
            if key in given:
                reading.note("has no effect: it is for a person's sign-in, which this entry has none of", KEY, key)
    return found


def check_expanded(reading: Reading, oauth: OAuthSpec) -> None:
    """What can be said only once variables were replaced. Raises `Fault`."""
    for key, url in (("issuer", oauth.issuer), ("authServerMetadataUrl", oauth.metadata_url)):
        if url and (fault := urls.sign_in_fault(url)):
            raise Fault(fault, KEY, key)
    if url := oauth.client_metadata_url:
        fault = urls.sign_in_fault(url) or ("" if url.startswith("https://") else "expected an https:// address")
        if not fault and url.partition("://")[2].partition("/")[2] == "":
            fault = "expected the address of a document; this one has no path"
        if fault:
            raise Fault(fault, KEY, "clientMetadataUrl")
    if any(name.lower() == "authorization" for name in reading.raw.get("headers", {})):
        reading.note("has no effect: the Authorization header of this entry is sent, and nobody signs in", KEY)
    elif "headersHelper" in reading.raw:
        reading.note("has no effect: the program at headersHelper gives the credentials", KEY)


def _text(expansion: Expansion, given: Mapping[str, Any], key: str) -> str:
    value = given.get(key, "")
    if not isinstance(value, str):
        raise no_string(value, KEY, key)
    refuse_nul(value, KEY, key)
    if key == "signingAlgorithm" and value and value not in ALGORITHMS:
        raise Fault(f"expected one of {', '.join(ALGORITHMS)}", KEY, key)
    return expansion.expand(value, KEY, key)


def _flag(given: Mapping[str, Any], key: str) -> bool:
    value = given.get(key, False)
    if not isinstance(value, bool):
        raise Fault(f"expected true or false, found {kind_of(value)}", KEY, key)
    return value


def _mode(given: Mapping[str, Any], *, xaa: bool) -> str:
    grant = given.get("grant", "authorization_code")
    if not isinstance(grant, str) or grant not in GRANTS:
        raise Fault(f"expected one of {', '.join(GRANTS)}", KEY, "grant")
    if not xaa:
        return GRANTS[grant]
    if "grant" in given:
        raise Fault("xaa is a way of its own; remove one of xaa and grant", KEY, "grant")
    return "xaa"


def _port(given: Mapping[str, Any]) -> int:
    value = given.get("callbackPort", 0)
    if isinstance(value, bool) or not isinstance(value, int) or ("callbackPort" in given and not 0 < value < 65536):
        raise Fault("expected a port, 1 to 65535", KEY, "callbackPort")
    return value


def _host(given: Mapping[str, Any], *, pinned: bool) -> str:
    """A client that was registered for a fixed port was registered for the host's own spelling of the loopback, where
    nothing else is said."""
    value = given.get("callbackHost", "localhost" if pinned else "127.0.0.1")
    if value not in CALLBACK_HOSTS:
        raise Fault(f"expected {' or '.join(CALLBACK_HOSTS)}", KEY, "callbackHost")
    return str(value)


def _words(given: Mapping[str, Any], key: str) -> list[tuple[str, tuple[str | int, ...]]]:
    """A list of strings, or one string of words, each with its place."""
    value = given.get(key, [])
    if isinstance(value, str):
        refuse_nul(value, KEY, key)
        return [(word, (KEY, key)) for word in value.split()]
    if not isinstance(value, list):
        raise Fault(f"expected a string, or a list of strings, found {kind_of(value)}", KEY, key)
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise no_string(item, KEY, key, index)
        refuse_nul(item, KEY, key, index)
    return [(item, (KEY, key, index)) for index, item in enumerate(value)]


def _scopes(reading: Reading, expansion: Expansion, given: Mapping[str, Any]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for text, place in _words(given, "scopes"):
        for word in expansion.expand(text, *place).split():
            if not _SCOPE.fullmatch(word) and ("$" not in text or reading.enabled):
                raise Fault("a scope has printable ASCII characters only, and no quotation mark or backslash", *place)
            found[word] = None
    return tuple(found)


def _hosts(reading: Reading, expansion: Expansion, given: Mapping[str, Any]) -> tuple[str, ...]:
    if "hosts" in given and reading.foreign and not reading.project:
        raise Fault(f"{reading.whose} cannot widen where credentials go", KEY, "hosts")
    found: list[str] = []
    for text, place in _words(given, "hosts"):
        host = expansion.expand(text, *place)
        if host and not _HOST.fullmatch(host) and ("$" not in text or reading.enabled):
            raise Fault("expected a host, or host:port, such as login.corp.example", *place)
        found += [host.lower()] if host else []
    return tuple(found)


def _assertion(reading: Reading, expansion: Expansion, given: Mapping[str, Any]) -> AssertionSpec | None:
    if "assertion" not in given:
        return None
    place = (KEY, "assertion")
    value = given["assertion"]
    if not isinstance(value, dict):
        raise Fault(f"expected an object, found {kind_of(value)}", *place)
    if len(value) != 1 or next(iter(value)) not in ASSERTION_SOURCES:
        raise Fault(f"expected one of {', '.join(ASSERTION_SOURCES)}", *place)
    if reading.foreign:
        text = f"{reading.whose} may not use this machine's own tokens; if you want it, set the server up in your own "
        raise Fault(f"{text}mcp.json", *place)
    [(source, text)] = value.items()
    if not isinstance(text, str):
        raise no_string(text, *place, source)
    refuse_nul(text, *place, source)
    if not text.strip():
        raise Fault("is empty", *place, source)
    if source == "env":
        if not _VARIABLE.fullmatch(text):
            raise Fault("expected the name of a variable, without $", *place, source)
        return AssertionSpec(env=text, shown=text)
    if source == "command":
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise Fault(f"cannot be split into words: {str(error).lower()}", *place, source) from None
        if not words or not words[0]:
            raise Fault("names no program", *place, source)
        return AssertionSpec(words=tuple(Secret(expansion.expand(word, *place, source)) for word in words), shown=text)
    path = expansion.expand(text, *place, source)
    if reading.enabled or "$" not in text:
        if text.startswith("~"):
            raise Fault("~ is not replaced; write ${HOME}", *place, source)
        path = posixpath.normpath(posixpath.join(reading.directory, path))
        if not posixpath.isabs(path):
            raise Fault("expected an absolute path, for example ${HOME}/token", *place, source)
    return AssertionSpec(file=path, shown=text)


def _refuse_contradictions(given: Mapping[str, Any], found: OAuthSpec) -> None:
    """By what is written, so that an entry is wrong whatever its variables are."""

    def has(key: str) -> bool:
        return bool(given.get(key))

    def need(key: str, why: str) -> None:
        if not has(key):
            raise Fault(f"missing; {why}", KEY, key)

    if has("clientSecret"):
        need("clientId", "clientSecret is the secret of an id")
    if has("privateKey"):
        need("clientId", "privateKey proves an id")
    if has("clientSecret") and has("privateKey"):
        raise Fault("both clientSecret and privateKey are set; remove the one that is not used", KEY, "privateKey")
    if has("signingAlgorithm"):
        need("privateKey", "signingAlgorithm says how it signs")
    if found.mode == "wif":
        need("assertion", "a workload's own token is exchanged: say where it is")
    elif has("assertion"):
        raise Fault('is for "grant": "jwt-bearer" alone', KEY, "assertion")
    if found.mode == "client_credentials":
        need("clientId", "this grant is the client's own")
        if not has("privateKey"):
            need("clientSecret", "this grant needs it, or privateKey")
        need("issuer", "it says who may see this client's credentials")
    if found.mode == "xaa":
        need("clientId", "it is this client's id at the server's authorization server")
        if has("clientSecret"):
            need("issuer", "it says who may see clientSecret")


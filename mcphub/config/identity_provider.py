"""Owns what `xaaIdp` says: the organisation's identity provider, in managed settings or in settings.toml.

It must not ask that provider anything. Only its `clientSecret` may hold `${...}`: who signs people in must not depend
on anybody's environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mcphub.spec import IdpSpec, Origin, Secret

from . import urls
from .expand import Variables, expand
from .jsonc import kind_of
from .settings import XaaIdpSettings

KEY = "xaaIdp"
SUBJECTS = ("id_token", "refresh_token")
_TEXTS = ("issuer", "clientId", "clientSecret")
KEYS = (*_TEXTS, "callbackPort", "scopes", "subject")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


class WrittenIdp(msgspec.Struct, frozen=True):
    """`xaaIdp` as one document of managed settings has it, nothing expanded."""

    origin: Origin
    value: object

    def __repr__(self) -> str:
        return f"WrittenIdp({self.origin})"


def written_in(settings: XaaIdpSettings, origin: Origin) -> WrittenIdp | None:
    """What a person's own settings say, None where they say nothing."""
    if settings == XaaIdpSettings():
        return None
    value: dict[str, object] = {"issuer": settings.issuer, "clientId": settings.client_id}
    value["scopes"] = settings.scopes if isinstance(settings.scopes, str) else list(settings.scopes)
    value |= {"clientSecret": settings.client_secret, "subject": settings.subject}
    if settings.callback_port:
        value["callbackPort"] = settings.callback_port
    return WrittenIdp(origin, value)


def read_idp(
    written: WrittenIdp, env: Mapping[str, str], secret: Callable[[str], str | None] | None = None
) -> tuple[IdpSpec | None, str]:
    """The provider, and what is wrong with it in one line; None where it cannot be used."""
    value = written.value
    try:
        if not isinstance(value, dict):
            raise ValueError(f"{written.origin}: expected an object, found {kind_of(value)}")
        return _read(written, value, env, secret), ""
    except ValueError as error:
        return None, f"cannot use {error}; nobody can sign in at the organisation until that is mended"


def _read(
    written: WrittenIdp, value: Mapping[str, Any], env: Mapping[str, str], secret: Callable[[str], str | None] | None
) -> IdpSpec:
    def wrong(key: str, cause: str) -> ValueError:
        return ValueError(f"{written.origin}.{key}: {cause}")

    texts: dict[str, str] = {}
    for key in _TEXTS:
        text = value.get(key, "")
        if not isinstance(text, str):
            raise wrong(key, f"expected a string, found {kind_of(text)}")
        if key != "clientSecret" and (not text or "${" in text):
            raise wrong(key, "missing" if not text else "write it without ${...}")
        texts[key] = text
    if fault := urls.sign_in_fault(texts["issuer"]):
        raise wrong("issuer", fault)
    port = value.get("callbackPort", 0)
    if isinstance(port, bool) or not isinstance(port, int) or ("callbackPort" in value and not 0 < port < 65536):
        raise wrong("callbackPort", "expected a port, 1 to 65535")
    scopes = value.get("scopes", [])
    words = scopes.split() if isinstance(scopes, str) else scopes
    if not isinstance(words, list) or not all(isinstance(one, str) and _SCOPE.fullmatch(one) for one in words):
        raise wrong("scopes", "expected scopes, in one string or in a list")
    subject = value.get("subject", SUBJECTS[0])
    if subject not in SUBJECTS:
        raise wrong("subject", f"expected {' or '.join(SUBJECTS)}")
    if unknown := [key for key in value if key not in KEYS]:
        raise wrong(ascii(unknown[0])[1:-1][:80], f"unknown key; there are {', '.join(KEYS)}")
    return IdpSpec(
        texts["issuer"],
        texts["clientId"],
        Secret(_expanded(texts["clientSecret"], env, secret, wrong)),
        port,
        # What was registered for a fixed port was registered for other hosts' spelling of the loopback.
        "localhost" if port else "127.0.0.1",
        tuple(dict.fromkeys(words)),
        subject,
        written.origin.path,
    )


def _expanded(
    text: str,
    env: Mapping[str, str],
    secret: Callable[[str], str | None] | None,
    wrong: Callable[[str, str], ValueError],
) -> str:
    if "$" not in text:
        return text
    found = expand(text, Variables(env, secret=secret))
    if found.secrets:
        name = ascii(found.secrets[0][:40])[1:-1]
        raise wrong("clientSecret", f"no secret is named {name}, or none can be read: mcphub secret set {name}")
    if found.missing:
        raise wrong("clientSecret", f"missing variable {found.missing[0]}")
    return found.text

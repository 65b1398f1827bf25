"""Owns what an entry says of a server at a URL: the URL itself and the headers that are sent there.

It must not know the fields that entries of every kind have, nor what a URL or a header may be.
"""

from __future__ import annotations

from mcphub.config import urls
from mcphub.config.masking import masked_url
from mcphub.spec import HttpSpec, OAuthSpec, Secret, SseSpec, WsSpec

from .fields import Fault, mapping, no_string, string
from .headers_helper import read_helper
from .ide import ide_headers, read_ide
from .kinds import Kind
from .oauth import KEY, check_expanded, read_oauth
from .reading import Expansion, Reading
from .tls import read_tls

_SPECS: dict[Kind, type[HttpSpec]] = {"HTTP": HttpSpec, "SSE": SseSpec, "WebSocket": WsSpec}


def read_http(reading: Reading, kind: Kind) -> HttpSpec:
    """The transport, of this kind, of an entry that has a `url`. Raises `Fault`."""
    ide = read_ide(reading)
    # What a repository wrote must not carry a person's credentials to a place of its own choice.
    expansion = Expansion(reading, withheld=urls.is_credential)
    url = string(reading.raw, "url")
    headers = _headers(reading)

    expanded_url = expansion.expand(url, "url")
    expanded = {name: expansion.expand(text, "headers", name) for name, text in headers.items()}
    expanded |= ide_headers(reading.raw, expansion)
    helper = read_helper(reading, expansion)
    tls = read_tls(reading, expansion)
    # Over a WebSocket nobody signs in: unused_keys() says so.
    oauth = read_oauth(reading, expansion) if kind != "WebSocket" else OAuthSpec()
    expansion.refuse_missing()
    if reading.enabled:
        if KEY in reading.raw and kind != "WebSocket" and oauth.mode != "none":
            check_expanded(reading, oauth)
        _refuse_unusable(reading, url, expanded_url, urls.WS_SCHEMES if kind == "WebSocket" else urls.HTTP_SCHEMES)
        expanded = {name: _sendable(reading, name, value) for name, value in expanded.items()}
    secrets = {name: Secret(value) for name, value in expanded.items()}
    shown = url if reading.project else masked_url(url)
    return _SPECS[kind](Secret(expanded_url), secrets, shown, helper, tls, ide, oauth)


def _headers(reading: Reading) -> dict[str, str]:
    """The headers that are sent, as they are written."""
    seen: set[str] = set()
    kept: dict[str, str] = {}
    for name, value in mapping(reading.raw, "headers").items():
        if fault := urls.header_fault(name):
            raise Fault(fault, "headers", name)
        if not isinstance(value, str):
            raise no_string(value, "headers", name)
        if name.lower() in seen:
            raise Fault("stands twice; upper and lower case are the same in a header's name", "headers", name)
        seen.add(name.lower())
        if urls.written_by_us(name):
            reading.note("mcphub sets this header itself, so this value is not used", "headers", name)
        else:
            kept[name] = value
    return kept


def _refuse_unusable(reading: Reading, text: str, url: str, schemes: tuple[str, ...]) -> None:
    """`text` is the URL as the file has it."""
    if fault := urls.url_fault(url, schemes):
        raise Fault(fault, "url")
    if host := urls.open_host(url):
        plain = f"plain {schemes[0]} to {ascii(urls.shown_host(masked_url(text)) or host)[1:-1]}"
        reading.note(f"{plain}: what is sent, credentials too, can be read by others", "url")


def _sendable(reading: Reading, name: str, value: str) -> str:
    """The header's value without the line break that a file put behind it."""
    if value.endswith("\n"):
        value = value.removesuffix("\n").removesuffix("\r")
        reading.note("the line break at the end of its value is not sent", "headers", name)
    if fault := urls.value_fault(value):
        raise Fault(fault, "headers", name)
    return value

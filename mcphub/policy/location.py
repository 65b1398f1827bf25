"""Owns a URL as policy compares it: scheme, host, port, path and query, each brought into one form (RFC 3986).

It must not know patterns or rules. What two programs could read differently has no location at all: None.
"""

from __future__ import annotations

import re
import unicodedata

import msgspec

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.DOTALL)
# White space, controls and invisible characters; a backslash is a slash to browsers and none to RFC 3986.
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\\u00ad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# A path without any of these has one reading, as long as it has no dots or empty parts to resolve.
_SIMPLE = re.compile(r"[^%;\\]*")
#: How often an escape may be escaped again.
_ROUNDS = 4
#: What separates labels (RFC 3490 3.1).
_DOTS = re.compile("[.\u3002\uff0e\uff61]")
#: Characters that IDNA 2003 and 2008 turn into different names.
_DEVIATIONS = "\u00df\u1e9e\u03c2\u200c\u200d"
DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


class Location(msgspec.Struct, frozen=True):
    """Where a URL leads. `host` is lower case ASCII, an address in its shortest form, IPv6 in brackets.

    `port` is the scheme's own where the URL has none, None where the scheme has none either. `path` begins with a slash
    and holds no escape that is not needed; `plain`: no program can read it as another path. `readings` are all paths
    that some program could take it for.
    """

    scheme: str
    host: str
    port: int | None
    path: str
    query: str | None
    plain: bool
    readings: tuple[str, ...]


def read_location(url: str) -> Location | None:
    """Where `url` leads, None where that is not certain: then it must count as denied and never as allowed."""
    if _UNSAFE.search(url):
        return None
    found = _URL.fullmatch(url)
    if found is None:
        return None
    scheme, authority, path, query = found.groups()
    scheme = scheme.lower()
    if authority.count("@") > 1:
        return None
    split = split_port(authority.rpartition("@")[2])
    if split is None:
        return None
    host, port = canonical_host(split[0]), DEFAULT_PORTS.get(scheme)
    if host is None:
        return None
    if split[1]:
        port = port_number(split[1])
        if port is None:
            return None
    try:
        normal = normal_path(path)
        normal_query = None if query is None else normal_text(query)
    except UnicodeEncodeError:
        return None
    readings = _readings(normal)
    return Location(scheme, host, port, normal, normal_query, readings == (normal,), readings)


def split_port(text: str) -> tuple[str, str] | None:
    """(host, port) of `HOST[:PORT]`, "" = no port; None where the colons cannot be told apart."""
    if text.startswith("["):
        host, bracket, rest = text.partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            return None
        return host + bracket, rest[1:]
    host, _, port = text.partition(":")
    return None if ":" in port else (host, port)


def port_number(text: str) -> int | None:
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        return None
    number = int(text)
    return number if 0 < number <= 65535 else None


def canonical_host(text: str) -> str | None:
    """`text` in the one form that is compared; None where it is no host, or one that programs read differently."""
    if text.startswith("["):
        return _ipv6(text)
    host = text.removesuffix(".")
    if not host.isascii():
        names = ascii_hosts(host)
        if len(names) != 1:
            return None
        (host,) = names
    host = host.lower()
    if len(host) > 253:
        return None
    labels = host.split(".")
    if not all(map(_LABEL.fullmatch, labels)):
        return None
    if labels[-1].isdigit() or re.fullmatch(r"0x[0-9a-f]*", labels[-1]):
        return _ipv4(labels)
    return host


def ascii_hosts(host: str) -> frozenset[str]:
    """The names that a host with other than ASCII letters can stand for: one, two where IDNA 2003 and 2008 differ,
    none where it is no name."""
    import encodings.idna  # few hosts need it

    host = unicodedata.normalize("NFC", host.lower())
    found = set()
    try:
        labels = [encodings.idna.ToASCII(label).decode("ascii") for label in _DOTS.split(host)]
        if any("." in label for label in labels):
            return frozenset()  # one letter that became two labels
        found.add(".".join(labels))
        if any(letter in host for letter in _DEVIATIONS):
            kept = [label if label.isascii() else "xn--" + label.encode("punycode").decode("ascii")
                    for label in host.split(".")]  # fmt: skip
            found.add(".".join(kept))
    except UnicodeError:
        return frozenset()
    return frozenset(found)


def _ipv6(text: str) -> str | None:
    import ipaddress

    if "%" in text or not text.endswith("]"):
        return None
    try:
        address = ipaddress.IPv6Address(text[1:-1])
    except ValueError:
        return None
    # The same machine by its other family's address, and the same rule.
    return str(address.ipv4_mapped) if address.ipv4_mapped is not None else f"[{address.compressed}]"


def _ipv4(labels: list[str]) -> str | None:
    """The dotted form of an address as `inet_aton` reads it: 127.1, 0x7f.0.0.1 and 2130706433 are 127.0.0.1."""
    if len(labels) > 4:
        return None
    numbers = []
    for label in labels:
        try:
            if label.startswith("0x"):
                numbers.append(int(label[2:] or "0", 16))
            else:
                numbers.append(int(label, 8 if len(label) > 1 and label.startswith("0") else 10))
        except ValueError:
            return None
    *heads, last = numbers
    if any(number > 255 for number in heads) or last >= 256 ** (4 - len(heads)):
        return None
    whole = last
    for place, number in enumerate(heads):
        whole += number << (24 - 8 * place)
    return ".".join(str(whole >> shift & 255) for shift in (24, 16, 8, 0))


def normal_text(text: str) -> str:
    """`text` with no escape that RFC 3986 calls needless, others in upper case, and all that is not ASCII escaped.
    Raises UnicodeEncodeError for half of a surrogate pair."""
    if "%" in text:
        text = _ESCAPE.sub(_unreserved, text)
    if text.isascii():
        return text
    return "".join(c if c.isascii() else "".join(f"%{byte:02X}" for byte in c.encode("utf-8")) for c in text)


def normal_path(text: str) -> str:
    return normal_text(text) or "/"


def _unreserved(found: re.Match[str]) -> str:
    letter = chr(int(found[1], 16))
    return letter if letter in _UNRESERVED else found[0].upper()


def _readings(path: str) -> tuple[str, ...]:
    """`path`, and what it becomes for programs that decode again, resolve dots, or take a backslash for a slash."""
    if _SIMPLE.fullmatch(path) and "/." not in path and "//" not in path:
        return (path,)
    readings = {path: None}
    text = path
    for _ in range(_ROUNDS):
        slashes = text.replace("\\", "/")
        # Parameters of a segment (`..;x`) are cut off by some servers.
        for form in (text, slashes, re.sub(r";[^/]*", "", slashes)):
            readings[form] = None
            readings[_without_dots(form)] = None
        decoded = _ESCAPE.sub(_telling, text)
        if decoded == text:
            break
        text = decoded
    else:
        readings[""] = None  # more layers than anybody has a use for: not plain
    if _BAD_ESCAPE.search(path):
        readings[""] = None
    return tuple(readings)


def _telling(found: re.Match[str]) -> str:
    """The character of an escape that could change which path it is."""
    letter = chr(int(found[1], 16))
    return letter if letter in _UNRESERVED or letter in "/\\;%?#" else found[0].upper()


def _without_dots(path: str) -> str:
    """RFC 3986 5.2.4, and repeated slashes as one."""
    if "/." not in path and "//" not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            if kept:
                kept.pop()
        elif segment not in ("", "."):
            kept.append(segment)
    ending = "/" if segments and segments[-1] in ("", ".", "..") and kept else ""
    return "/" + "/".join(kept) + ending

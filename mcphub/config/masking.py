"""Owns how an argument or a URL may be printed: what may hold a secret is masked by its place, never by its name.

It must not know entries, nor which of their fields are shown.
"""

from __future__ import annotations

import re

from .expand import only_references

_OPTION = re.compile(r"(?P<option>-[^=\s]*=)(?P<value>.+)", re.DOTALL)
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?:(?P<user>[^/?#@]*)@)?(?P<rest>[^?#]*)(?P<query>\?[^#]*)?")
MASK = "***"


def masked(arg: str) -> str:
    """`arg` as a list may print it: by position, the value of `--option=value` and what a URL carries beside its path.

    Text that consists of `${VAR}` is shown, since it holds no value. Names are not judged: every option is treated so.
    """
    if "=" not in arg and "://" not in arg:
        return arg
    option = _OPTION.fullmatch(arg)
    if option is not None:
        return option["option"] + (option["value"] if only_references(option["value"]) else MASK)
    url = _URL.match(arg)
    if url is None:
        return arg
    user = f"{MASK}@" if url["user"] else ""
    query = f"?{MASK}" if url["query"] else ""
    return f"{url['scheme']}{user}{url['rest']}{query}"


def option_value(arg: str) -> str:
    """The value of an argument that is `--option=value`, "" = it is none."""
    option = _OPTION.fullmatch(arg)
    return option["value"] if option is not None else ""


def masked_url(url: str) -> str:
    """A server's URL as a list may print it: what stands before `@` and behind `?` is masked, `#` and the rest gone."""
    place, mark, _ = url.partition("#")[0].partition("?")
    scheme, slashes, rest = place.rpartition("://")
    host, slash, path = rest.partition("/")
    user, at, host = host.rpartition("@")
    return f"{scheme}{slashes}{MASK if user else ''}{at}{host}{slash}{path}{mark}{MASK if mark else ''}"

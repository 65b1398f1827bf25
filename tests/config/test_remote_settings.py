"""What `remoteSettings` may say."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.config.remote_settings import RemoteSettings, parse_remote
from mcphub.spec import Origin, Scope

ORIGIN = Origin(Scope.MANAGED, "/etc/mcphub/managed-settings.json", "remoteSettings", 2)
URL = "https://fleet.example/mcphub"


def test_all_of_it() -> None:
    """Each key has its place; without the optional ones nothing closes and the system's store is trusted."""
    assert parse_remote({"url": URL}, ORIGIN) == RemoteSettings(URL, ORIGIN, False, "")
    whole = parse_remote({"url": URL, "failClosed": True, "caFile": "/etc/ca.pem"}, ORIGIN)
    assert whole == RemoteSettings(URL, ORIGIN, True, "/etc/ca.pem")


@pytest.mark.parametrize(
    "value, cause",
    [
        (URL, "expected an object, found a string"),
        ({}, "url is missing"),
        ({"url": 1}, "url: expected a string, found a number"),
        ({"url": "http://fleet.example/"}, "url: expected https://"),
        ({"url": "ftp://fleet.example/"}, "url: expected an address that begins with"),
        ({"url": "https://"}, "url: the URL names no host"),
        ({"url": "https://a b/"}, "url: a URL has no blanks"),
        ({"url": URL, "failClosed": "yes"}, "failClosed: expected true or false, found a string"),
        ({"url": URL, "caFile": "ca.pem"}, "caFile: expected an absolute path"),
        ({"url": URL, "caFile": "/a\0b"}, "caFile: expected an absolute path"),
        ({"url": URL, "failclosed": True}, "unknown key 'failclosed'; known here: caFile, failClosed, url"),
    ],
)
def test_what_is_wrong(value: Any, cause: str) -> None:
    """Every fault is named: rules were meant to come from there."""
    with pytest.raises(ValueError) as caught:
        parse_remote(value, ORIGIN)
    assert str(caught.value).startswith(cause)


def test_a_password_is_not_shown() -> None:
    """What stands before the host and in the query is masked."""
    assert parse_remote({"url": "https://u:p@h.example/x?k=v"}, ORIGIN).shown == "https://***@h.example/x?***"

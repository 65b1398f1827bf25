"""Managed settings from a URL, as far as they are known."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from mcphub.config.layer import Layer
from mcphub.config.managed_document import parse_managed
from mcphub.config.readfile import Reader
from mcphub.config.sources.fetched import MAX_AGE, fetched_layers
from mcphub.config.sources.request import Request
from mcphub.store.fetched_settings import Copy, fetched_settings_file

from .administrators import Administrators, names

URL = "https://fleet.example/settings?key=1"
SHOWN = "https://fleet.example/settings?***"
GOOD = '{"managedMcpServers":{"a":{"type":"http","url":"https://a.example/"}},"deniedMcpServers":[]}'


@pytest.fixture
def here(tmp_path: Path) -> Administrators:
    return Administrators(tmp_path)


def layer(here: Administrators, copy: Copy | None, *, fail_closed: bool = False) -> Layer:
    if copy is not None:
        fetched_settings_file(here.places.fetched_settings).change(lambda _: copy)
    text = json.dumps({"remoteSettings": {"url": URL, "failClosed": fail_closed}})
    below = parse_managed(text.encode(), path="/etc/mcphub/managed-settings.json", directory="/etc/mcphub")
    (found,) = fetched_layers(Request("", here.places, Reader()), [below])
    return found


def now() -> int:
    return time.time_ns() // 10**9


def test_without_a_url_there_is_nothing(here: Administrators) -> None:
    """A copy that no document asks for does not count: nobody else may bring managed settings by a file of a user's."""
    fetched_settings_file(here.places.fetched_settings).change(lambda _: Copy(URL, GOOD, "", now()))
    below = parse_managed(b"{}", path="/etc/mcphub/managed-settings.json", directory="/etc/mcphub")
    assert fetched_layers(Request("", here.places, Reader()), [below]) == []


def test_a_good_copy(here: Administrators) -> None:
    """It is a document like others, placed at the URL, whose secrets are not shown."""
    found = layer(here, Copy(URL, GOOD, "", now()), fail_closed=True)
    assert names(found) == ["a"]
    assert (found.path, found.warnings, found.problems) == (SHOWN, (), ())
    assert found.policy is not None
    assert found.policy.fault == ""


def test_not_fetched_yet(here: Administrators) -> None:
    """A copy of another URL, and one that says only why there is none, are none; failClosed decides what that means."""
    for copy, cause in (
        (None, ""),
        (Copy("https://other.example/", GOOD, "", now()), ""),
        (Copy(URL, "", "", 0, now(), error="fleet.example:443 refused"), ": fleet.example:443 refused"),
    ):
        message = f"cannot use the managed settings of {SHOWN}: not fetched yet{cause}"
        open_ = layer(here, copy)
        assert (open_.warnings, open_.policy, open_.problems) == ((message,), None, ())
        closed = layer(here, copy, fail_closed=True)
        assert closed.policy is not None
        assert closed.policy.fault.startswith(message)
        assert "/etc/mcphub/managed-settings.json:1 remoteSettings says failClosed" in closed.policy.fault


def test_an_old_copy(here: Administrators) -> None:
    """It stays in force for ever, or for a day where failClosed says so; that it is old is said."""
    old = Copy(URL, GOOD, "", now() - MAX_AGE - 60, now(), error="no answer")
    found = layer(here, old)
    assert names(found) == ["a"]
    said = f"cannot refresh the managed settings of {SHOWN}: no answer; as they were at 20"
    assert found.warnings[0].startswith(said)
    closed = layer(here, old, fail_closed=True)
    assert closed.policy is not None
    assert "not confirmed for 24 hours: no answer" in closed.policy.fault
    future = layer(here, Copy(URL, GOOD, "", now() + 2 * MAX_AGE), fail_closed=True)
    assert future.faulty
    assert not layer(here, Copy(URL, GOOD, "", now() - 3600, now(), error="no answer"), fail_closed=True).faulty


def test_the_only_answer_was_broken(here: Administrators) -> None:
    """Rules were meant to come, and nobody knows which: that closes."""
    found = layer(here, Copy(URL, "", "", 0, now(), fault="cannot use it"))
    assert found.policy is not None
    assert found.policy.fault == "cannot use it"


def test_a_copy_that_cannot_be_used(here: Administrators) -> None:
    """A damaged file, a newer one, and a FIFO in its place are as no copy, with the reason."""
    path = Path(here.places.fetched_settings)
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert "it is damaged" in layer(here, None).warnings[0]
    path.write_text('{"version": 9}')
    assert "it has version 9" in layer(here, None).warnings[0]
    assert layer(here, None, fail_closed=True).faulty
    path.unlink()
    # Somebody changed it: what is in it counts as what it is, broken.
    assert layer(here, Copy(URL, "{", "", now())).faulty

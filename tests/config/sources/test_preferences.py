"""Property lists that device management delivers."""

from __future__ import annotations

import datetime
import os
import plistlib
from pathlib import Path
from typing import Any

import pytest

from mcphub.config.layer import Layer
from mcphub.config.readfile import Reader
from mcphub.config.sources.preferences import MAX_VALUES, plain, preference_layers
from mcphub.config.sources.request import Request

from .administrators import Administrators, names

NAME = "preferences/dev.mcphub.plist"


def layers(here: Administrators) -> list[Layer]:
    return preference_layers(Request("", here.places, Reader()))


@pytest.mark.parametrize("form", [plistlib.FMT_XML, plistlib.FMT_BINARY])
def test_both_forms(tmp_path: Path, form: Any) -> None:
    """Servers and rules come out as from JSON, whichever way the list is written."""
    here = Administrators(tmp_path)
    value = {
        "managedMcpServers": {"a": {"type": "http", "url": "https://a.example/"}},
        "deniedMcpServers": [{"serverName": "x"}],
        "allowManagedMcpServersOnly": True,
    }
    path = here.write(NAME, plistlib.dumps(value, fmt=form))
    (layer,) = layers(here)
    assert names(layer) == ["a"]
    assert str(layer.entries[0].origin) == f"{path} managedMcpServers.a"
    assert layer.policy is not None
    assert dict(layer.policy.raw) == {
        "deniedMcpServers": [{"serverName": "x"}],
        "allowManagedMcpServersOnly": True,
    }


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def shared(levels: int) -> Any:
    """Few bytes that stand for 2 ** levels values: each list holds the one below it twice."""
    value: Any = ["x"]
    for _ in range(levels):
        value = [value, value]
    return value


BAD: dict[str, bytes] = {
    "empty": b"",
    "garbage": b"\x00\x01",
    "truncated": plistlib.dumps({"a": 1})[:-20],
    "truncated binary": plistlib.dumps({"a": 1}, fmt=plistlib.FMT_BINARY)[:-20],
    "a list": plistlib.dumps([1]),
    "a date": plistlib.dumps({"a": datetime.datetime(2026, 1, 1)}),
    "data": plistlib.dumps({"a": b"x"}),
    "too deep": plistlib.dumps({"a": nested(150)}),
    "entities": b'<?xml version="1.0"?><!DOCTYPE plist [<!ENTITY e "x">]><plist><string>&e;</string></plist>',
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_what_cannot_be_read_is_broken(tmp_path: Path, data: bytes) -> None:
    """C131: never a crash, never nothing: a layer that closes."""
    here = Administrators(tmp_path)
    path = here.write(NAME, data)
    (layer,) = layers(here)
    assert layer.faulty
    assert layer.policy is not None
    assert layer.policy.fault.startswith(f"cannot use {path}: ")


@pytest.mark.timeout(10)
def test_few_bytes_that_stand_for_very_many_values() -> None:
    """A list that names its parts again and again is refused after a bounded time."""
    data = plistlib.dumps(shared(60), fmt=plistlib.FMT_BINARY)
    assert len(data) < 2000
    with pytest.raises(ValueError, match="too much"):
        plain(data)
    assert MAX_VALUES < 2**60


def test_who_may_have_written_it(tmp_path: Path) -> None:
    """C131: owner and mode count here as for files."""
    here = Administrators(tmp_path)
    path = here.write(NAME, {"deniedMcpServers": []})
    os.chmod(path, 0o666)
    (layer,) = layers(here)
    assert layer.faulty
    assert "others can write to it" in layer.problems[0].message

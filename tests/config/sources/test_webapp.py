"""The connectors of a catalogue, from what it said last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcphub.config.layer import Layer
from mcphub.config.places import Places
from mcphub.config.readfile import Reader
from mcphub.config.settings import HubSettings, WebappSettings
from mcphub.config.sources.request import Request
from mcphub.config.sources.webapp import WebappSource, catalogue_fault, parse_catalogue
from mcphub.errors import ConfigError
from mcphub.spec import Scope
from mcphub.store.connectors import Said, connectors_file

URL = "https://me@catalogue.example/list?key=tok-1"
SHOWN = "https://***@catalogue.example/list?***"
WIKI = {"type": "http", "url": "https://wiki.example/mcp"}


def layers(state: Path, said: Said | None = None, catalogue: str = URL) -> list[Layer]:
    if said is not None:
        connectors_file(str(state / "webapp.json")).change(lambda _: said)
    settings = HubSettings(webapp=WebappSettings(catalogue))
    return WebappSource().load(Request("/w", Places("/h", "/c", str(state)), Reader(), settings))


def said(servers: dict[str, Any], **more: Any) -> Said:
    return Said(URL, json.dumps({"mcpServers": servers}), "e", 0, **more)


def test_without_a_catalogue(tmp_path: Path) -> None:
    """Nothing is looked at, whatever was kept of an earlier one."""
    assert layers(tmp_path, said({"wiki": WIKI}), "") == []


def test_what_it_said(tmp_path: Path) -> None:
    """Its entries, from the URL as it may be printed."""
    (layer,) = layers(tmp_path, said({"wiki": WIKI}))
    assert (layer.scope, layer.path, layer.warnings) == (Scope.WEBAPP, SHOWN, ())
    assert str(layer.entries[0].origin) == f"{SHOWN}:1 mcpServers.wiki"


def test_not_there_yet(tmp_path: Path) -> None:
    """Before the first answer, or when another catalogue was configured before, there are none, with a warning."""
    for before in (None, Said("https://old.example/", "{}")):
        (layer,) = layers(tmp_path, before)
        assert (layer.entries, layer.problems) == ((), ())
        assert layer.warnings == (f"the connectors of {SHOWN} are not there yet",)
    (layer,) = layers(tmp_path, Said(URL, error="h.example:443 refused the connection"))
    assert layer.warnings == (f"the connectors of {SHOWN} are not there yet: h.example:443 refused the connection",)


def test_stale_is_better_than_nothing(tmp_path: Path) -> None:
    """What it said last stays while it cannot be read, and the warning says since when and why."""
    (layer,) = layers(tmp_path, said({"wiki": WIKI}, error="h.example:443 answered with status 500"))
    assert [entry.name for entry in layer.entries] == ["wiki"]
    assert layer.warnings == (
        f"cannot refresh the connectors of {SHOWN}: h.example:443 answered with status 500; "
        "as they were at 1970-01-01 00:00 UTC they stay in force",
    )


@pytest.mark.parametrize(
    ("entry", "cause"),
    [
        ({"command": "sh"}, "a connector is a server at a URL and has no command"),
        ({**WIKI, "headersHelper": "x"}, "has no headersHelper"),
        ({**WIKI, "envFile": "/x"}, "has no envFile"),
        ({**WIKI, "a\x1b": 1}, "has no a\\x1b"),
        ({"type": "http", "url": "https://h.example/${HOME}"}, "a connector has no variables"),
        ({**WIKI, "headers": {"A": "${TOKEN}"}}, "a connector has no variables"),
        ({"type": "http", "url": "http://h.example/"}, "a connector is reached by https"),
        (5, "expected an object, found a number"),
    ],
)
def test_what_a_catalogue_may_not_bring(tmp_path: Path, entry: Any, cause: str) -> None:
    """Nothing that runs here, and nothing that takes the person's variables along; the others stay."""
    (layer,) = layers(tmp_path, said({"wiki": WIKI, "bad": entry}))
    assert [one.name for one in layer.entries] == ["wiki"]
    (problem,) = layer.problems
    assert problem.name == "bad" and problem.message.startswith("cannot use server bad: ")
    assert cause in problem.message


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"mcpServers":[]}', '{"mcpServers":{},"mcpServers":{}}'])
def test_no_such_document(text: str) -> None:
    """What is no catalogue is refused as a whole, so that it takes no good one's place."""
    with pytest.raises(ConfigError, match="cannot use https://c/"):
        parse_catalogue(text.encode(), "https://c/")


@pytest.mark.parametrize("text", ["{", '{"version":2}'])
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str) -> None:
    """The problem names it."""
    (tmp_path / "webapp.json").write_text(text)
    (layer,) = layers(tmp_path)
    assert layer.problems[0].message.startswith(f"cannot use {tmp_path}/webapp.json")
    (tmp_path / "webapp.json").unlink()
    (tmp_path / "webapp.json").mkdir()
    assert "a directory" in layers(tmp_path)[0].problems[0].message


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("https://c.example/x", ""),
        ("http://127.0.0.1:80/x", ""),
        ("http://c.example/x", "a catalogue is read over https"),
        ("file:///etc/passwd", "expected an address that begins with"),
        ("c.example", "expected an address that begins with"),
    ],
)
def test_where_a_catalogue_is_read_from(tmp_path: Path, url: str, fault: str) -> None:
    """Over https, or on this machine."""
    assert catalogue_fault(url).startswith(fault) and bool(catalogue_fault(url)) == bool(fault)
    problems = [problem.message for layer in layers(tmp_path, None, url) for problem in layer.problems]
    assert problems == ([f"cannot use /c/settings.toml: webapp.catalogue: {catalogue_fault(url)}"] if fault else [])

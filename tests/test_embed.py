"""Servers that are Python code: how one is named and found."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcphub.embed import embedded, entries
from mcphub.errors import ConfigError
from mcphub.transport.in_process_stream import StreamServer

MODULE = """
def handle(method, params): return {}
class Box:
    @staticmethod
    def inner(method, params): return {}
number = 1
"""
SDK = """
from mcp.server import MCPServer, Server
mcp = MCPServer("The weather!")
bare = Server("bare")
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "embed_fine.py").write_text(MODULE)
    (tmp_path / "embed_bad.py").write_text("raise RuntimeError('boom')")
    (tmp_path / "embed_exit.py").write_text("raise SystemExit(3)")
    (tmp_path / "embed_stop.py").write_text("raise KeyboardInterrupt")
    (tmp_path / "embed_sdk.py").write_text(SDK)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("embed_fine", "embed_fine"),
        ("embed_fine:handle", "handle"),
        ("embed_fine:Box.inner", "Box_inner"),
        ("clock=embed_fine:handle", "clock"),
    ],
)
def test_names(text: str, name: str) -> None:
    """By what is written in front, or else by the callable or the module; each is listed as added."""
    [(found, handler)] = embedded([text]).items()
    assert found == name
    assert not isinstance(handler, StreamServer) and handler("x", {}) == {}  # type: ignore[call-arg]
    [entry] = entries([found])
    assert (entry.name, entry.entry, entry.directory) == (name, {"type": "sdk", "name": name}, "")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("embed_sdk", "The_weather_"),
        ("embed_sdk:mcp", "The_weather_"),
        ("embed_sdk:bare", "bare"),
        ("w=embed_sdk:mcp", "w"),
    ],
)
def test_server_objects_of_the_sdk(text: str, name: str) -> None:
    """By what is written in front, or else by what they call themselves; a module alone gives the one it is about."""
    [(found, server)] = embedded([text]).items()
    assert found == name
    assert isinstance(server, StreamServer)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["=embed_fine"], "expected [NAME=]MODULE[:OBJECT]"),
        (["embed_fine:"], "expected [NAME=]MODULE[:OBJECT]"),
        ([""], "expected [NAME=]MODULE[:OBJECT]"),
        (["embed_fine:lost"], "embed_fine has no lost"),
        (["embed_fine:number"], "number is int, and no callable or server of the SDK"),
        (["embed_bad"], "cannot import embed_bad: RuntimeError: boom"),
        (["embed_exit"], "cannot import embed_exit: SystemExit: 3"),
        (["embed_stop"], "cannot import embed_stop: KeyboardInterrupt"),
        (["embed_none"], "cannot import embed_none: ModuleNotFoundError"),
        (["embed_fine:handle", "handle=embed_fine"], "there is another server called handle"),
        (["welcome=embed_fine"], "there is another server called welcome"),
    ],
)
def test_what_cannot_be_embedded(given: list[str], said: str) -> None:
    """The text is named, with the cause."""
    with pytest.raises(ConfigError) as caught:
        embedded(given, ["welcome"])
    assert "cannot embed " in str(caught.value)
    assert said in str(caught.value)

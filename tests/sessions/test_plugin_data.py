"""Directories for the data of plugins."""

from __future__ import annotations

from pathlib import Path

from mcphub.config.places import Places
from mcphub.sessions.plugin_data import make_plugin_data
from mcphub.spec import Desired, HttpSpec, Off, Origin, Scope, Secret, ServerSpec, StdioSpec, Want


def spec(name: str, data: str, scope: Scope = Scope.PLUGIN) -> ServerSpec:
    env = {"CLAUDE_PLUGIN_DATA": Secret(data)}
    return ServerSpec(name, Origin(scope, "/p/.mcp.json", name), StdioSpec("x", env=env))


def desired(*wishes: Want | Off) -> Desired:
    return {wish.spec.key(): wish for wish in wishes}


def test_only_for_what_runs(tmp_path: Path) -> None:
    """A plugin's program that shall run finds its directory, closed to others; nothing else is made."""
    places = Places("/h", "/c", "/s", str(tmp_path / "data"))
    there, elsewhere = places.plugin_data("a"), str(tmp_path / "elsewhere")
    remote = ServerSpec("r", Origin(Scope.PLUGIN, "/p", "r"), HttpSpec(Secret("https://h/")))
    wishes = desired(
        Want(spec("plugin:a:s", there)),
        Off(spec("plugin:b:s", places.plugin_data("b")), "policy", ""),
        Want(spec("user", places.plugin_data("c"), Scope.USER)),
        Want(spec("plugin:d:s", elsewhere)),
        Want(spec("plugin:e:s", places.plugin_data("../e"))),
        Want(remote),
    )
    for _ in range(2):
        make_plugin_data(wishes, places)
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == [
        "data", "data/plugin-data", "data/plugin-data/a",
    ]  # fmt: skip
    assert Path(there).stat().st_mode & 0o777 == 0o700


def test_where_it_cannot_be_made(tmp_path: Path) -> None:
    """The program is started all the same."""
    (tmp_path / "data").write_text("a file")
    places = Places("/h", "/c", "/s", str(tmp_path / "data"))
    make_plugin_data(desired(Want(spec("plugin:a:s", places.plugin_data("a")))), places)

"""The servers that plugins bring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcphub.config.layer import Layer
from mcphub.config.places import Places
from mcphub.config.readfile import Reader, changed
from mcphub.config.settings import HubSettings, PluginsSettings
from mcphub.config.sources.plugin import PluginSource
from mcphub.config.sources.request import Request
from mcphub.spec import Scope

SERVER = {"command": "${CLAUDE_PLUGIN_ROOT}/run"}


class Plugins:
    """A data directory with plugins in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "data/plugins"
        self.folder.mkdir(parents=True)
        self.reader = Reader()

    def write(self, plugin: str, file: str, document: Any) -> Path:
        path = self.folder / plugin / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    def layers(self, *directories: str) -> list[Layer]:
        self.reader = Reader()
        places = Places(str(self.root / "home"), "/c", str(self.root / "state"), str(self.root / "data"))
        settings = HubSettings(plugins=PluginsSettings(directories))
        return PluginSource().load(Request("/w", places, self.reader, settings))

    def names(self, *directories: str) -> list[str]:
        return [entry.name for layer in self.layers(*directories) for entry in layer.entries]

    def problems(self, *directories: str) -> list[str]:
        return [problem.message for layer in self.layers(*directories) for problem in layer.problems]


@pytest.fixture
def plugins(tmp_path: Path) -> Plugins:
    return Plugins(tmp_path)


def test_the_folders_of_the_data_directory(plugins: Plugins) -> None:
    """Each folder with `.mcp.json` is a plugin, by name; what is hidden, a file, or has no servers is none."""
    for plugin in ("b", "a", ".hidden"):
        plugins.write(plugin, ".mcp.json", {"mcpServers": {"s": SERVER}})
    plugins.write("c", "README.md", "nothing")
    (plugins.folder / "file").write_text("")
    first, second = plugins.layers()
    assert plugins.names() == ["plugin:a:s", "plugin:b:s"]
    assert (first.scope, first.directory) == (Scope.PLUGIN, str(plugins.folder / "a"))
    entry = first.entries[0]
    assert str(entry.origin) == f"{plugins.folder}/a/.mcp.json:1 mcpServers.s"
    assert entry.variables == {
        "CLAUDE_PLUGIN_ROOT": str(plugins.folder / "a"),
        "CLAUDE_PLUGIN_DATA": str(plugins.root / "data/plugin-data/a"),
    }


def test_without_any(plugins: Plugins) -> None:
    """No folder, no data directory: no layer and no problem."""
    plugins.folder.rmdir()
    assert plugins.layers() == []
    assert PluginSource().load(Request("", Places("/h", "/c", "/s"), Reader())) == []


def test_names_at_the_top(plugins: Plugins) -> None:
    """Plugins also write the servers without `mcpServers` around them; lines and places stay right."""
    plugins.write("a", ".mcp.json", '{\n "s": {"command": "x"},\n "t": {"type": "http", "url": "https://h/"}\n}')
    (layer,) = plugins.layers()
    assert [(entry.name, entry.origin.line) for entry in layer.entries] == [("plugin:a:s", 2), ("plugin:a:t", 3)]
    plugins.write("a", ".mcp.json", {"s": {"command": "x"}, "other": 3})
    assert plugins.names() == []


@pytest.mark.parametrize("file", [".claude-plugin/plugin.json", "plugin.json"])
def test_the_manifest(plugins: Plugins, file: str) -> None:
    """It names the plugin, and its servers come before those of `.mcp.json`."""
    plugins.write("folder", file, {"name": "My plugin/2", "mcpServers": {"s": SERVER}})
    plugins.write("folder", ".mcp.json", {"mcpServers": {"s": {"command": "later"}, "t": SERVER}})
    assert plugins.names() == ["plugin:My-plugin-2:s", "plugin:My-plugin-2:s", "plugin:My-plugin-2:t"]
    assert plugins.layers()[0].entries[0].raw == SERVER


@pytest.mark.parametrize("said", ["./servers.json", ["servers.json", "./.mcp.json"]])
def test_a_manifest_that_points_to_files(plugins: Plugins, said: Any) -> None:
    """Each file counts once."""
    plugins.write("a", "plugin.json", {"mcpServers": said})
    plugins.write("a", "servers.json", {"mcpServers": {"s": SERVER}})
    plugins.write("a", ".mcp.json", {"mcpServers": {"t": SERVER}})
    assert plugins.names() == ["plugin:a:s", "plugin:a:t"]


@pytest.mark.parametrize(
    "said", ["../other.json", "/etc/passwd", "x/../../other.json", "link.json", "./", ["a", 5], 7, "a\0b"]
)
def test_a_manifest_that_points_elsewhere(plugins: Plugins, said: Any) -> None:
    """A plugin's servers are in the plugin: what leads out of it is a problem that names the manifest."""
    (plugins.folder / "other.json").write_text(json.dumps({"mcpServers": {"s": SERVER}}))
    plugins.write("a", "plugin.json", {"mcpServers": said})
    (plugins.folder / "a/link.json").symlink_to(plugins.folder / "other.json")
    assert plugins.names() == []
    (problem,) = plugins.problems()
    assert problem.startswith(f"cannot use {plugins.folder}/a/plugin.json:1 mcpServers: ")


def test_a_manifest_that_names_what_is_not_there(plugins: Plugins) -> None:
    """It is told with the place, and takes nothing else down; the file is used when it comes."""
    plugins.write("a", "plugin.json", {"mcpServers": ["./servers.json", "./.mcp.json"]})
    plugins.write("a", ".mcp.json", {"mcpServers": {"t": SERVER}})
    assert plugins.names() == ["plugin:a:t"]
    (problem,) = plugins.problems()
    folder = plugins.folder / "a"
    assert problem == (
        f"cannot use {folder}/plugin.json:1 mcpServers: it names {folder}/servers.json, and there is no such file"
    )
    plugins.write("a", "servers.json", {"mcpServers": {"s": SERVER}})
    assert (plugins.names(), plugins.problems()) == (["plugin:a:s", "plugin:a:t"], [])


@pytest.mark.parametrize("file", [".mcp.json", "plugin.json", ".claude-plugin/plugin.json"])
def test_a_link_out_of_the_plugin(plugins: Plugins, file: str) -> None:
    """It is not followed, as no path out of the plugin is; a link to a file within is, and so is one to the plugin."""
    outside = plugins.folder.parent / "other.json"
    outside.write_text(json.dumps({"mcpServers": {"s": SERVER}}))
    path = plugins.write("a", file, "")
    path.unlink()
    path.symlink_to(outside)
    assert plugins.names() == []
    assert plugins.problems() == [f"cannot use {path}: it is a link that leads out of the plugin"]
    assert not changed(tuple(stamp for stamp in plugins.reader.stamps if stamp.settled))
    path.unlink()
    path.symlink_to(plugins.write("a", "real.json", {"mcpServers": {"s": SERVER}}))
    assert plugins.names() == ["plugin:a:s"]
    (plugins.folder.parent / "linked").symlink_to(plugins.folder / "a")
    assert plugins.names(str(plugins.folder.parent / "linked")) == ["plugin:linked:s"]


def test_chosen_directories(plugins: Plugins) -> None:
    """Those alone count, in their order; `~/` is the home directory."""
    plugins.write("default", ".mcp.json", {"mcpServers": {"s": SERVER}})
    for where in ("home/mine", "other/one"):
        (plugins.root / where).mkdir(parents=True)
        (plugins.root / where / ".mcp.json").write_text(json.dumps({"mcpServers": {"s": SERVER}}))
    assert plugins.names(f"{plugins.root}/other/one/", "~/mine") == ["plugin:one:s", "plugin:mine:s"]
    assert plugins.problems("relative", "~other/x", f"{plugins.root}/gone") == [
        "cannot use the plugin relative: [plugins] directories takes absolute paths, or such as begin with ~/",
        "cannot use the plugin ~other/x: [plugins] directories takes absolute paths, or such as begin with ~/",
        f"cannot use the plugin {plugins.root}/gone: there is no such directory",
    ]


def test_two_of_one_name(plugins: Plugins) -> None:
    """The first counts, the other is named with it."""
    plugins.write("a", "plugin.json", {"name": "same", "mcpServers": {"s": SERVER}})
    plugins.write("b", "plugin.json", {"name": "same", "mcpServers": {"t": SERVER}})
    assert plugins.names() == ["plugin:same:s"]
    assert plugins.problems() == [
        f"cannot use the plugin {plugins.folder}/b: {plugins.folder}/a has the same name, same, and comes first"
    ]


def test_what_is_wrong_with_one(plugins: Plugins) -> None:
    """C005: a broken file or entry of a plugin is shown by its name and takes nothing else down."""
    plugins.write("a", ".mcp.json", '{"mcpServers": ')
    plugins.write("b", ".mcp.json", {"mcpServers": {"ok": SERVER, "bad": 3, "b d": SERVER}})
    plugins.write("c", "plugin.json", [])
    assert plugins.names() == ["plugin:b:ok"]
    found = [problem for layer in plugins.layers() for problem in layer.problems]
    assert [problem.name for problem in found] == ["", "plugin:b:bad", 'plugin:b:"b d"', ""]
    assert found[0].message.startswith(f"cannot use {plugins.folder}/a/.mcp.json:1:16: ")


def test_a_plugin_that_comes_later_is_seen(plugins: Plugins) -> None:
    """The folder was looked at, so another one in it makes what was loaded stale."""
    plugins.layers()
    paths = {stamp.path: stamp for stamp in plugins.reader.stamps}
    assert str(plugins.folder) in paths
    plugins.write("a", ".mcp.json", {"mcpServers": {"s": SERVER}})
    assert changed((paths[str(plugins.folder)],))

"""Managed settings: which documents there are, in which order, and what is said about files that are not read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mcphub.config.layer import Layer
from mcphub.config.load import load
from mcphub.config.readfile import Reader
from mcphub.config.sources.managed import ManagedSource, file_layers
from mcphub.config.sources.request import Request
from mcphub.desired import desired_state
from mcphub.spec import Broken, Off, StdioSpec, Want
from mcphub.store.fetched_settings import Copy, fetched_settings_file
from tests.tables import Row, label, rows

from .administrators import Administrators, names

URL = "https://fleet.example/settings"


@pytest.fixture
def here(tmp_path: Path) -> Administrators:
    return Administrators(tmp_path)


def servers(*of: str) -> dict[str, object]:
    return {"managedMcpServers": {name: {"command": name} for name in of}}


def test_the_order_of_documents(here: Administrators) -> None:
    """Fetched before the preferences of the device, of the user, then the file, then the drop-ins by their names."""
    here.write("managed-settings.d/20-z.json", servers("z"))
    here.write("managed-settings.d/10-y.json", servers("y"))
    here.write("managed-settings.json", {**servers("file"), "remoteSettings": {"url": URL}})
    here.write("preferences/dev.mcphub.plist", servers("device"))
    here.write("preferences/ada/dev.mcphub.plist", servers("user"))
    here.write("preferences/bob/dev.mcphub.plist", servers("bob"))
    text = '{"managedMcpServers":{"fetched":{"type":"http","url":"https://f.example/"}}}'
    fetched_settings_file(here.places.fetched_settings).change(lambda _: Copy(URL, text))
    layers = here.load(ManagedSource())
    assert [names(layer) for layer in layers] == [["fetched"], ["device"], ["user"], ["file"], ["y"], ["z"]]
    assert all(layer.policy is not None for layer in layers)


def test_nothing_there(here: Administrators) -> None:
    """No directory, an empty one, and one with an enterprise's file alone: no layers."""
    assert here.load(ManagedSource()) == []
    here.write("managed-mcp.json", {"mcpServers": {}})
    assert here.load(ManagedSource()) == []


def closed(layers: list[Layer]) -> list[str]:
    return [layer.policy.fault for layer in layers if layer.policy is not None and layer.policy.fault]


def test_each_file_is_judged_by_itself(here: Administrators) -> None:
    """C131: one drop-in that others can write or that is a link is broken, in its place; the others are read."""
    here.write("managed-settings.json", servers("a"))
    bad = here.write("managed-settings.d/10.json", servers("b"))
    bad.chmod(0o664)
    here.write("managed-settings.d/20.json", servers("c"))
    (here.system / "managed-settings.d" / "30.json").symlink_to(bad)
    layers = file_layers_of(here)
    assert [names(layer) for layer in layers] == [["a"], [], ["c"], []]
    first, second = closed(layers)
    assert first.startswith(f"cannot trust {bad}: others can write to it")
    assert "30.json: it is a symbolic link" in second


@pytest.mark.parametrize("which", ["managed-settings.d", "."])
def test_a_directory_that_others_can_write_is_broken(here: Administrators, which: str) -> None:
    """C131: what stood in it may be gone, so it closes, whatever is in it now; and nothing in it is read."""
    here.write("managed-settings.json", servers("a"))
    here.write("managed-settings.d/10.json", servers("b"))
    (here.system / which).chmod(0o777)
    (layer,) = file_layers_of(here)
    assert names(layer) == []
    (fault,) = closed([layer])
    assert "others can write to" in fault
    for one in here.system.iterdir():
        shutil.rmtree(one) if one.is_dir() else one.unlink()
    assert bool(closed(file_layers_of(here))) is (which == ".")


def test_a_file_in_the_place_of_the_drop_ins(here: Administrators) -> None:
    """It is no directory without files: it closes, and says so."""
    here.write("managed-settings.d", "{}")
    (fault,) = closed(file_layers_of(here))
    assert "managed-settings.d is a regular file, not a real directory" in fault


def test_names_that_are_nearly_right(here: Administrators) -> None:
    """A file that nobody reads is named with the name that it was meant to have; others are nobody's business."""
    nearly = ("managed-setting.json", "Managed-Settings.json", "managed_mcp.json")
    for name in (*nearly, "README", "notes.json", ".x.json"):
        here.write(name, "{")
    for name in ("a.json.bak", "b.JSON", "c.json", ".d.json.swp"):
        here.write(f"managed-settings.d/{name}", "{}")
    layers = file_layers_of(here)
    assert closed(layers) == []
    directory = here.system
    assert sorted(layers[-1].warnings) == [
        f"{directory}/Managed-Settings.json: not read; did you mean managed-settings.json?",
        f"{directory}/managed-setting.json: not read; did you mean managed-settings.json?",
        f"{directory}/managed-settings.d/a.json.bak: not read, since its name does not end in .json",
        f"{directory}/managed-settings.d/b.JSON: not read, since its name does not end in .json",
        f"{directory}/managed_mcp.json: not read; did you mean managed-mcp.json?",
    ]


def file_layers_of(here: Administrators) -> list[Layer]:
    return file_layers(Request("", here.places, Reader()))


# -- the table


def written(name: str, text: str) -> Any:
    """What a row says of a file: the servers in it as entries; what is no JSON is written as it stands."""
    try:
        content = json.loads(text)
    except ValueError:
        return text.replace("\\n", "\n")
    for key in ("mcpServers", "managedMcpServers"):
        servers = content.get(key, {})
        content |= {key: {name: _entry(value) for name, value in servers.items()}} if servers else {}
    return content


def _entry(value: Any) -> Any:
    if isinstance(value, str):
        return {"command": value} if value else {}
    return value


def put(here: Administrators, file: str) -> None:
    name, _, content = file.partition(" ")
    word, _, rest = content.partition(" ")
    how, content = (word, rest) if word in ("OPEN", "LINK") else ("", content)
    if name == "FETCHED":
        value = written(name, content)
        text = value if isinstance(value, str) else json.dumps(value)
        url = "https://f.example/"
        copy = Copy(url, text) if text.endswith("}") else Copy(url, fault="cannot use")
        fetched_settings_file(here.places.fetched_settings).change(lambda _: copy)
        return
    path = here.write(name, written(name, content))
    if how == "OPEN":
        path.chmod(0o666)
    elif how == "LINK":
        target = path.rename(here.root / "elsewhere")
        path.symlink_to(target)


def outcomes(here: Administrators) -> dict[str, str]:
    resolved = load("", {}, here.places).resolved
    wishes = {key.name: wish for key, wish in desired_state({"": resolved}, {}).items()}
    found = {}
    for name, one in resolved.servers.items():
        match wishes[name]:
            case Want():
                state = "runs"
            case Off(because=because):
                state = because
            case Broken():
                state = "wrong"
        found[name] = f"{state} {one.origin.scope}"
        if isinstance(wish := wishes[name], Want):
            transport = wish.spec.transport
            command = transport.command if isinstance(transport, StdioSpec) else str(getattr(transport, "url", ""))
            found[f"{name}={command}"] = found[name]
    return found


@pytest.mark.parametrize("row", rows("resolve", "administrators"), ids=label)
def test_table(here: Administrators, row: Row) -> None:
    """C124, C131, C123: from the files that a row has to what runs, what is off and by what."""
    here.write("config/mcp.json", {"mcpServers": {"u": {"command": "u"}, "v": {"command": "v"}}})
    _, files, servers = row.columns
    for file in files.split(" & "):
        put(here, file)
    expected = {}
    for server in servers.replace("+", "u runs user, v runs user").split(", "):
        name, _, state = server.partition(" ")
        expected[name] = state
    found = outcomes(here)
    assert {name: found.get(name) for name in expected} == expected
    assert {name for name in found if "=" not in name} == {name.partition("=")[0] for name in expected}


def test_whoever_vouches_for_the_url_must_be_trusted(here: Administrators) -> None:
    """C131: a `caFile` that others could have written, or that is not there, closes like any other broken key, whatever
    `failClosed` says; where it is mended the document is whole."""
    authority = here.write("ca.pem", {})
    here.write("managed-settings.json", {**servers("a"), "remoteSettings": {"url": URL, "caFile": str(authority)}})
    assert closed(here.load(ManagedSource())) == []
    authority.chmod(0o666)
    layers = here.load(ManagedSource())
    (fault,) = closed(layers)
    assert "managed-settings.json" in fault
    assert f"remoteSettings.caFile: cannot trust {authority}: others can write to it" in fault
    assert [problem.message for layer in layers for problem in layer.problems] == [fault]
    assert ["a"] in [names(layer) for layer in layers]
    authority.unlink()
    (fault,) = closed(here.load(ManagedSource()))
    assert f"remoteSettings.caFile: there is no {authority}" in fault


def test_a_url_that_was_never_fetched_had_no_good_content(here: Administrators) -> None:
    """C131: `failClosed` closes, again and again, and nobody claims that something stays in force."""
    here.write("managed-settings.json", {"remoteSettings": {"url": URL, "failClosed": True}})
    first = load("", {}, here.places)
    second = load("", {}, here.places, previous=first)
    for one in (first, second):
        assert [text for text in one.warnings() if "stays in force" in text] == []
        assert any("not fetched yet" in text for text in one.problems())

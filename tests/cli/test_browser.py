"""Opening a page in a person's browser, with programs that note what they were given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcphub.cli.browser import BrowserUnavailable, checked, open_browser

URL = "https://as.example/authorize?a=b&c=%20d"


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "-oProxyCommand=x",
        "ftp://a.example/",
        "https:///x",
        "https://u:p@a.example/",
        "https://a.example:x/",
        "https://a.example/\"&calc",
        "https://a.example/$(touch${IFS}x) y",
        "https://a.example/\x1b[2J",
        "https://a.example/é",
        "https://a.example/\\x",
        "https://[::1/",
        "",
    ],
)
def test_what_no_browser_gets(url: str) -> None:
    """C114, S7: only http and https, and no character that a shell or another program could make something of."""
    with pytest.raises(BrowserUnavailable):
        checked(url)
    with pytest.raises(BrowserUnavailable):
        open_browser(url, {"BROWSER": "/bin/true"})


def test_what_a_browser_gets() -> None:
    """The address as it was, built anew."""
    assert checked(URL) == URL
    assert checked("http://127.0.0.1:9/a?b") == "http://127.0.0.1:9/a?b"


def program(folder: Path, name: str, status: int = 0) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{folder}/{name}.seen"\nexit {status}\n')
    path.chmod(0o755)
    return path


def seen(path: Path) -> list[str]:
    note = path.with_name(path.name + ".seen")
    return note.read_text().splitlines() if note.exists() else []


def test_the_browser_that_a_person_chose(tmp_path: Path) -> None:
    """$BROWSER: programs in order, the first that works; words of a command, `%s` for the address; no shell."""
    wrong, right = program(tmp_path, "wrong", 1), program(tmp_path, "right")
    odd = "https://a.example/$(touch$IFS.x);x"
    open_browser(odd, {"BROWSER": f"{tmp_path}/none:{wrong}:{right} --new '%s' %s-x &"})
    assert seen(wrong) == [odd]
    assert seen(right) == ["--new", odd, f"{odd}-x"]
    assert not (tmp_path / ".x").exists()
    with pytest.raises(BrowserUnavailable, match="there is none"):
        open_browser(URL, {"BROWSER": f"'{wrong}:{wrong}"})


@pytest.mark.parametrize(("platform", "name"), [("linux", "xdg-open"), ("darwin", "open"), ("freebsd14", "xdg-open")])
def test_the_system_s_own(tmp_path: Path, platform: str, name: str) -> None:
    """Where there is a display; a Mac has one."""
    opener = program(tmp_path, name)
    environ = {"PATH": f"{tmp_path}:/bin:/usr/bin"}
    if platform != "darwin":
        with pytest.raises(BrowserUnavailable):
            open_browser(URL, environ, platform)
    open_browser(URL, {**environ, "WAYLAND_DISPLAY": "w"}, platform)
    assert seen(opener) == [URL]


def test_a_browser_that_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not end is a browser that runs: it is waited for no longer."""
    monkeypatch.setattr("mcphub.cli.browser.SOON", 0.05)
    path = tmp_path / "stays"
    path.write_text("#!/bin/sh\nread -r line < \"${1#https://}\"\n")
    path.chmod(0o755)
    os.mkfifo(tmp_path / "fifo")
    open_browser(f"https://{tmp_path}/fifo".replace("///", "//"), {"BROWSER": f"{path} {tmp_path}/fifo"})
    with open(tmp_path / "fifo", "w"):
        pass  # it ends

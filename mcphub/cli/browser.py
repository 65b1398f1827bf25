"""Owns opening a page in the browser of the person at this terminal.

It must not take anything but http and https, nor use a shell: what is opened came from another machine (CVE-2025-6514).
Whatever a browser prints goes nowhere.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit, urlunsplit

from mcphub.errors import McphubError

#: Seconds in which a program that opens browsers says that it could not.
SOON = 3.0
#: Programs that open the default browser, by what the system is.
_OPENERS = {"darwin": ("open",), "linux": ("xdg-open", "gio open", "sensible-browser", "x-www-browser")}
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


class BrowserUnavailable(McphubError):
    """No browser could be opened."""


def checked(url: str) -> str:
    """The page as it may be given to a browser, built anew from its parts. Raises BrowserUnavailable."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise BrowserUnavailable("cannot open the page: its address is no URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise BrowserUnavailable("cannot open the page: its address is none of the web")
    again = urlunsplit(parts)
    if not again.isascii() or any(letter in again for letter in "\\\"'<>^`{|} \t\r\n") or not again.isprintable():
        raise BrowserUnavailable("cannot open the page: its address has characters that no URL has")
    return again


def open_browser(url: str, environ: Mapping[str, str], platform: str = sys.platform) -> None:
    """Open the page, and return once a browser has it or is on its way. Raises BrowserUnavailable."""
    page = checked(url)
    for words in _programs(environ, platform):
        program = shutil.which(words[0], path=environ.get("PATH"))
        if program is None:
            continue
        given = [word.replace("%s", page) for word in words[1:]]
        if given == words[1:]:
            given.append(page)
        if _started([program, *given]):
            return
    raise BrowserUnavailable("cannot open a browser: there is none, or no display")


def _programs(environ: Mapping[str, str], platform: str) -> Iterator[list[str]]:
    """What opens a page, each as words: those of $BROWSER, else the system's own where it has a display."""
    chosen = environ.get("BROWSER", "")
    if chosen:
        for text in chosen.split(os.pathsep):
            try:
                words = shlex.split(text)
            except ValueError:
                continue
            if words and words[-1] == "&":
                words.pop()
            if words:
                yield words
        return
    if platform == "darwin" or any(environ.get(name) for name in _DISPLAYS):
        for text in _OPENERS.get(platform, _OPENERS["linux"]):
            yield text.split()


def _started(words: list[str]) -> bool:
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    try:
        return process.wait(SOON) == 0
    except subprocess.TimeoutExpired:
        process.returncode = 0  # it is the browser itself, and runs on
        return True

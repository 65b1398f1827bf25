"""From a bare environment: programs that only a login shell finds, and what is said of those that nobody finds."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from tests.fakes.hub import STDIO_SERVER, Place, eventually, row, running

pytestmark = pytest.mark.anyio

#: As systemd and launchd start a service, or `env -i`.
BARE = {"PATH": "/usr/bin:/bin", "SHELL": "/bin/bash"}


def tree(place: Place) -> Mapping[str, Any]:
    """An interpreter and a script for it, where a version manager puts them, and a profile that finds them."""
    versions = place.root / ".nvm" / "versions" / "v22" / "bin"
    versions.mkdir(parents=True)
    interpreter = versions / "nvmnode"
    interpreter.write_text(f'#!/bin/sh\nexec {sys.executable} -I "$@"\n')
    script = versions / "nvmx"
    script.write_text(f"#!/usr/bin/env nvmnode\n{STDIO_SERVER.read_text('utf-8')}")
    for file in (interpreter, script):
        file.chmod(0o755)
    (place.root / ".bash_profile").write_text(
        'echo "Last login: never"; . "$HOME/.bashrc"\n'
    )
    (place.root / ".bashrc").write_text(
        'case $- in *i*) ;; *) return;; esac\nPATH="$HOME/.nvm/versions/v22/bin:$PATH"\n'
    )
    log = {name: json.dumps({"log": str(place.log(name))}) for name in ("bare", "absolute", "bound")}
    return {
        # the interpreter, and a script whose first line needs it, by name and by path
        "bare": {"command": "nvmx", "args": [log["bare"]]},
        "absolute": {"command": str(script), "args": [log["absolute"]]},
        "interpreter": {"command": "nvmnode", "args": [str(STDIO_SERVER), "{}"]},
        "nowhere": {"command": "no-such-program"},
        "unset": {"command": "nvmx", "args": ["${NOBODY_GAVE_THIS}"]},
    }


async def test_a_program_that_only_the_login_shell_finds(place: Place) -> None:
    """C027: at the first start it is found once the shell was asked, at the next one at once; what is nowhere says
    where it was looked for, and what lacks a variable says which."""
    servers = tree(place)
    found = ("bare", "absolute", "interpreter")
    async with running(servers, place=place, env=BARE) as hub:
        report = await hub.until_state(*found, timeout=30)
        nowhere = await hub.until(
            lambda r: row(r, "nowhere")["state"] == "failed" and ".nvm" in row(r, "nowhere")["reason"], timeout=20
        )
        assert "mcphub env path --refresh" in row(nowhere, "nowhere")["reason"]
        assert "NOBODY_GAVE_THIS" in row(report, "unset")["reason"]
        assert row(report, "unset")["state"] == "failed"
    async with running(servers, place=place, env=BARE) as hub:
        report = await hub.until_state(*found)
        assert [row(report, name)["last_error"] for name in found] == [None] * 3


async def test_a_profile_that_hangs_costs_nothing(place: Place) -> None:
    """C027: the daemon starts and serves while the shell is asked, and stops in time though it does not answer."""
    (place.root / ".bash_profile").write_text("echo $$ > $HOME/asked; while :; do sleep 1; done\n")
    server = {"command": sys.executable, "args": ["-I", str(STDIO_SERVER), "{}"]}
    async with running({"steady": server}, place=place, env=BARE) as hub:
        await hub.until_state("steady")
        await eventually((place.root / "asked").exists, timeout=20)
        assert await hub.stop() == 0

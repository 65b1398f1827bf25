"""Values that must be seen nowhere, in what a daemon tells and logs of servers that fail and servers that talk."""

from __future__ import annotations

import json
import sys

import pytest

from tests.fakes.hub import Fake, eventually, running

pytestmark = pytest.mark.anyio

#: Prints its arguments to stderr and ends.
TELLS = "import sys; print('argv', sys.argv[1:], *sys.argv[1:], file=sys.stderr); sys.exit(3)"


async def test_the_value_of_a_variable_is_printed_nowhere() -> None:
    """C025: of a command, directory, argument or file that holds a variable, status, logs and log have the reference;
    a secret argument is masked also where the server itself prints it."""
    python = sys.executable
    servers = {
        "command": {"command": "/nonexistent/${KK}"},
        "searched": {"command": "${KK}"},
        "cwd": {"command": "cat", "cwd": "/nonexistent/${KK}"},
        "relative": {"command": "./x", "cwd": "/nonexistent/${KK}"},
        "file": {"command": "cat", "envFile": "/nonexistent/${KK}"},
        "certificate": {"type": "http", "url": "https://127.0.0.1:9/", "tls": {"ca": "/nonexistent/${KK}.pem"}},
        "helper": {"type": "http", "url": "http://127.0.0.1:9/", "headersHelper": "/nonexistent/${KK} x"},
        "shell": {"command": "sh", "args": ["-c", "echo ${KK} >&2; exit 3"]},
        "tells": {"command": python, "args": ["-c", TELLS, "--api-key=tok-44444", "--k=${KK}", "x/${KK}"]},
        "fine": Fake(),
    }
    settings = "[connect]\nattempts = 1\n"
    async with running(servers, settings=settings, env={"KK": "tok-55555"}) as hub:
        failed = ("command", "searched", "cwd", "relative", "file", "certificate", "helper", "shell", "tells")
        await hub.until_state(*failed, state="failed")
        report = json.dumps(await hub.status())
        assert "cannot start command '/nonexistent/${KK}': /nonexistent/${KK} does not exist" in report
        assert "cannot start command '/nonexistent/${KK}': /nonexistent/${KK} does not exist; correct" in report
        assert "cannot enter working directory '/nonexistent/${KK}'" in report
        assert "argv ['--api-key=***', '--k=${KK}', 'x/${KK}']" in report
        code, logs = await hub.control("GET", "/v1/logs/tells")
        assert code == 200 and logs["lines"]
        await eventually(lambda: "tells: the server exited with code 3" in hub.stderr(), timeout=10)
        for text in (report, json.dumps(logs), hub.stderr()):
            assert "tok-" not in text

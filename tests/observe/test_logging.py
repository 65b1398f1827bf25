"""The daemon's log."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
import subprocess
import sys
import threading
import time
import warnings

import pytest

from mcphub.observe.logging import configure

log = logging.getLogger("mcphub.test")


def test_records_of_all_loggers_come_as_lines() -> None:
    """JSON where nobody watches, from the asked level on; closing gives the root logger back as it was."""
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    stream = io.StringIO()
    with configure("info", stream) as opened:
        log.debug("not this")
        log.info("this", extra={"server": "time"})
        logging.getLogger("uvicorn.error").warning("and this")
        opened.hide("tok-1234")
        log.error("with tok-1234")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("beware", stacklevel=1)
    opened.close()
    log.error("after the end")
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["message"] for line in found[:3]] == ["this", "and this", "with ***"]
    assert (found[0]["server"], found[0]["level"]) == ("time", "info")
    assert "beware" in found[3]["message"]
    assert len(found) == 4
    assert (root.level, list(root.handlers)) == before
    assert "log" not in [thread.name for thread in threading.enumerate()]


def test_the_form_can_be_asked_for() -> None:
    """Text where it is wanted; on a terminal it is the default."""
    stream = io.StringIO()
    with configure(logging.INFO, stream, "text"):
        log.info("hello")
    assert stream.getvalue().endswith("INFO    mcphub.test: hello\n")
    main, sub = pty.openpty()
    with os.fdopen(main, "rb", buffering=0) as reader, os.fdopen(sub, "w") as terminal:
        with configure("info", terminal):
            log.info("hello\x1b[2J")
        assert reader.read(1000).endswith(b"INFO    mcphub.test: hello\\x1b[2J\r\n")


def test_a_level_that_there_is_none_of() -> None:
    """The message lists those there are."""
    with pytest.raises(ValueError, match="debug, info, warning and error"):
        configure("loud")


def test_a_stderr_that_nobody_reads_stops_nobody() -> None:
    """Lines beyond the backlog are dropped and counted; neither logging nor closing waits long."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        opened = configure("info", stream)
        begun = time.monotonic()
        for number in range(15_000):
            log.info("line %d %s", number, "x" * 50)
        assert time.monotonic() - begun < 10
        begun = time.monotonic()
        opened.close()
        assert time.monotonic() - begun < 5
        os.close(reader)  # the thread finds nobody to write to, and ends
        for thread in threading.enumerate():
            if thread.name == "log":
                thread.join(5)


def test_dropped_lines_are_counted() -> None:
    """When the reader comes back, the log says what it missed."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as source, os.fdopen(writer, "w") as stream, configure("info", stream):
        for number in range(15_000):
            log.info("line %d", number)
        said = []
        for line in source:
            said.append(json.loads(line)["message"])
            if "dropped" in said[-1]:
                break
            if len(said) > 100:
                log.info("again")
    dropped = int(said[-1].split()[0])
    assert 0 < dropped < 5_000


def test_the_program_ends_though_stderr_is_full() -> None:
    """The writing thread holds no lock that the interpreter needs at its end."""
    code = (
        "import logging; from mcphub.observe.logging import configure\n"
        "with configure('info'):\n"
        "    for n in range(2000): logging.info('x' * 100)\n"
        "print('end', flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"end\n"
        assert process.wait(10) == 0

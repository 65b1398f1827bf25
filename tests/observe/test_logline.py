"""One record, one line."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from mcphub.observe.logline import LONGEST, fields, json_line, text_line
from mcphub.observe.redact import Redactor
from mcphub.spec import Secret

NOTHING = Redactor()


def record(message: object = "hello", *args: object, **more: Any) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "mcphub.x", "levelno": 20, "levelname": "INFO", "msg": message, "args": args})
    made.created = 1785585600.25
    made.__dict__.update(more)
    return made


def test_text_for_people() -> None:
    """Time in UTC, level, logger, message, then what `extra` held."""
    line = text_line(fields(record("got %d", 3, server="time", attempt=2), NOTHING))
    assert line == "2026-08-01T12:00:00.250Z INFO    mcphub.x: got 3 server=time attempt=2\n"


def test_json_for_programs() -> None:
    """The same as an object; numbers stay numbers."""
    line = json_line(fields(record("got %d", 3, server="time", attempt=2), NOTHING))
    assert json.loads(line) == {
        "time": "2026-08-01T12:00:00.250Z",
        "level": "info",
        "logger": "mcphub.x",
        "message": "got 3",
        "server": "time",
        "attempt": 2,
    }


def test_a_record_is_one_line_whatever_it_says() -> None:
    """A server's text can forge neither a second record nor steer the terminal; a traceback is a field."""
    try:
        raise ValueError("a\nb")
    except ValueError:
        found = fields(record("x\nERROR fake\x1b[2J", server="\u202e", exc_info=sys.exc_info()), NOTHING)
    for line in (text_line(found), json_line(found)):
        assert line.count("\n") == 1
        assert "\x1b" not in line
        assert "\u202e" not in line
        assert "Traceback" in line


def test_secrets_are_masked_in_every_field() -> None:
    """C025: message, arguments, extra and traceback; a Secret's repr shows nothing even unregistered."""
    secrets = Redactor()
    secrets.hide("tok-1234")
    try:
        raise ValueError("tok-1234")
    except ValueError:
        made = record("%s %r", "tok-1234", Secret("other"), url="h?t=tok-1234", exc_info=sys.exc_info())
        found = fields(made, secrets)
    assert "tok-1234" not in text_line(found) + json_line(found)
    assert "other" not in text_line(found)


def test_a_wrong_call_costs_neither_the_line_nor_the_caller() -> None:
    """Logging never raises."""

    class Broken:
        def __str__(self) -> str:
            raise RuntimeError

    found = fields(record("%d", "x", thing=Broken()), NOTHING)
    assert found["message"] == "%d (cannot be formatted: TypeError)"
    assert found["thing"] == "<cannot be shown: RuntimeError>"


def test_a_field_is_bounded() -> None:
    """What a server made us say cannot fill a disk in one line."""
    found = fields(record("x" * (LONGEST + 5)), NOTHING)
    assert str(found["message"]).endswith("x... (5 more characters)")

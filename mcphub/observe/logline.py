"""Owns how one log record becomes one line: text for people, JSON for programs.

It must not know queues or streams. Pure but for asking the record for its message.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime

from mcphub.observe.escape import line
from mcphub.observe.redact import Redactor

#: Characters of one field; what a server made us say must not fill a disk in one line.
LONGEST = 16_384

Field = str | int | float | bool | None

_RESERVED = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "color_message"}


def fields(record: logging.LogRecord, secrets: Redactor) -> dict[str, Field]:
    """Time (UTC), level, logger, message, what `extra` held, the traceback as `exception`; masked and bounded."""
    time = datetime.fromtimestamp(record.created, UTC)
    found: dict[str, object] = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03}Z",
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": _message(record),
    }
    found.update((key, value) for key, value in record.__dict__.items() if key not in _RESERVED)
    if record.exc_info and record.exc_info[0] is not None:
        found["exception"] = "".join(traceback.format_exception(*record.exc_info)).rstrip()
    elif record.exc_text:
        found["exception"] = record.exc_text
    if record.stack_info:
        found["stack"] = record.stack_info
    return {key: _plain(value, secrets) for key, value in found.items()}


def text_line(found: dict[str, Field]) -> str:
    """`time LEVEL logger: message key=value`, with everything invisible escaped; a traceback is one field."""
    rest = [f" {key}={value}" for key, value in found.items() if key not in ("time", "level", "logger", "message")]
    head = f"{found['time']} {str(found['level']).upper():<7} {found['logger']}: {found['message']}"
    return line(head + "".join(rest)) + "\n"


def json_line(found: dict[str, Field]) -> str:
    """One JSON object, ASCII."""
    return json.dumps(found, separators=(",", ":")) + "\n"


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # a wrong call must not cost the line, nor raise where somebody only logged
        return f"{record.msg} (cannot be formatted: {type(error).__name__})"


def _plain(value: object, secrets: Redactor) -> Field:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    try:
        text = secrets.clean(str(value))
    except Exception as error:
        text = f"<cannot be shown: {type(error).__name__}>"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text) - LONGEST} more characters)"

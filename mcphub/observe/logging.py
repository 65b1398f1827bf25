"""Owns the daemon's log: one line a record on stderr, written by a thread so that a blocked stderr stops nobody.

It must not know who logs what, nor how a line looks. Modules use `logging.getLogger(__name__)`.
"""

from __future__ import annotations

import logging
import os
import queue
import select
import sys
import threading
from typing import IO, Literal

from mcphub.observe.logline import fields, json_line, text_line
from mcphub.observe.redact import Redactor

#: Lines that wait while stderr is not read; what comes on top is dropped and counted.
BACKLOG = 10_000
#: Seconds that closing waits for stderr to take what is queued.
FLUSH = 1.0

Form = Literal["auto", "text", "json"]


def configure(level: str | int = "info", stream: IO[str] | None = None, form: Form = "auto") -> Log:
    """Send every logger's records of at least `level` to `stream` (default stderr) until the Log is closed.

    `form` auto is text on a terminal and JSON elsewhere. Raises ValueError for a level that there is none of.
    """
    number = logging.getLevelNamesMapping().get(level.upper()) if isinstance(level, str) else level
    if number is None:
        raise ValueError(f"cannot log at level {level!r}: there are debug, info, warning and error")
    stream = sys.stderr if stream is None else stream
    text = form == "text" or (form == "auto" and stream is not None and stream.isatty())
    return Log(number, stream, text)


class Log:
    """The log while it is open. Close it, or use it as a context; records after that go nowhere."""

    def __init__(self, level: int, stream: IO[str] | None, text: bool) -> None:
        self._secrets = Redactor()
        self._handler = _Handler(self._secrets, text)
        work = (self._handler.lines, stream, _own_descriptor(stream))
        self._writer = threading.Thread(target=_write, args=work, name="log", daemon=True)
        self._writer.start()
        root = logging.getLogger()
        self._level_before = root.level
        root.addHandler(self._handler)
        root.setLevel(level)
        logging.captureWarnings(True)

    def hide(self, *values: str, owner: str = "") -> None:
        """Mask these values in every line from now on (values of fewer than four characters are not looked for); those
        of an owner until it has had others several times."""
        self._secrets.hide(*values, owner=owner)

    def close(self) -> None:
        """Write what is queued, for at most a second; twice is once."""
        root = logging.getLogger()
        if self._handler not in root.handlers:
            return
        logging.captureWarnings(False)
        root.removeHandler(self._handler)
        root.setLevel(self._level_before)
        try:
            self._handler.lines.put_nowait(None)
        except queue.Full:  # nobody reads: the oldest line makes room for the end
            self._handler.lines.get_nowait()
            self._handler.lines.put_nowait(None)
        self._writer.join(FLUSH)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Handler(logging.Handler):
    """Makes the line where the record is made, since its arguments may change, and queues it."""

    def __init__(self, secrets: Redactor, text: bool) -> None:
        super().__init__()
        self.lines: queue.Queue[bytes | None] = queue.Queue(BACKLOG)
        self._secrets = secrets
        self._line = text_line if text else json_line
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._dropped:
                count, lost = self._dropped, logging.makeLogRecord({"name": __name__, "levelno": logging.WARNING})
                lost.levelname, lost.created = "WARNING", record.created
                lost.msg = f"{count} lines of this log were dropped: nobody read it"
                self.lines.put_nowait(self._encoded(lost))
                self._dropped = 0
            self.lines.put_nowait(self._encoded(record))
        except queue.Full:
            self._dropped += 1

    def _encoded(self, record: logging.LogRecord) -> bytes:
        return self._line(fields(record, self._secrets)).encode("utf-8", "backslashreplace")


def _own_descriptor(stream: IO[str] | None) -> int | None:
    """A copy of the stream's descriptor: when a late line comes, the number of a closed one may be another file's."""
    try:
        return os.dup(stream.fileno()) if stream is not None else None
    except OSError:  # in memory
        return None


def _write(lines: queue.Queue[bytes | None], stream: IO[str] | None, descriptor: int | None) -> None:
    """Write until None comes. A stream with a descriptor is written past its buffer and the lock on that: a thread that
    hangs in it would keep the interpreter from ending."""
    while (data := lines.get()) is not None:
        try:
            if descriptor is not None:
                _write_all(descriptor, data)
            elif stream is not None:
                stream.write(data.decode("utf-8"))
        except (OSError, ValueError):  # the terminal is gone, or the file is full: there is nobody to tell
            pass
    if descriptor is not None:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:  # whoever shares the terminal made it non-blocking
            select.select([], [descriptor], [])

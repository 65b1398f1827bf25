"""Lines that a person pastes, on a real pipe."""

from __future__ import annotations

import os
import threading

from mcphub.cli.pasting import Pasting


def test_lines_come_as_they_are_pasted() -> None:
    """Each line, without blanks around it, and not the empty ones; the last one needs no line break."""
    came: list[str] = []
    all_of_them = threading.Event()

    def take(text: str) -> None:
        came.append(text)
        if len(came) == 3:
            all_of_them.set()

    out, into = os.pipe()
    pasting = Pasting(take, out)
    pasting.start()
    os.write(into, b"http://a/?x=1\r\n\n  \n http://b/")
    os.write(into, b"?y\nlast")
    os.close(into)
    assert all_of_them.wait(10)
    assert came == ["http://a/?x=1", "http://b/?y", "last"]
    pasting.stop()
    os.close(out)


def test_it_ends_though_nothing_comes() -> None:
    """Nobody waits for a person who pastes nothing; and no stdin at all is nothing."""
    out, into = os.pipe()
    pasting = Pasting(lambda text: None, out)
    pasting.start()
    pasting.stop()
    os.close(into)
    os.close(out)
    closed = Pasting(lambda text: None, out)
    closed.start()
    closed.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "pasted"]

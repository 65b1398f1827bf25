"""Where programs are looked for, from two PATHs."""

from __future__ import annotations

import pytest

from mcphub.config.search_path import MAX_PATH, between, merged, usable


@pytest.mark.parametrize(
    ("own", "login", "expected"),
    [
        # a service manager's: the terminal's order, a newer interpreter before the system's
        ("/usr/bin:/bin", "/h/.nvm/bin:/usr/bin:/bin", "/h/.nvm/bin:/usr/bin:/bin"),
        ("", "/h/.nvm/bin:/usr/bin", "/h/.nvm/bin:/usr/bin"),
        # somebody started it with a directory of their own
        ("/venv/bin:/usr/bin", "/h/.nvm/bin:/usr/bin:/bin", "/venv/bin:/usr/bin:/h/.nvm/bin:/bin"),
        # nothing is known
        ("/usr/bin:.:", "", "/usr/bin:.:"),
        # what is relative or empty never decides which program runs
        ("/usr/bin:.", "./node_modules/.bin::/usr/bin:/x", "/usr/bin:/x"),
    ],
)
def test_merged(own: str, login: str, expected: str) -> None:
    """C027: the login shell's directories are there, in the order of a terminal, unless the daemon has its own."""
    assert merged(own, login) == expected


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        ("/a:/b:/a", "/a:/b"),
        ("a:/b::~/c", "/b"),
        ("/a\n/b:/c", "/c"),
        ("/a\x1b[0m:/c", "/c"),
        ("", ""),
    ],
)
def test_usable(printed: str, kept: str) -> None:
    """Absolute directories alone are kept, each once, and nothing that a terminal would act on."""
    assert usable(printed) == kept


def test_a_path_without_end_is_cut() -> None:
    """More than could be given to a program is not kept."""
    assert len(usable(":".join(f"/{n:0100}" for n in range(1000)))) <= MAX_PATH


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (b"motd\nMM/usr/binMMbye", b"/usr/bin"),
        (b"MMMM", b""),
        (b"MM/usr", None),
        (b"nothing", None),
        (b"MM/aMM/bMM", b"/a"),
    ],
)
def test_between(output: bytes, found: bytes | None) -> None:
    """C027: what a profile prints around the answer does not become a part of it."""
    assert between(output, b"MM") == found

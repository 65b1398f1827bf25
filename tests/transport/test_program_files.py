"""Whether a program is another one than before."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mcphub.spec import Secret, StdioSpec
from mcphub.transport.program_files import stamps

SPEC = StdioSpec("tool", (Secret("main.py"), Secret("data.db"), Secret(""), Secret("--x"), Secret("sub")), cwd="")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("tool", "other/tool"):
        path = tmp_path / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    for name in ("main.py", "data.db"):
        (tmp_path / name).write_text("1")
    (tmp_path / "sub").mkdir()
    return tmp_path


def look(place: Path, *path: str) -> dict[str, object]:
    directories = ":".join(str(place / one) for one in path or ("bin",))
    return dict(stamps(SPEC, {"PATH": directories, "HOME": str(place)}))


def replace_by_one_of_the_same_size(place: Path) -> None:
    draft = place / "draft"
    draft.write_text("2")
    os.utime(draft, ns=(0, (place / "main.py").stat().st_mtime_ns))
    draft.replace(place / "main.py")


@pytest.mark.parametrize(
    ("change", "another"),
    [
        (lambda place: (place / "main.py").write_text("22"), True),
        (replace_by_one_of_the_same_size, True),
        (lambda place: (place / "main.py").unlink(), True),
        (lambda place: (place / "bin" / "tool").unlink(), True),
        (lambda place: (place / "bin" / "tool").chmod(0o644), True),
        (lambda place: (place / "data.db").write_text("22"), False),
        (lambda place: (place / "sub" / "x").write_text("22"), False),
        (lambda place: (place / "bin" / "else").write_text("22"), False),
    ],
)
def test_changes(place: Path, change: Callable[[Path], object], another: bool) -> None:
    """The command's file and scripts among the arguments count; data and what lies beside them do not."""
    before = look(place)
    assert set(before) == {str(place / "bin" / "tool"), str(place / "main.py")}
    assert look(place) == before
    change(place)
    assert (look(place) != before) is another


def test_found_elsewhere(place: Path) -> None:
    """The same name leads to another file, or to none and then to one."""
    assert look(place, "bin/other", "bin") != look(place)
    assert set(look(place, "nowhere")) == {str(place / "main.py")}


def test_a_link_leads_further(place: Path) -> None:
    """Where the command is a link, what it leads to counts."""
    (place / "bin" / "tool").unlink()
    (place / "bin" / "tool").symlink_to(place / "bin" / "other" / "tool")
    before = look(place)
    (place / "bin" / "other" / "tool").write_text("#!/bin/sh\nexit\n")
    assert look(place) != before

"""Limits that a process takes upon itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SHOW = (
    "import os, resource, sys; sys.path.insert(0, sys.argv[1])\n"
    "from mcphub.transport.launcher.limits import take_limits\n"
    "take_limits(*map(int, sys.argv[2:5])); take_limits(*map(int, sys.argv[5:8]))\n"
    "print(resource.getrlimit(resource.RLIMIT_DATA), resource.getrlimit(resource.RLIMIT_CPU), os.nice(0))"
)
FREE = (-1, -1)


def taken(*limits: int) -> str:
    command = [sys.executable, "-I", "-S", "-c", SHOW, str(ROOT), *map(str, limits)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()


@pytest.mark.parametrize(
    ("first", "second", "memory", "cpu", "nice"),
    [
        ((0, 0, 0), (0, 0, 0), FREE, FREE, 0),
        ((1 << 30, 0, 0), (0, 0, 0), (1 << 30, 1 << 30), FREE, 0),
        ((0, 60, 7), (0, 0, 0), FREE, (60, 65), 7),
        # what holds already is not raised
        ((1 << 29, 60, 0), (1 << 30, 600, 0), (1 << 29, 1 << 29), (65, 65), 0),
    ],
)
def test_limits(
    first: tuple[int, int, int],
    second: tuple[int, int, int],
    memory: tuple[int, int],
    cpu: tuple[int, int],
    nice: int,
) -> None:
    """Those that are given are taken, in addition to what this process has; a smaller one that holds already stays."""
    assert taken(*first, *second) == f"{memory} {cpu} {min(os.nice(0) + nice, 19)}"

"""Calls of prctl(2) that show an effect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mcphub.transport import launcher
from mcphub.transport.launcher.prctl import prctl

CODE = """
import sys
sys.path.append(sys.argv[1])
from launcher.prctl import PR_SET_NAME, become_subreaper, prctl
print(become_subreaper(), prctl(PR_SET_NAME, b"odd name"), open("/proc/self/comm").read().strip())
"""


def test_what_is_set_is_seen() -> None:
    """A process may name itself and adopt orphans."""
    command = [sys.executable, "-I", "-S", "-c", CODE, str(Path(launcher.__file__).parent.parent)]
    assert subprocess.run(command, capture_output=True, check=True, text=True).stdout == "True True odd name\n"


def test_what_the_kernel_does_not_know_is_false() -> None:
    """A refusal is an answer, not an exception."""
    assert not prctl(0x7FFFFFF, 0)
